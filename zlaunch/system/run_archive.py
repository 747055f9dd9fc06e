"""Packs a run directory into a tar archive, redacted; in bounded memory, whole or not at all."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import platform
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from zlaunch import __version__
from zlaunch.errors import InputError, ZlaunchError
from zlaunch.spec.redact_text import Redactor
from zlaunch.system.rank_log import LogReader, bounds, log_files
from zlaunch.system.rundir import RunDir

_CHUNK = 1 << 20  # bytes
_HEAD, _TAIL = 1 << 20, 7 << 20  # bytes kept of what is longer than both
_LARGE = 16 << 20  # bytes of a text that go to the disk before they go into the archive
_TEXTS = ("run.json", "events.jsonl", "ds_config.json", "metrics.jsonl", "batch.sh")
_LINE = 64 << 10  # bytes
_SILENT = {"lock", "control.sock", "stop-asked", "submission.json"}  # hold nothing for others


_Read = Callable[[int, int], bytes]


@dataclass
class Told:
    """What is in an archive, and what is not."""

    files: int = 0
    hidden: int = 0
    left_out: list[str] = field(default_factory=list)


def write_archive(
    run: RunDir, out: Path, form: str, secrets: Iterable[str], *, whole: bool, force: bool
) -> Told:
    """Write the run to `out`, as `form`: zst, gz or xz. Values of `secrets` are hidden.

    Raises InputError where it cannot be written; then nothing is left of it.
    """
    beside = out.with_name(f".{out.name}.{os.getpid()}.part") if force else out
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        fd = os.open(beside, flags, 0o600)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(fd, "wb") as file, _compressed(file, form) as stream:
            told = _Packing(run, stream, Redactor(secrets), whole=whole).all()
        if force:
            beside.replace(out)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, (OSError, ZlaunchError)) and not run.record_path.exists():
            raise InputError(f"run {run.id} is gone: it was removed meanwhile") from error
        if isinstance(error, OSError):
            raise InputError(f"{out} cannot be written: {error.strerror}") from error
        raise
    return told


@contextmanager
def _compressed(file: IO[bytes], form: str) -> Iterator[IO[bytes]]:
    if form == "zst":
        with _zstandard().ZstdCompressor(level=6).stream_writer(file, closefd=False) as stream:
            yield stream
    elif form == "gz":
        with gzip.GzipFile(fileobj=file, mode="wb", filename="") as stream:
            yield stream  # type: ignore[misc]
    else:
        with lzma.LZMAFile(file, "wb") as stream:
            yield stream


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise InputError(
            "zstandard is not installed", hint="pip install zstandard, or a name in .tar.gz"
        ) from error
    return zstandard


class _Packing:
    """Adds what belongs to a run, text after text."""

    def __init__(self, run: RunDir, stream: IO[bytes], redactor: Redactor, *, whole: bool) -> None:
        self._run, self._whole = run, whole
        self._redactor = redactor
        self._tar = tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._told = Told()

    def all(self) -> Told:
        """Add everything and end the archive."""
        try:
            return self._all()
        except BaseException:
            with suppress(Exception):  # else it complains when it is thrown away
                self._tar.fileobj.close()
            raise

    def _all(self) -> Told:
        run, world = self._run, self._run.read_record().world_size
        for name in _TEXTS:
            self._add_file(run.path / name)
        if run.has_console:
            self._add_log(run.console, run.older_console)
        for rank in range(world):
            for attempt in range(run.last_attempt(rank) + 1):
                self._add_log(run.log(rank, attempt), run.older_logs(rank, attempt))
        for path in (*sorted(run.path.glob("errors/*")), *sorted(run.path.glob("stacks-*.txt"))):
            self._add_file(path)
        self._note_others()
        self._add_about()
        self._tar.close()
        self._told.hidden = self._redactor.hidden
        return self._told

    def _add_file(self, path: Path) -> None:
        if path.is_symlink() or not path.is_file():  # not every run has every one
            return
        try:
            file = path.open("rb")
        except OSError:
            return
        with file:
            size = os.fstat(file.fileno()).st_size

            def read(begin: int, end: int) -> bytes:
                return os.pread(file.fileno(), end - begin, begin)

            name = str(path.relative_to(self._run.path))
            self._add(name, _pieces(read, self._spans(name, read, 0, size)))

    def _add_log(self, path: Path, older: Path) -> None:
        """Add a log as one, whichever files it is in."""
        name = str(path.relative_to(self._run.path))
        if path.is_symlink():  # to what is perhaps no log at all
            self._told.left_out.append(f"{name}: a link")
            return
        first, end = bounds(log_files(path, older))
        if first:
            self._told.left_out.append(f"{name}: {first:,} bytes that are gone (--log-max)")

        def read(begin: int, end: int) -> bytes:
            return LogReader(path, older, begin).read_until(end)

        self._add(name, _pieces(read, self._spans(name, read, first, end)))

    def _spans(self, name: str, read: _Read, first: int, end: int) -> list[tuple[int, int]]:
        """From where to where a text is kept: without the middle of a long one."""
        if self._whole or end - first <= _HEAD + _TAIL:
            return [(first, end)]
        # Between lines, or at least between words, so that no half of a secret is left.
        head, tail = first + _HEAD, end - _TAIL
        before, behind = read(head - _LINE, head), read(tail, tail + _LINE)
        breaks = (before.rfind(b"\n"), before.rfind(b" "), _LINE - 1)
        head += next(at for at in breaks if at >= 0) + 1 - _LINE
        breaks = (behind.find(b"\n"), behind.find(b" "), -1)
        tail += next((at for at in breaks if at >= 0), -1) + 1
        self._told.left_out.append(f"{name}: {tail - head:,} bytes in the middle (--whole)")
        return [(first, head), (tail, end)]

    def _add(self, name: str, pieces: Iterable[bytes]) -> None:
        """Add a text: its size, which a tar has in front, is known once it is redacted."""
        with tempfile.SpooledTemporaryFile(max_size=_LARGE) as text:
            for piece in pieces:
                text.write(self._redactor.feed(piece))
            text.write(self._redactor.finish())
            info = tarfile.TarInfo(f"{self._run.id}/{name}")
            info.size, info.mode, info.mtime = text.tell(), 0o600, int(time.time())
            text.seek(0)
            self._tar.addfile(info, text)
        self._told.files += 1

    def _note_others(self) -> None:
        """Say which files are left out: what is no text."""
        known = {*_TEXTS, *_SILENT, "logs", "errors", "console.log", "console.log.old"}
        others = [p for p in sorted(self._run.path.iterdir()) if p.name not in known]
        for path in others:
            if not path.match("stacks-*.txt") and not (path.is_dir() and not any(path.iterdir())):
                self._told.left_out.append(f"{path.relative_to(self._run.path)}: no text")

    def _add_about(self) -> None:
        about = {
            "run": self._run.id,
            "exported": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "zlaunch": __version__,
            "python": sys.version,
            "system": platform.platform(),
            "values_hidden": self._redactor.hidden,
            "left_out": self._told.left_out,
        }
        self._add("export.json", [json.dumps(about, indent=1).encode() + b"\n"])


def _pieces(read: _Read, spans: list[tuple[int, int]]) -> Iterator[bytes]:
    """A text in pieces; a line tells of what is left out between two spans."""
    for number, (begin, end) in enumerate(spans):
        if number:
            yield f"[zlaunch left {begin - spans[0][1]:,} bytes out here]\n".encode()
        at = begin
        while at < end and (data := read(at, min(end, at + _CHUNK))):
            at += len(data)
            yield data
