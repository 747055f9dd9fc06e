"""What is known of a run that ended, and what is made of it. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from zlaunch.frozen import frozen


@frozen
class RankEnd:
    """How a rank ended, as far as it is known.

    `at` is in seconds of the wall clock. `stopped`: it had been told to stop before it ended.
    `signs` are counters read when it ended: oom_kills (risen during the run), shm_size and
    shm_free in bytes. `error` is the text of its TORCHELASTIC_ERROR_FILE. `place` is its host
    and device in words.
    """

    rank: int
    code: int | None = None
    signal: int | None = None
    at: float | None = None
    stopped: bool = False
    signs: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    place: str = ""

    @property
    def well(self) -> bool:
        """Whether it ended with 0."""
        return self.code == 0 and self.signal is None


@frozen
class Evidence:
    """All that a diagnosis is made from.

    `words` holds whole lines without their newline; `launcher` is who stops ranks.
    """

    ends: Mapping[int, RankEnd]
    words: Mapping[int, Sequence[str]]
    world_size: int | None = None
    config: Mapping[str, object] | None = None
    recipe: str | None = None
    hosts: Mapping[int, str] = field(default_factory=dict)
    launcher: str = "zlaunch"

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank of which something is known."""
        return tuple(sorted({*self.ends, *self.words}))

    @property
    def world(self) -> tuple[int, ...]:
        """Every rank of the run, as far as its size is known."""
        return tuple(range(self.world_size)) if self.world_size else self.ranks


@frozen
class Line:
    """A printed line that something was read from: `number` counts from 0 within the words."""

    rank: int
    number: int
    text: str


@frozen
class Cause:
    """Why a run ended: a stable code, what happened, further facts, and the ways out."""

    code: str
    ranks: tuple[int, ...]
    title: str
    details: tuple[str, ...] = ()
    mends: tuple[str, ...] = ()
    evidence: tuple[Line, ...] = ()


@frozen
class Traceback:
    """Equal tracebacks: equal but for numbers of ranks and processes, addresses and times."""

    ranks: tuple[int, ...]
    lines: tuple[str, ...]


@frozen
class Diagnosis:
    """Why a run ended, the real cause first.

    `culprits` failed of their own, the first first. `victims` says of the others why they are
    none. `noticed` ended nothing, but a person wants to know of it.
    """

    causes: tuple[Cause, ...] = ()
    culprits: tuple[int, ...] = ()
    victims: Mapping[int, str] = field(default_factory=dict)
    tracebacks: tuple[Traceback, ...] = ()
    noticed: tuple[Cause, ...] = ()
