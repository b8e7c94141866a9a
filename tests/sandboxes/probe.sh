#!/bin/bash
# What an agent may try, all at once: run inside a sandbox, by a shell or by an agent's own tool.
#
#   PROBE_HIDDEN  paths that must not be there, one a line      PROBE_SECRET  a word that must be found nowhere
#   PROBE_DECOY   a port of the host's loopback                 PROBE_RELAY   yes: port 8080 must answer; no: it must not
#   PROBE_HOST    where the workspace is on the host: a path that the first process must not show
#   PROBE_MARK    a number of seconds, by which what is left running is found from outside
#
# One line for each attempt, "held NAME" or "BROKEN NAME", and "probed" at the end.

[ "$(uname -n)" = battery ] || { echo "this is no sandbox: it would be harmed" >&2; exit 2; }

said() { if [ "$2" = 0 ]; then echo "BROKEN $1"; else echo "held $1"; fi; }
reached() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

while IFS= read -r path; do
    [ -n "$path" ] || continue
    [ -e "$path" ] || [ -L "$path" ]; said "hidden $path" $?
done <<<"$PROBE_HIDDEN"
cat /etc/shadow >/dev/null 2>&1; said shadow $?
for path in /usr/x /etc/x /x /home/x /proc/sys/kernel/hostname; do
    { : >"$path"; } 2>/dev/null; said "write $path" $?
done
for port in ${PROBE_DECOY:-} 22 53 80 443; do
    reached "$port"; said "port $port" $?
done
if [ -n "$PROBE_RELAY" ]; then
    reached 8080; answered=$?
    case "$PROBE_RELAY" in yes) [ $answered != 0 ] ;; *) [ $answered = 0 ] ;; esac; said "relay $PROBE_RELAY" $?
fi
mount -o remount,rw / 2>/dev/null; said "remount /" $?
mount -o remount,rw,bind /usr 2>/dev/null; said "remount /usr" $?
mount -t tmpfs none /mnt 2>/dev/null; said "mount" $?
# Not of other processes: our own environment holds the word that we look for.
for process in /proc/1/environ /proc/1/cmdline; do
    tr '\0' '\n' <$process 2>/dev/null | grep -qF -e "${PROBE_SECRET:-sk-planted}" -e "${PROBE_HOST:-/nowhere}"; said $process $?
done
inherited=1
for fd in /proc/self/fd/*; do
    case ${fd##*/} in 0 | 1 | 2) continue ;; esac
    case $(readlink "$fd") in "" | /proc/* | pipe:* | "$0" | */probe.sh | /memfd:battery*) ;; *) inherited=0 ;; esac
done
said descriptors $inherited
grep -q '^CapEff:\s*0000000000000000' /proc/self/status && grep -q '^NoNewPrivs:\s*1' /proc/self/status
[ $? != 0 ]; said capabilities $?
unshare -Ur true 2>/dev/null; said "user namespace" $?
kill -KILL 1 2>/dev/null; sleep 0.05; kill -0 1 2>/dev/null; [ $? != 0 ]; said "first process" $?
[ "$(ls -d /proc/[0-9]* | wc -l)" -gt 40 ]; said "other processes" $?
[ -n "$(ls -A /dev/shm)" ]; said "shared memory" $?
ls /sys/class/net/* >/dev/null 2>&1; said sys $?
for device in /dev/mem /dev/kmsg /dev/kvm /dev/fuse /dev/[sv]da* /dev/loop*; do
    [ -e "$device" ] && said "device $device" 0
done
ln -sf / "./probe-link-$$" && { ls "./probe-link-$$/root" "./probe-link-$$/boot"; } >/dev/null 2>&1; said "link out" $?
rm -f "./probe-link-$$"
if [ -n "$PROBE_MARK" ]; then
    setsid sleep "$PROBE_MARK" >/dev/null 2>&1 &
    nohup sleep "$PROBE_MARK" >/dev/null 2>&1 &
    (sleep "$PROBE_MARK" >/dev/null 2>&1 &)
    (trap '' TERM INT HUP; exec sleep "$PROBE_MARK") >/dev/null 2>&1 &
fi
echo probed
