"""Follows the logs of all ranks in the order in which their lines arrived."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from zlaunch.system.arrivals import Arrival, ArrivalReader
from zlaunch.system.follow import Follower, Lose, Take
from zlaunch.system.rundir import RunDir


class MergingFollower(Follower):
    """A Follower whose `take` gets the bytes of all ranks as they came, by the run's index.

    What the index does not know, since it had grown too large, comes where its rank is next told
    of, or at the end.
    """

    def __init__(
        self,
        run: RunDir,
        offsets: Mapping[int, int],
        take: Take,
        attempts: Mapping[int, int] | None = None,
        lose: Lose = lambda _rank, _size: None,
    ) -> None:
        """As of a Follower; raises FileNotFoundError where the run has no index."""
        super().__init__(run, offsets, take, attempts, lose)
        self._ranks = frozenset(offsets)
        self._index = ArrivalReader(run)
        self._told: tuple[int, int, int] | None = None  # rank, attempt, offset of the last record

    def look(self, *, over: bool) -> None:
        """Take what is new in the order of the index; the rest where the run is `over`."""
        news: list[Arrival] = []
        while True:
            for record in chain(news, self._index.read()):
                self._take_in(record)
            # What the last record is about has no end yet, but for where another one begins: if
            # none has been written since the size was seen, all before that belongs to it.
            if self._told is None or self._told[0] not in self._ranks:
                break
            rank, attempt, _ = self._told
            size = self.end_of(rank) if attempt == self.attempt(rank) else 0
            first = next(self._index.read(), None)
            if first is None:
                self._read_to(rank, attempt, size)
                break
            news = [first]
        if over:
            super().read_new()

    def read_new(self) -> None:
        """Take all that is there."""
        self.look(over=True)

    def _take_in(self, record: Arrival) -> None:
        _, rank, attempt, offset, before = record
        if self._told is not None and self._told[0] in self._ranks:
            last_rank, last_attempt, begin = self._told
            self._read_to(last_rank, last_attempt, begin + before)
        if rank in self._ranks:
            self._read_to(rank, attempt, offset)
        self._told = rank, attempt, offset

    def _read_to(self, rank: int, attempt: int, end: int) -> None:
        """Take what a rank wrote up to an offset of an attempt, unless it has been taken."""
        while self.attempt(rank) < attempt:
            self.read_up_to(rank, None)
            self.go_on(rank)
        if self.attempt(rank) == attempt:
            self.read_up_to(rank, end)

    def close(self) -> None:
        """Close all files."""
        self._index.close()
        super().close()
