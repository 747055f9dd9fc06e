"""How ranks ended, as the launcher itself says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zlaunch.insight.evidence import RankEnd
from zlaunch.insight.exits import TERM, signal_number

_ELASTIC = re.compile(r"torch[./]distributed[./](?:elastic|run|launcher|agent)")
_CLOSING = re.compile(r"Sending process (\d+) closing signal")
_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_FIELD = re.compile(r"\s+(time|host|rank|exitcode|error_file|traceback)\s*: ?(.*)")
_FRAME = re.compile(r"={10,}|-{10,}|\[\d+\]:|Failures:|\s+<NO_OTHER_FAILURES>|\S+ FAILED")
_ROOT = "Root Cause (first observed failure):"
_SPAWNED = re.compile(r"process (\d+) spawned with command")
_DONE = re.compile(r"Process (\d+) exits successfully")
_WORLD = re.compile(r"dist_world_size=(\d+)")
_RETURN = re.compile(r"exits with return code = (-?\d+)")
_SRUN = re.compile(r"srun: error: (\S+): tasks? ([\d,-]+): (.+)")
_OOM = re.compile(r"(?:slurmstepd|srun): error: .*(?:oom[_-]kill|Out Of Memory)")
_ZLAUNCH = re.compile(
    r"zlaunch: rank (\d+)(?: on (.+?))?(?: \(pid \d+\))? failed first(?:, at [\d:.]+)?: "
    r"(?:exit code (\d+)|killed by signal (\d+))"
)
_ZLAUNCH_OTHERS = re.compile(r"zlaunch: .*stopped by zlaunch")
_ZLAUNCH_WORLD = re.compile(r"zlaunch: run \S+ .*?: (\d+) ranks?,")
_STATUS = re.compile(
    r"(?:subprocess\.)?CalledProcessError: Command .* (?:returned non-zero exit status (\d+)|"
    r"died with <Signals\.(SIG\w+)(?:: \d+)?>)"
)
_SHELL = re.compile(
    r"\S+: line \d+: +\d+ (Killed|Segmentation fault|Bus error|Aborted|Terminated|"
    r"Illegal instruction)\b"
)
_BARE = re.compile(
    r"(Killed|Segmentation fault|Bus error|Aborted|Illegal instruction)(?: \(core dumped\))?"
)
_SOON = 10  # lines
_WORDS = {
    "Killed": "SIGKILL", "Segmentation fault": "SIGSEGV", "Bus error": "SIGBUS",
    "Aborted": "SIGABRT", "Terminated": "SIGTERM", "Illegal instruction": "SIGILL",
    "Out Of Memory": "SIGKILL",
}  # fmt: skip


def by_code(rank: int, code: int) -> RankEnd:
    """The end that Python's way of writing it means: -9 is signal 9."""
    return RankEnd(rank, signal=-code) if code < 0 else RankEnd(rank, code=code)


