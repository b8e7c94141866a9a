"""What bubblewrap is told: an allow-list root, private everything, and no way up."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_battery.edges.sandboxes.confinement import Confinement
from pytest_battery.errors import SandboxError

__all__ = ["INSIDE_UID", "base_environment", "options", "packed"]

INSIDE_UID = 1000
_SYSTEM = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")
_ETC = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl", "ca-certificates", "nsswitch.conf"),
    *("localtime", "mime.types", "terminfo", "profile", "bash.bashrc"),
)


def base_environment(home: str) -> dict[str, str]:
    """What every process needs; nothing of it is this machine's."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": "/tmp",
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_STATE_HOME": f"{home}/.local/state",
    }


def options(confinement: Confinement, files: dict[str, int], private: Path | None) -> list[str]:
    """All options but those of descriptors.  *files* maps small files inside to descriptors that hold them; *private* is the
    folder with ``tmp`` and ``home`` where these are kept."""
    found = list(_namespaces())
    found += ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM:
        path = f"/{name}"
        if os.path.islink(path):
            found += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            found += ["--ro-bind", path, path]
    for name in _ETC:
        found += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    found += ["--proc", "/proc", "--dev", "/dev", "--perms", "0755", "--tmpfs", "/run", "--dir", "/home"]
    size = str(confinement.limits.tmp_bytes)
    for inside, mode, name in (("/tmp", "1777", "tmp"), ("/home/agent", "0700", "home")):
        if private is None:
            found += ["--perms", mode, "--size", size, "--tmpfs", inside]
        else:
            found += ["--bind", str(private / name), inside]
    found += ["--perms", "1777", "--size", size, "--tmpfs", "/var/tmp", "--perms", "1777", "--size", size]
    found += ["--tmpfs", "/dev/shm"]
    for inside, descriptor in files.items():
        found += ["--perms", "0444", "--ro-bind-data", str(descriptor), inside]
    for mount in confinement.mounts:
        found += ["--bind" if mount.writable else "--ro-bind", str(mount.host), mount.inside]
    for name, value in {**base_environment("/home/agent"), **confinement.environment}.items():
        found += ["--setenv", name, value]
    # The root itself is a writable tmpfs until here.
    return [*found, "--remount-ro", "/", "--chdir", confinement.workdir]


def packed(told: Iterable[str]) -> bytes:
    """What bubblewrap reads options from.  Raises `SandboxError` for one that holds a NUL: it would be two, the second of
    which whoever wrote it has chosen."""
    told = list(told)
    if any("\0" in option for option in told):
        raise SandboxError("a path or an environment variable given to the sandbox holds a NUL")
    return b"".join(os.fsencode(option) + b"\0" for option in told)


def _namespaces() -> Iterator[str]:
    for kind in ("user", "ipc", "pid", "net", "uts"):
        yield f"--unshare-{kind}"
    yield from ("--unshare-cgroup-try", "--hostname", "battery", "--uid", str(INSIDE_UID), "--gid", str(INSIDE_UID))
    # Without the first, root of this machine stays root inside; without the second, it could be made again.
    yield from ("--cap-drop", "ALL", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv")
