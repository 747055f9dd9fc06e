"""A plain log of any launcher, made into evidence: who printed which line, and how ranks ended.

What is held is bounded, however long the log: the last lines of each rank, and those around an
error. Lines that nobody is named for are given to the ranks whose failure nothing else explains.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zlaunch.frozen import frozen
from zlaunch.insight import tracebacks
from zlaunch.insight.evidence import Evidence, RankEnd
from zlaunch.insight.peer_log_exits import Exits
from zlaunch.insight.peer_log_tags import Style, styles, untag
from zlaunch.insight.rank_words import LONGEST, plain, without_colours
from zlaunch.insight.tracebacks import HEADER, Raised

MARKERS: tuple[str, ...] = (
    HEADER, "Watchdog caught", "terminate called", "rror: ", "Fatal Python", "return code = ",
    "exitcode", "srun: ", "zlaunch: ", "nqueued NCCL work", "loss scale", "OVERFLOW", "nan",
    "Sending process", "Command '",
)  # fmt: skip
_LAST = 2000  # lines of a rank
_MARKED = 4000  # lines of all ranks
_FOLLOWING = 60  # lines of the same rank after a marked one
_MOST_RANKS = 4096

Numbered = tuple[int, str]


@dataclass
class PeerLog:
    """Takes in lines, numbered as in the file; gives evidence at the end."""

    sample: Sequence[str]
    exits: Exits = field(default_factory=Exits)
    _last: dict[int | None, deque[Numbered]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_LAST))
    )
    _marked: dict[int | None, deque[Numbered]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_MARKED))
    )
    _keeps: dict[int | None, int] = field(default_factory=dict)
    _hosts: dict[int, str] = field(default_factory=dict)
    _styles: tuple[Style, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._styles = styles([without_colours(line) for line in self.sample])

    def take(self, number: int, line: str) -> None:
        """Take one line."""
        if len(line) > 2 * LONGEST and "\r" not in line:
            line = line[:LONGEST]
        tagged = untag(without_colours(line), self._styles)
        rank, text = tagged.rank, tagged.text
        if rank is None and self.exits.read(text):
            return
        if rank is not None and rank not in self._last and len(self._last) > _MOST_RANKS:
            rank = None
        if rank is not None and tagged.host:
            self._hosts.setdefault(rank, tagged.host)
        for marker in MARKERS:
            if marker in text:
                self._keeps[rank] = _FOLLOWING
                break
        else:
            self._keeps[rank] = self._keeps.get(rank, 0) - 1
        if self._keeps[rank] > 0:
            self._marked[rank].append((number, text))
        self._last[rank].append((number, text))

    def read(self) -> Reading:
        """What the log says in the end."""
        said = {rank: self._kept(rank) for rank in self._last if rank is not None}
        nobodys, launcher_said = _without_launcher(self._kept(None))
        for line in launcher_said:
            self.exits.read(line)
        return _settled(said, nobodys, self.exits, self._hosts)

    def _kept(self, rank: int | None) -> list[Numbered]:
        return sorted({*self._marked[rank], *self._last[rank]})


@frozen
class Reading:
    """Evidence, the file's number of each word, and whether ranks are partly a guess."""

    evidence: Evidence
    numbers: Mapping[int, Sequence[int]]
    guessed: bool = False


def _without_launcher(lines: list[Numbered]) -> tuple[list[Numbered], list[str]]:
    """Take out the tracebacks of launchers themselves; give the lines that name the failure."""
    words = plain(0, [text for _, text in lines])
    gone: set[int] = set()
    said = []
    for raised in tracebacks.find(words):
        if _of_a_launcher(raised):
            said.append(words.lines[raised.tell])
            gone |= set(range(raised.first_line, raised.end))
    return [line for at, line in enumerate(lines) if at not in gone], said


def _of_a_launcher(raised: Raised) -> bool:
    name = raised.type.rpartition(".")[2]
    files = [frame.file for frame in raised.frames]
    if name == "ChildFailedError":
        return True
    if name not in ("CalledProcessError", "SignalException", "KeyboardInterrupt", "RuntimeError"):
        return False
    tools = ("accelerate/commands/launch.py", "torch/distributed/run.py",
             "torch/distributed/launcher/api.py", "deepspeed/launcher/")  # fmt: skip
    return any(tool in file for file in files for tool in tools)


def _settled(
    said: dict[int, list[Numbered]],
    nobodys: list[Numbered],
    exits: Exits,
    hosts: Mapping[int, str],
) -> Reading:
    ends = dict(exits.known())
    world = exits.world_size
    guessed = False
    if exits.nameless is not None and not any(not end.well for end in ends.values()):
        ranks = _who_failed(said, ends, world, exits.nameless)
        ends |= {rank: replace(exits.nameless, rank=rank) for rank in ranks}
        guessed = len(ranks) > 1
    owners = _owners(said, nobodys, ends, world)
    raised = any(HEADER in text for _, text in nobodys)
    guessed = guessed or (raised and len(owners) == 1 and bool(said) and owners[0] not in ends)
    for rank in owners:
        said[rank] = sorted([*said.get(rank, []), *nobodys])
    evidence = Evidence(
        ends,
        {rank: [text for _, text in lines] for rank, lines in sorted(said.items())},
        world,
        hosts={**exits.hosts, **hosts},
        launcher=exits.launcher,
    )
    numbers = {rank: [number for number, _ in lines] for rank, lines in said.items()}
    return Reading(evidence, numbers, guessed)


def _failing(said: Mapping[int, Sequence[Numbered]]) -> set[int]:
    """Ranks that printed a traceback under their own tag."""
    return {rank for rank, lines in said.items() if any(HEADER in text for _, text in lines)}


def _who_failed(
    said: Mapping[int, Sequence[Numbered]],
    ends: Mapping[int, RankEnd],
    world: int | None,
    how: RankEnd,
) -> list[int]:
    """The ranks that a launcher may mean which names none.

    One that printed a traceback explains itself, unless a signal ended it.
    """
    raising = _failing(said)
    if raising and how.signal is None:
        return []
    ranks = range(world) if world else sorted(said) or [0]
    return [rank for rank in ranks if rank not in raising and rank not in ends]


def _owners(
    said: Mapping[int, Sequence[Numbered]],
    nobodys: Sequence[Numbered],
    ends: Mapping[int, RankEnd],
    world: int | None,
) -> list[int]:
    """The ranks that the lines without a name are given to."""
    if not nobodys:
        return []
    raising = _failing(said)
    failed = [rank for rank, end in ends.items() if not end.well and not end.stopped]
    unexplained = sorted(rank for rank in failed if rank not in raising)
    if unexplained:
        return unexplained
    count = sum(1 for _, text in nobodys if HEADER in text)
    if world and not raising and count >= world > 1 and not ends:
        return list(range(world))
    return [min(said, default=0) if said else 0]
