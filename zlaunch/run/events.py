"""What an agent says to the launcher. `at` is the agent's wall clock, in seconds.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Union

from zlaunch.frozen import frozen
from zlaunch.spec.facts import Facts
from zlaunch.spec.slots import Slot


@frozen
class Exit:
    """How a process ended: with an exit code, or by a signal."""

    code: int | None = None
    signal: int | None = None

    @property
    def status(self) -> int:
        """The exit code as a shell gives it: 128+N for signal N."""
        return self.code if self.code is not None else 128 + (self.signal or 0)


@frozen
class Ready:
    """The agent runs and waits for orders.

    `port` is one that it keeps free for a rendezvous. Where the agent was reached through
    sshd, `address` is the one that it was reached at and `peer` the launcher's.
    """

    node_rank: int
    pid: int
    port: int
    address: str = ""
    peer: str = ""


@frozen
class Pong:
    """The agent is alive: the answer to `Ping`."""

    node_rank: int
    at: float


@frozen
class Routed:
    """The node's own address on the way to the one that `FindRoute` asked for."""

    node_rank: int
    address: str


@frozen
class Inspected:
    """The answer to `Inspect`."""

    node_rank: int
    facts: Facts


@frozen
class Listening:
    """The node listens on `port`; or it cannot, and `problem` says why."""

    node_rank: int
    port: int
    problem: str = ""


@frozen
class Reached:
    """The answer to `Reach`: `problem` is empty where the connection was made."""

    node_rank: int
    problem: str = ""


@frozen
class Leased:
    """The answer to `Lease`: the slots that were taken; or why none can be, `busy` for now.

    `problem` says why it cannot be at all, `note` what the user should know.
    """

    node_rank: int
    slots: tuple[Slot, ...] = ()
    busy: str = ""
    problem: str = ""
    note: str = ""


@frozen
class Started:
    """A worker runs."""

    rank: int
    pid: int
    at: float


@frozen
class Refused:
    """A worker could not be started; `reason` is the system's own word."""

    rank: int
    reason: str


@frozen
class Output:
    """Bytes that a worker wrote, in its order, cut anywhere."""

    rank: int
    data: bytes


@frozen
class InputTaken:
    """A worker's stdin has taken so many bytes of `Input`; with `closed` it takes no more."""

    rank: int
    count: int
    closed: bool = False


@frozen
class Exited:
    """A worker's main process has ended; its output may still be under way.

    `told` is whether the agent had told it to end before. `signs` are what the node's counters
    say of the cause (`agent/signs.py`); `error` is what the script left in
    TORCHELASTIC_ERROR_FILE.
    """

    rank: int
    exit: Exit
    at: float
    told: bool = False
    signs: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


@frozen
class Closed:
    """All output of a worker has been sent and no process of its group is left."""

    rank: int


@frozen
class Unkillable:
    """A process that does not die of KILL: what `rank` is, or started where that is -1.

    `state` is the letter that `ps` shows; `place` is where in the kernel it sleeps, if known.
    """

    node_rank: int
    rank: int
    pid: int
    name: str = ""
    state: str = ""
    place: str = ""


@frozen
class Told:
    """The agent got a signal: whoever sent it on that node means the run."""

    node_rank: int
    signum: int


@frozen
class Note:
    """Something about a node's start that the user should know; `level` is info or warning."""

    node_rank: int
    text: str
    level: str = "info"


IDLE = 0.05
"""Of a core: who uses less waits, even where it looks up now and then."""


@frozen
class Usage:
    """What a rank has used up to now.

    `cpu` of its main process and `others` of the rest of its session, in seconds; `traffic` is
    the bytes that all of them have read and written. `kernels` and `memory` are percents of its
    GPU at this moment, as in `GpuWork`; None where that is not known.
    """

    cpu: float = 0.0
    others: float = 0.0
    traffic: int = 0
    kernels: int | None = None
    memory: int | None = None


@frozen
class Stacks:
    """Where a rank is: the answer to `TakeStacks` number `ask`.

    `texts` is as faulthandler or py-spy writes it, one for each time that the rank was asked, the
    same ones once; where there is none, `why` says why. `main` is
    the number of the main thread in it. `flight` holds what the flight recorder says of each
    process group (`agent/flight.py`).
    """

    rank: int
    ask: int
    at: float
    texts: tuple[str, ...] = ()
    why: str = ""
    main: str = ""
    usage: Usage = Usage()
    flight: tuple[dict[str, Any], ...] = ()


@frozen
class Used:
    """What the ranks of a node use at this moment: the answer to `TakeUsage`.

    `ranks` maps each rank, as a text, to what is known of it: `cpu`, seconds that its processes
    have used so far, `rss` in bytes, and of its GPU `gpu_memory`, `gpu_memory_total` in bytes and
    `gpu_utilization` in percent. It lacks a rank whose main process has ended.
    """

    node_rank: int
    at: float
    ranks: Mapping[str, Mapping[str, float]]


Event = Union[
    Ready,
    Pong,
    Routed,
    Inspected,
    Listening,
    Reached,
    Leased,
    Started,
    Refused,
    Output,
    InputTaken,
    Exited,
    Closed,
    Told,
    Note,
    Stacks,
    Used,
    Unkillable,
]
