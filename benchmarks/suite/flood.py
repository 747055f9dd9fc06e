"""Four ranks that print a million lines of 75 bytes between them, and what has to arrive."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.case import Bench, Unmeasured
from harness.contender import TORCHRUN, ZLAUNCH, Contender
from harness.process import Running, worker_pids

RANKS = 4
_ALL, _FEW = 250_000, 25_000  # lines of a rank

_LINE = re.compile(rb"(?:(\d+) \| |\[default(\d+)\]:)(\d\d) (\d{7}) (x{63})")


@dataclass(frozen=True)
class Flood:
    """The same flood for each contender that can both tag lines and keep them in files."""

    bench: Bench
    directory: Path

    @property
    def lines(self) -> int:
        """Lines of one rank."""
        return _FEW if self.bench.quick else _ALL

    @property
    def command(self) -> tuple[str, ...]:
        """What the launchers start."""
        return (self.bench.script("flood.py"), str(self.directory), str(self.lines))

    def zlaunch(self) -> Contender:
        """Tags and files are what it always does."""
        return self.bench.launchers.zlaunch(RANKS, *self.command)

    def torchrun(self) -> Contender:
        """`--tee 3`: both streams of every rank, to the console and to files."""
        tee = ("--tee", "3", "--log-dir", str(self._torchrun_logs))
        return self.bench.launchers.torchrun(RANKS, *tee, *self.command)

    @property
    def _torchrun_logs(self) -> Path:
        return self.bench.scratch / "torchrun-logs"

    def prepare(self) -> None:
        """Remove what an earlier round left, 75 MB each time."""
        for directory in (self.directory, self._torchrun_logs, self.bench.launchers.home):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)

    def workers(self, process: Running) -> list[int]:
        """Wait for all ranks and return their pids."""
        return worker_pids(self.directory, RANKS, process)

    def done(self) -> bool:
        """Whether every rank has printed its last line and gone on."""
        return all((self.directory / f"done-{rank}").exists() for rank in range(RANKS))

    def check_files(self, contender: Contender) -> None:
        """Raise Unmeasured where a rank's file is not exactly what the rank wrote."""
        for rank in range(RANKS):
            path = self._file(contender, rank)
            expected = b"".join(
                f"{rank:02d} {number:07d} ".encode().ljust(74, b"x") + b"\n"
                for number in range(self.lines)
            )
            if path is None or path.read_bytes() != expected:
                raise Unmeasured(f"the file of rank {rank} is not what the rank wrote")

    def _file(self, contender: Contender, rank: int) -> Path | None:
        if contender.name == ZLAUNCH:
            found = self.bench.launchers.home.glob(f"zlaunch/runs/*/logs/rank-{rank}.log")
        elif contender.name == TORCHRUN:
            found = self._torchrun_logs.rglob(f"{rank}/stdout.log")
        else:
            return None
        return next(iter(found), None)

    def damaged_lines(self, console: bytes) -> int:
        """Count the lines that are not on the console whole, in order and under their tag."""
        whole = 0
        newest = [-1] * RANKS
        for line in console.split(b"\n"):
            match = _LINE.fullmatch(line)
            if match is None:
                continue  # the launcher's own words, or a torn line
            tag, rank, number = int(match[1] or match[2]), int(match[3]), int(match[4])
            if tag == rank and number > newest[rank]:
                newest[rank] = number
                whole += 1
        return RANKS * self.lines - whole


def make_flood(bench: Bench) -> Flood:
    return Flood(bench, bench.scratch / "flood")
