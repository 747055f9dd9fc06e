"""What the launcher tells an agent.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Union

from zlaunch.frozen import frozen
from zlaunch.spec.facts import Question
from zlaunch.spec.slots import Slot
from zlaunch.spec.worker import NodePlan


@frozen
class Start:
    """Start all workers of the node.

    `grace` in seconds counts where the agent has to stop them without an order. With `handler`,
    the source of `workers/stack_handler.py`, their Python stacks can be taken. Of the `signals`
    that the agent gets itself it tells the launcher, which passes them on.
    """

    plan: NodePlan
    grace: float
    handler: str = field(default="", repr=False)
    signals: tuple[int, ...] = ()


@frozen
class Stop:
    """TERM to each worker's main process; after `grace` seconds KILL to its whole group."""

    grace: float


@frozen
class Signal:
    """Pass a signal to each worker's main process."""

    signum: int


@frozen
class Input:
    """Bytes for a worker's stdin; none are the end of it.

    No more than `INPUT_WINDOW` bytes are under way, so that a worker that does not read holds
    up whoever types, and no other order waits long behind them.
    """

    rank: int
    data: bytes


INPUT_WINDOW = 256 << 10  # bytes sent and not taken yet


@frozen
class Resize:
    """The size of a worker's terminal, from the start or from now on."""

    rank: int
    rows: int
    columns: int


@frozen
class TakeStacks:
    """Say of each rank where it is, within `within` seconds.

    `thoroughly`: of all ranks, by py-spy too, which may hold one up for a moment, and with what the
    flight recorder says. Otherwise only those are disturbed that have used the processor since the
    look before, if there was one: once, or `often`, again and again for half of the time.
    """

    ask: int
    within: float
    how: Literal["once", "often", "thoroughly"]


@frozen
class TakeUsage:
    """Say what each rank uses, and its GPU: answered with `Used`."""


STACK_SIGNALS = (52, 51)
"""By these a worker is asked for its stacks; `workers/stack_handler.py` has the same."""

DUMP_PATIENCE = 8.0
"""Seconds beyond `within` for a flight recorder that was asked: its first dump takes some five."""


@frozen
class Sweep:
    """Kill what an agent that was killed here has left: whoever has this mark."""

    mark: tuple[str, ...]


@frozen
class FindRoute:
    """Ask the kernel from which address of this node `to` would be reached."""

    to: str


@frozen
class Inspect:
    """Look at the node, as the workers of `plan` will find it, within `within` seconds.

    The plan needs one worker.
    """

    plan: NodePlan
    question: Question
    within: float


@frozen
class Listen:
    """Listen where rank 0 will, until the start: on `port`, or for 0 on the one kept free."""

    port: int


@frozen
class Reach:
    """Connect to where rank 0 will listen, and let go again."""

    address: str
    port: int
    within: float


@frozen
class Ping:
    """The launcher is alive; an agent that hears nothing for `within` seconds is on its own."""

    within: float


@frozen
class Farewell:
    """The run is over: its exit code, and how it went in one line. The link closes next."""

    exit_code: int
    words: str


@frozen
class Lease:
    """Take `count` of these slots for a run, and keep them while its workers live.

    With `idle` the first that nobody else uses either. `folder` is where the locks are, "" for the
    user's own place. With a `ticket`, which is the launcher's time in nanoseconds, the node waits
    in a queue, and says each time when something changes. `devices` are (index, UUID, MIG devices)
    where the launcher knows them; else the driver is asked, with `nvml` as the source of pynvml, or
    on the launcher's machine its path.
    """

    run: str
    slots: tuple[Slot, ...]
    count: int
    idle: bool = False
    folder: str = ""
    ticket: int = 0
    devices: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    nvml: str = field(default="", repr=False)
    within: float = 30.0


@frozen
class Leave:
    """Give back the `devices` that were taken, or the place in the `queue`."""

    devices: bool = False
    queue: bool = False


Order = Union[
    Lease,
    Leave,
    Start,
    Stop,
    Signal,
    Input,
    Resize,
    TakeStacks,
    TakeUsage,
    Sweep,
    FindRoute,
    Inspect,
    Listen,
    Reach,
    Ping,
    Farewell,
]

ORDERS = (
    *(Lease, Leave, Start, Stop, Signal, Input, Resize, TakeStacks, TakeUsage),
    *(Sweep, FindRoute, Inspect, Listen, Reach, Ping, Farewell),
)
