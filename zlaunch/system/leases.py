"""Leases of devices: a file a device, locked while a run uses it. The kernel lets go of the lock.

The lock alone decides; what a file says is for messages. Who waits has a ticket, a locked file as
well, and is served in the order of these. In a directory that several users share nothing that
another one wrote is followed, or believed beyond being shown.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from zlaunch.spec.leases import Claim, decode_claim

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DEVICE, _TICKET, _MUTEX = "device-", "ticket-", "mutex"
_READ = 64 << 10  # bytes of a file
_TURN = 2.0  # seconds to wait for those who are choosing at this moment

Ticket = tuple[int, str]
"""Nanoseconds since the epoch, and the run id: the same on all hosts, and the order of a queue."""


def lease_directory(asked: str) -> str:
    """Return the place: the one that was `asked` for, else the user's own on this machine.

    Neither XDG_RUNTIME_DIR nor TMPDIR: those differ from one way to log in to another, and then
    two launches would not see each other; the former is also taken away when its user logs out.
    """
    return asked or f"/tmp/zlaunch-leases-{os.geteuid()}"  # noqa: S108  # checked to be ours


class Leases:
    """What one run holds on one host, and what it sees of others."""

    def __init__(self, asked: str = "", *, make: bool = True) -> None:
        """Open the directory; `asked` is as in `lease_directory`.

        Raises OSError where it cannot be used.
        """
        self.path = lease_directory(asked)
        self._asked = asked
        self.fd = -1
        self._open_directory(make=make)
        self._held: dict[str, int] = {}
        self._ticket = -1
        self._ticket_name = ""

    def _open_directory(self, *, make: bool) -> None:
        if make:
            with suppress(FileExistsError):
                os.mkdir(self.path, 0o700)
        follow = 0 if not self._asked else os.O_NOFOLLOW
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | (_FLAGS & ~follow))
        try:
            self._shared = _check(fd, self.path, private=not self._asked)
        except OSError:
            os.close(fd)
            raise
        with suppress(OSError):  # then systemd-tmpfiles does not clear it
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = fd

    # Devices

    def holder(self, name: str) -> Claim | None:
        """Who holds a device; None where nobody does, or we."""
        if name in self._held:
            return None
        try:
            fd = self._open(_DEVICE + name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return decode_claim(os.read(fd, _READ)) if _is_locked(fd) else None
        finally:
            os.close(fd)

    def take(self, names: Collection[str], claim: Claim) -> bool:
        """Take all of these, or none; say whether it was done."""
        taken: list[str] = []
        for name in sorted(names):
            fd = self._make(_DEVICE + name)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                self.give_back(taken)
                return False
            self._held[name] = fd
            taken.append(name)
            _write(fd, claim)
        return True

    def give_back(self, names: Collection[str] | None = None) -> None:
        """Let go of these, or of all that is held."""
        for name in list(self._held if names is None else names):
            fd = self._held.pop(name)
            fcntl.flock(fd, fcntl.LOCK_UN)  # a child may have the descriptor as well
            os.ftruncate(fd, 0)  # tells those who watch
            os.close(fd)

    def is_displaced(self) -> bool:
        """Whether others, who look at the same path, do not see what is held or waits here.

        So it is where somebody has removed the directory or a file in it, or put it elsewhere.
        """
        if not _is_at(self.fd, self.path):
            return True
        own = [(_DEVICE + name, fd) for name, fd in self._held.items()]
        own += [(self._ticket_name, self._ticket)] if self._ticket >= 0 else []
        return not all(_is_at(fd, name, self.fd) for name, fd in own)

    def take_again(self, claim: Claim) -> list[str]:
        """Hold what is held at the place where others look, too; return what others took there.

        Raises OSError where there can be no such place.
        """
        self._open_directory(make=True)
        lost = []
        with self.turn():
            for name, old in list(self._held.items()):
                fd = self._make(_DEVICE + name)
                try:
                    if not os.path.sameopenfile(fd, old):
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        self._held[name], fd = fd, old
                        _write(self._held[name], claim)
                except BlockingIOError:
                    lost.append(name)
                finally:
                    os.close(fd)
        return lost

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Look and take while nobody else does; who keeps others out for long is not waited for."""
        fd = self._make(_MUTEX, os.O_RDONLY)  # so that those who watch are not woken by it
        end = time.monotonic() + _TURN
        try:
            while time.monotonic() < end:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.002)
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    # The queue

    def queue_up(self, ticket: Ticket, claim: Claim) -> None:
        """Wait, from now on, for all to see; again, with another claim, to change the words."""
        if self._ticket < 0:
            name = f"{ticket[0]:020}-{ticket[1]}-{os.getpid()}"
            beside = f".{name}"
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | _FLAGS
            self._ticket = os.open(beside, flags, 0o600, dir_fd=self.fd)
            os.fchmod(self._ticket, 0o644 if self._shared else 0o600)
            fcntl.flock(self._ticket, fcntl.LOCK_EX)
            _write(self._ticket, claim)
            # Not before it is locked: one that is not is taken for left behind.
            self._ticket_name = _TICKET + name
            os.rename(beside, self._ticket_name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        else:
            _write(self._ticket, claim)

    def leave_queue(self) -> None:
        """Wait no longer."""
        if self._ticket >= 0:
            with suppress(OSError):
                os.unlink(self._ticket_name, dir_fd=self.fd)
            os.close(self._ticket)
            self._ticket = -1

    def queue(self) -> list[tuple[Ticket, Claim]]:
        """Who waits, first come first; tickets of those who were killed are taken away."""
        found = []
        for name in sorted(os.listdir(self.fd)):
            number, _, rest = name[len(_TICKET) :].partition("-")
            if not name.startswith(_TICKET) or not number.isdigit():
                continue
            claim = self._waiting(name)
            if claim is not None:
                found.append(((int(number), rest.rpartition("-")[0]), claim))
        return found

    def before(self, ticket: Ticket, names: Collection[str]) -> Claim | None:
        """The first that came before us and waits for any of the same devices."""
        for other, claim in self.queue():
            if other >= ticket or other[1] == ticket[1]:
                continue
            if not claim.names or not set(claim.names).isdisjoint(names):
                return claim
        return None

    def _waiting(self, name: str) -> Claim | None:
        try:
            fd = self._open(name, os.O_RDONLY)
        except OSError:
            return None
        try:
            if name == self._ticket_name or _is_locked(fd):
                return decode_claim(os.read(fd, _READ))
            with suppress(OSError):  # another user's stays where it is
                os.unlink(name, dir_fd=self.fd)
        finally:
            os.close(fd)
        return None

    def close(self) -> None:
        """Let go of all."""
        self.leave_queue()
        self.give_back()
        os.close(self.fd)

    # Files

    def _make(self, name: str, how: int = os.O_RDWR) -> int:
        # With O_CREAT the kernel refuses what another user made in a sticky directory.
        with suppress(FileNotFoundError):
            return self._open(name, how)
        mode = 0o666 if self._shared else 0o600
        try:
            fd = os.open(name, how | os.O_CREAT | os.O_EXCL | _FLAGS, mode, dir_fd=self.fd)
        except FileExistsError:
            return self._open(name, how)
        os.fchmod(fd, mode)
        return fd

    def _open(self, name: str, how: int) -> int:
        fd = os.open(name, how | _FLAGS, dir_fd=self.fd)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(fd)
            raise OSError(errno.EPERM, "it is no plain file of its own", f"{self.path}/{name}")
        return fd


def _check(fd: int, path: str, *, private: bool) -> bool:
    """Whether others share the directory; raise OSError where they could harm us there."""
    found = os.fstat(fd)
    own = found.st_uid == os.geteuid()
    if private and not (own and not found.st_mode & 0o077):
        raise OSError(errno.EPERM, "it is there and not private to this user", path)
    shared = bool(found.st_mode & 0o022)
    if shared and not found.st_mode & stat.S_ISVTX:
        raise OSError(errno.EPERM, "others may take files away there; chmod +t it", path)
    return shared


def _is_at(fd: int, name: str, directory: int | None = None) -> bool:
    """Whether the name still stands for what is open."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=directory))
    except OSError:
        return False


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _write(fd: int, claim: Claim) -> None:
    data = claim.encode()
    if os.pread(fd, _READ, 0) != data:  # those who watch would be woken
        with suppress(OSError):  # a full disk: the lock is what counts
            os.pwrite(fd, data, 0)
            os.ftruncate(fd, len(data))


def describe(claim: Claim) -> str:
    """`run 20261201-... of ann, pid 812, since 12-01 09:30`."""
    user = f" of {claim.user}" if claim.user else ""
    pid = f", pid {claim.pid}" if claim.pid else ""
    since = time.strftime("%m-%d %H:%M", time.localtime(claim.since)) if claim.since else ""
    return f"run {claim.run}{user}{pid}" + (f", since {since}" if since else "")
