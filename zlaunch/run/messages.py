"""What launcher and agents say to each other: events and orders.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from zlaunch.spec.facts import Facts, Question
from zlaunch.spec.worker import NodePlan


@dataclass(frozen=True)
class Exit:
    """How a process ended: with an exit code, or by a signal."""

    code: int | None = None
    signal: int | None = None

    @property
    def status(self) -> int:
        """The exit code as a shell gives it: 128+N for signal N."""
        return self.code if self.code is not None else 128 + (self.signal or 0)


# Events: from an agent to the launcher. `at` is the agent's wall clock, in seconds.


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Pong:
    """The agent is alive: the answer to `Ping`."""

    node_rank: int
    at: float


@dataclass(frozen=True)
class Routed:
    """The node's own address on the way to the one that `FindRoute` asked for."""

    node_rank: int
    address: str


@dataclass(frozen=True)
class Inspected:
    """The answer to `Inspect`."""

    node_rank: int
    facts: Facts


@dataclass(frozen=True)
class Listening:
    """The node listens on `port`; or it cannot, and `problem` says why."""

    node_rank: int
    port: int
    problem: str = ""


@dataclass(frozen=True)
class Reached:
    """The answer to `Reach`: `problem` is empty where the connection was made."""

    node_rank: int
    problem: str = ""


@dataclass(frozen=True)
class Started:
    """A worker runs."""

    rank: int
    pid: int
    at: float


@dataclass(frozen=True)
class Refused:
    """A worker could not be started; `reason` is the system's own word."""

    rank: int
    reason: str


@dataclass(frozen=True)
class Output:
    """Bytes that a worker wrote, in its order, cut anywhere."""

    rank: int
    data: bytes


@dataclass(frozen=True)
class Exited:
    """A worker's main process has ended; its output may still be under way."""

    rank: int
    exit: Exit
    at: float


@dataclass(frozen=True)
class Closed:
    """All output of a worker has been sent and no process of its group is left."""

    rank: int


@dataclass(frozen=True)
class Told:
    """A signal told the agent to stop: whoever sent it on that node means the run."""

    node_rank: int
    signum: int


# Orders: from the launcher to an agent.


@dataclass(frozen=True)
class Start:
    """Start all workers of the node.

    `grace` in seconds counts where the agent has to stop them without an order.
    """

    plan: NodePlan
    grace: float


@dataclass(frozen=True)
class Stop:
    """TERM to each worker's main process; after `grace` seconds KILL to its whole group."""

    grace: float


@dataclass(frozen=True)
class Signal:
    """Pass a signal to each worker's main process."""

    signum: int


@dataclass(frozen=True)
class FindRoute:
    """Ask the kernel from which address of this node `to` would be reached."""

    to: str


@dataclass(frozen=True)
class Inspect:
    """Look at the node, as the workers of `plan` will find it, within `within` seconds.

    The plan needs one worker.
    """

    plan: NodePlan
    question: Question
    within: float


@dataclass(frozen=True)
class Listen:
    """Listen where rank 0 will, until the start: on `port`, or for 0 on the one kept free."""

    port: int


@dataclass(frozen=True)
class Reach:
    """Connect to where rank 0 will listen, and let go again."""

    address: str
    port: int
    within: float


@dataclass(frozen=True)
class Ping:
    """The launcher is alive; an agent that hears nothing for `within` seconds is on its own."""

    within: float


@dataclass(frozen=True)
class Farewell:
    """The run is over: its exit code, and how it went in one line. The link closes next."""

    exit_code: int
    words: str


Event = Union[
    Ready,
    Pong,
    Routed,
    Inspected,
    Listening,
    Reached,
    Started,
    Refused,
    Output,
    Exited,
    Closed,
    Told,
]
Order = Union[Start, Stop, Signal, FindRoute, Inspect, Listen, Reach, Ping, Farewell]
Message = Union[Event, Order]
ORDERS = (Start, Stop, Signal, FindRoute, Inspect, Listen, Reach, Ping, Farewell)