@dataclass
class Exits:
    """Takes in the lines of a launcher; `ends` is what they say."""

    ends: dict[int, RankEnd] = field(default_factory=dict)
    hosts: dict[int, str] = field(default_factory=dict)
    world_size: int | None = None
    launcher: str = "the launcher"
    nameless: RankEnd | None = None  # of a rank that the launcher does not name
    _entry: dict[str, str] = field(default_factory=dict)
    _root: bool = False
    _closed: set[str] = field(default_factory=set)
    _pids: list[str] = field(default_factory=list)
    _oom: bool = False
    _bare: bool = False
    _after: int = 0

    def read(self, line: str) -> bool:
        """Take one line; say whether it is the launcher's."""
        if "[launch.py:" in line or "[runner.py:" in line or "[multinode_runner.py:" in line:
            self._deepspeed(line)
            return True
        if line.startswith("zlaunch: "):
            self._zlaunch(line)
            return True
        if line.startswith(("srun: ", "slurmstepd: ")):
            self._srun(line)
            return True
        known = self._torchrun(line) or self._others(line)
        if self._bare and not known:
            self._after += 1
            if self._after > _SOON:  # something else than a shell printed that word
                self.nameless, self._bare = None, False
        return known

    # torchrun

    def _torchrun(self, line: str) -> bool:
        if _ELASTIC.search(line) and not line.startswith(" "):
            self._elastic(line)
            return not line.startswith("torch.")
        entry = _FIELD.match(line)
        if entry is not None:
            self._entry[entry[1]] = entry[2]
            if entry[1] == "exitcode":
                self._enter()
            return True
        if line.startswith(_ROOT):
            self._root = True
            return True
        return _FRAME.fullmatch(line) is not None

    def _elastic(self, line: str) -> None:
        closing = _CLOSING.search(line)
        if closing is not None:
            self._closed.add(closing[1])
        failed = _FAILED.search(line)
        if failed is not None and int(failed[2]) not in self.ends:
            self.ends[int(failed[2])] = by_code(int(failed[2]), int(failed[1]))

    def _enter(self) -> None:
        """One failure of the table: seconds are whole, so the root cause comes before equals."""
        rank = re.match(r"(\d+)", self._entry.get("rank", ""))
        code = re.match(r"(-?\d+)(?: \(pid: (\d+)\))?", self._entry["exitcode"])
        if rank is None or code is None:
            return
        digits = re.sub(r"\D", "", self._entry.get("time", ""))
        at = float(digits) if digits else 0.0
        end = by_code(int(rank[1]), int(code[1]))
        stopped = code[2] in self._closed or (end.signal == TERM and not self._root)
        self.ends[end.rank] = replace(end, at=at + (0 if self._root else 0.5), stopped=stopped)
        if self._entry.get("host"):
            self.hosts[end.rank] = self._entry["host"]

    # deepspeed

    def _deepspeed(self, line: str) -> None:
        world, spawned = _WORLD.search(line), _SPAWNED.search(line)
        done, returned = _DONE.search(line), _RETURN.search(line)
        if world is not None:
            self.world_size = int(world[1])
        elif spawned is not None:
            self._pids.append(spawned[1])
        elif done is not None and done[1] in self._pids:
            rank = self._pids.index(done[1])
            if len(self._pids) == self.world_size:  # of one host, or else ranks are not places
                self.ends[rank] = RankEnd(rank, code=0)
        elif returned is not None:
            # It names the command that was started last, whichever has failed.
            self.nameless = by_code(-1, int(returned[1]))

    # Others

    def _zlaunch(self, line: str) -> None:
        self.launcher = "zlaunch"
        failed = _ZLAUNCH.match(line)
        if failed is not None:
            rank = int(failed[1])
            code = int(failed[3]) if failed[3] else None
            number = int(failed[4]) if failed[4] else None
            self.ends[rank] = RankEnd(rank, code, number, place=failed[2] or "")
        elif _ZLAUNCH_OTHERS.match(line):
            for part in line.removeprefix("zlaunch: ").split("; "):
                ranks, _, how = part.partition(": ")
                if how.startswith("stopped by zlaunch"):
                    for rank in _ranks(ranks.partition(" ")[2]):
                        self.ends[rank] = RankEnd(rank, signal=TERM, stopped=True)
        world = _ZLAUNCH_WORLD.match(line)
        if world is not None:
            self.world_size = int(world[1])

    def _srun(self, line: str) -> None:
        self._oom = self._oom or _OOM.match(line) is not None
        found = _SRUN.match(line)
        if found is None:
            return
        how = found[3]
        code = re.match(r"Exited with exit code (\d+)", how)
        name = next((name for words, name in _WORDS.items() if how.startswith(words)), None)
        number = signal_number(name) if name is not None else None
        if code is None and number is None:
            return
        for rank in _ranks(found[2]):
            signs = {"oom_kills": 1} if self._oom or how.startswith("Out Of") else {}
            self.hosts[rank] = found[1]
            self.ends[rank] = RankEnd(rank, int(code[1]) if code else None, number, signs=signs,
                                      stopped=number == TERM)  # fmt: skip

    def _others(self, line: str) -> bool:
        status, shell = _STATUS.match(line), _SHELL.match(line)
        if status is not None and "accelerate" not in line and "python" not in line:
            return False
        if status is not None:
            code = int(status[1]) if status[1] else None
            self.nameless = RankEnd(-1, code, signal_number(status[2] or ""))
        elif shell is not None:
            self.nameless = RankEnd(-1, signal=signal_number(_WORDS[shell[1]]))
        bare = _BARE.fullmatch(line)
        if bare is not None:
            self.nameless = RankEnd(-1, signal=signal_number(_WORDS[bare[1]]))
            self._bare, self._after = True, 0
        return shell is not None or bare is not None

    def known(self) -> Mapping[int, RankEnd]:
        """The ends of ranks that are named; those that were told to stop marked as such."""
        if any(not end.well and end.signal != TERM for end in self.ends.values()):
            return {rank: replace(end, stopped=True) if end.signal == TERM else end
                    for rank, end in self.ends.items()}  # fmt: skip
        return dict(self.ends)


def _ranks(text: str) -> list[int]:
    """`0, 2-4` and `0,2-4`."""
    ranks: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        ranks += range(int(first), min(int(last or first), int(first) + 100_000) + 1)
    return ranks
