"""Run as a program: make a listening socket in the network of another process, and hand it back.

    python -I -S joining.py PID PORT DESCRIPTOR

The socket goes through DESCRIPTOR, one end of a pair of sockets.  A program of its own, since only a process of one thread may
change its user namespace.
"""

import ctypes
import fcntl
import os
import socket
import sys

_USER, _NET = 0x10000000, 0x40000000
_OWNER = 0xB701  # ioctl_ns(2): NS_GET_USERNS


def main() -> None:
    pid, port, descriptor = map(int, sys.argv[1:])
    libc = ctypes.CDLL(None, use_errno=True)
    net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    # Not that of the process: it moves on to a second one, so that it can make no third, and there it owns no network.
    user = fcntl.ioctl(net, _OWNER)
    spaces = [(net, _NET)]
    if os.fstat(user).st_ino != os.stat("/proc/self/ns/user").st_ino:
        spaces.insert(0, (user, _USER))
    for space, kind in spaces:
        if libc.setns(space, kind):
            error = ctypes.get_errno()
            sys.exit(f"setns: {os.strerror(error)}")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    with socket.socket(fileno=descriptor) as pair:
        socket.send_fds(pair, [b"x"], [listener.fileno()])


if __name__ == "__main__":
    main()
