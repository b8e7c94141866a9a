"""A sandbox made by bubblewrap (``bwrap``), without rights of its own.

Where this process is root, the sandbox runs under a numeric user of its own that owns nothing else on this machine: root
outside is root for files, whatever it is called inside.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
from anyio.abc import Process

from pytest_battery.edges.sandboxes.confinement import Confinement, Finished, OnOutput, Serving
from pytest_battery.edges.sandboxes.limiting import limiting
from pytest_battery.edges.sandboxes.metering import metered
from pytest_battery.edges.sandboxes.options import options, packed
from pytest_battery.edges.sandboxes.ownership import given_to, taken_back
from pytest_battery.edges.sandboxes.processes import ended, finished, in_memory, started
from pytest_battery.errors import SandboxError

__all__ = ["PORT", "Bubblewrap", "open_bubblewrap"]

PORT = 8080
"""Of the one address inside that answers; every sandbox has a network of its own, so it is the same for all."""

_FIRST_UID = 1_000_000_000  # beyond any account, and beyond the ranges that containers are given
_START_SECONDS = 30.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_JOINING = Path(__file__).with_name("joining.py")
_PROBE = 'for path; do if [ -e "$path" ] || [ -L "$path" ]; then printf "%s\\n" "$path"; fi; done'
_FILES = {
    "/etc/passwd": b"root:x:0:0::/root:/usr/sbin/nologin\nagent:x:1000:1000::/home/agent:/bin/bash\n",
    "/etc/group": b"root:x:0:\nagent:x:1000:\n",
    "/etc/hosts": b"127.0.0.1 localhost battery\n",
    "/etc/resolv.conf": b"",
}
_numbers = itertools.count()


@asynccontextmanager
async def open_bubblewrap(confinement: Confinement) -> AsyncIterator[Bubblewrap]:
    """A sandbox in which all of ``hidden`` has been looked for, and not found.

    Raises `SandboxError` where bubblewrap is not there or cannot isolate, where a mount holds what must be hidden, and where
    something hidden can be seen from inside.
    """
    for program, package in (("bwrap", "bubblewrap"), ("prlimit", "util-linux")):
        if shutil.which(program) is None:
            named = package if program == "bwrap" else program
            raise SandboxError(
                f"{named} is not installed: apt-get install {package} (`battery doctor` says what works here)"
            )
    uid = _FIRST_UID + os.getpid() * 100 + next(_numbers) % 100 if os.geteuid() == 0 else None
    _refuse_mounts(confinement, stranger=uid is not None)
    with _kept_folders() if confinement.keeps else contextlib.nullcontext() as private:
        owned = [mount.host.resolve() for mount in confinement.mounts if mount.writable]
        owned += [private / "home", private / "tmp"] if private is not None else []
        try:
            if uid is not None:
                await anyio.to_thread.run_sync(given_to, uid, owned)
            sandbox = Bubblewrap(confinement, private, uid)
            await sandbox.prove()
            yield sandbox
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(taken_back, owned)


@contextlib.contextmanager
def _kept_folders() -> Iterator[Path]:
    """A folder with ``tmp`` and ``home``, for a sandbox of another user."""
    with tempfile.TemporaryDirectory(prefix="battery-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o711)  # the sandbox's user passes through, and sees nothing
        for name, mode in (("tmp", 0o1777), ("home", 0o700)):
            place = Path(directory, name)
            place.mkdir()
            place.chmod(mode)
        yield Path(directory)


def _refuse_mounts(confinement: Confinement, *, stranger: bool) -> None:
    for mount in confinement.mounts:
        if not mount.host.exists():
            raise SandboxError(f"{mount.host} is not there, and should stand at {mount.inside} in the sandbox")
        closed = next((place for place in mount.host.resolve().parents if not place.stat().st_mode & 0o001), None)
        if stranger and closed is not None:
            raise SandboxError(
                f"{mount.host} cannot be put into a sandbox: it runs under a user of its own, and {closed} is closed to "
                f"other users: move what is in it elsewhere, or chmod o+x {closed}"
            )
        for hidden in confinement.hidden:
            if hidden.resolve().is_relative_to(mount.host.resolve()):
                raise SandboxError(
                    f"{hidden} must be hidden, and {mount.host}, which holds it, is put into the sandbox"
                )


class Bubblewrap:
    """See `open_bubblewrap`."""

    kind: Literal["bubblewrap", "none"] = "bubblewrap"
    address = f"http://127.0.0.1:{PORT}"

    def __init__(self, confinement: Confinement, private: Path | None, uid: int | None) -> None:
        self._confinement, self._private, self._uid = confinement, private, uid

    async def prove(self) -> None:
        """Raises `SandboxError` where something hidden can be seen from inside."""
        # Where a link leads has to be hidden as well as the link.
        places = {place: 0 for path in self._confinement.hidden for place in (path.absolute(), path.resolve())}
        hidden = [str(place) for place in places if not self._is_own(place)]
        found = await self.run(["/bin/sh", "-c", _PROBE, "sh", *hidden], seconds=_START_SECONDS)
        if found.exit_code or found.timed_out:
            said = found.stderr.decode("utf-8", "replace").strip()
            raise SandboxError(f"what the sandbox hides could not be looked at: {said or found.exit_code}")
        if seen := found.stdout.decode("utf-8", "replace").splitlines():
            raise SandboxError(f"{seen[0]} must be hidden, and can be seen in the sandbox")

    def _is_own(self, path: Path) -> bool:
        """Whether the name of *path* is something of the sandbox's own inside: a project at /work, say, is not what stands at
        /work there.  Such a name proves nothing; that no mount holds what is hidden was looked at before."""
        own = [Path(mount.inside) for mount in self._confinement.mounts]
        return any(path.is_relative_to(place) or place.is_relative_to(path) for place in own)

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        seconds: float | None = None,
        serving: Serving | None = None,
        on_output: OnOutput | None = None,
    ) -> Finished:
        """As `Sandbox.run`."""
        with contextlib.ExitStack() as stack:
            files = {inside: stack.enter_context(_descriptor(content)) for inside, content in _FILES.items()}
            info, info_in = _pipe(stack)
            block_out, block = _pipe(stack)
            told = options(self._confinement, files, self._private)
            told += ["--info-fd", str(info_in.fileno()), "--block-fd", str(block_out.fileno())]
            # By a descriptor: the command line of the sandbox's first process can be read inside.
            arguments = stack.enter_context(_descriptor(packed(told)))
            limits = self._confinement.limits
            command = [*_as(self._uid), *limiting(limits, self._uid), "bwrap", "--args", str(arguments), "--", *argv]
            running = await started(
                command,
                called=argv[0],
                # Some agents take whatever is no terminal and no /dev/null for a part of their prompt.
                stdin=stack.enter_context(_descriptor(stdin)) if stdin else subprocess.DEVNULL,
                env={"PATH": _PATH},  # this one, too, can be read inside
                pass_fds=[*files.values(), info_in.fileno(), block_out.fileno(), arguments],
                start_new_session=True,
            )
            info_in.close()
            block_out.close()
            most = limits.output_bytes
            try:
                child = await self._first_process(info.fileno())
                first = stack.enter_context(_pidfd(child))
            except SandboxError as error:
                done = await finished(running, most, 5, lambda: _killed(running.process))
                said = done.stderr.decode("utf-8", "replace").strip()
                raise SandboxError(f"{error}: {said or f'bwrap ended with {done.exit_code}'}") from None
            except BaseException:
                await ended(running, lambda: _killed(running.process))
                raise

            def kill() -> None:
                # The kernel ends all of a pid namespace with its first process, however they hid.
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(first, signal.SIGKILL)

            # Its first process and bwrap's own are not the agent's.
            async with metered(child, limits.memory_bytes, limits.processes + 2) as meter:
                try:
                    listener = None if serving is None else await anyio.to_thread.run_sync(_listening, child)
                    async with contextlib.nullcontext() if serving is None or listener is None else serving(listener):
                        block.write(b"x")
                        done = await finished(running, most, seconds, kill, on_output)
                except BaseException:
                    await ended(running, kill)
                    raise
                used = meter.used()
            return replace(done, cpu_seconds=used.cpu_seconds, peak_bytes=used.peak_bytes)

    async def _first_process(self, info: int) -> int:
        """The pid outside of the sandbox's first process.  Raises `SandboxError` where there is none."""
        told = b""
        with anyio.move_on_after(_START_SECONDS):
            while b"}" not in told:
                await anyio.wait_readable(info)
                part = os.read(info, 4096)
                if not part:
                    break
                told += part
        try:
            return int(json.loads(told)["child-pid"])
        except (ValueError, KeyError):
            raise SandboxError("the sandbox did not start") from None


def _listening(pid: int) -> socket.socket:
    """A socket that listens in the network of process *pid*.  Raises `SandboxError`."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_JOINING), str(pid), str(PORT), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_START_SECONDS,
        )
        if done.returncode:
            raise SandboxError(
                f"the sandbox's network cannot be reached: {done.stderr.decode('utf-8', 'replace').strip()}"
            )
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)
    return listener


@contextlib.contextmanager
def _descriptor(content: bytes) -> Iterator[int]:
    descriptor = in_memory(content)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise SandboxError("the sandbox ended before it had begun") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _pipe(stack: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """Where to read, and where to write; objects, since a bare descriptor closed twice would be somebody else's."""
    out, into = os.pipe()
    return stack.enter_context(FileIO(out, "rb")), stack.enter_context(FileIO(into, "wb"))


def _as(uid: int | None) -> list[str]:
    """What runs a command as another user.  A program, since anyio gives groups on only in its newest versions."""
    return [] if uid is None else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]


def _killed(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
