r"""What launcher and agents say to each other, and its form on the wire.

A frame is a header of five bytes (length of the body, unsigned, big endian; kind) and the
body. Kind J is a JSON object `{"type": NAME, ...fields}` in ASCII: lone surrogates, which
stand for undecodable bytes in arguments and paths, pass as `\udcXX` and arrive as they were.
Kind O is output: the rank (unsigned, four bytes, big endian), then the bytes that it wrote.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Union

from zlaunch.spec.worker import NodePlan, WorkerSpec

_HEADER = struct.Struct("!IB")
_RANK = struct.Struct("!I")
_JSON, _OUTPUT = ord("J"), ord("O")
_LARGEST_BODY = 1 << 30


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


@dataclass(frozen=True)
class Routed:
    """The node's own address on the way to the one that `FindRoute` asked for."""

    node_rank: int
    address: str


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
class Asked:
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
class Ping:
    """The launcher is alive; an agent that hears nothing for `within` seconds is on its own."""

    within: float


@dataclass(frozen=True)
class Farewell:
    """The run is over: its exit code, and how it went in one line. The link closes next."""

    exit_code: int
    words: str


Event = Union[Ready, Pong, Routed, Started, Refused, Output, Exited, Closed, Asked]
Order = Union[Start, Stop, Signal, FindRoute, Ping, Farewell]
Message = Union[Event, Order]


class ProtocolError(Exception):
    """The other side said something that is no message of ours."""


def encode(message: Message) -> bytes:
    """Return the frame of `message`."""
    if isinstance(message, Output):
        header = _HEADER.pack(_RANK.size + len(message.data), _OUTPUT)
        return b"".join((header, _RANK.pack(message.rank), message.data))
    fields = {"type": type(message).__name__, **asdict(message)}
    body = json.dumps(fields, separators=(",", ":")).encode("ascii")
    return _HEADER.pack(len(body), _JSON) + body


class Decoder:
    """Cuts a byte stream into messages; keeps an unfinished frame for the next call."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield every message that `data` completes.

        Raises ProtocolError where the stream is not ours.
        """
        pending = self._pending
        pending += data
        start = 0
        while len(pending) - start >= _HEADER.size:
            length, kind = _HEADER.unpack_from(pending, start)
            if length > _LARGEST_BODY:
                raise ProtocolError(f"a frame of {length} bytes")
            body = start + _HEADER.size
            if len(pending) - body < length:
                break
            start = body + length
            yield _decode(kind, bytes(memoryview(pending)[body:start]))
        del pending[:start]


def _decode(kind: int, body: bytes) -> Message:
    if kind == _OUTPUT and len(body) >= _RANK.size:
        return Output(_RANK.unpack_from(body)[0], body[_RANK.size :])
    if kind != _JSON:
        raise ProtocolError(f"a frame of kind {kind}")
    try:
        fields: dict[str, Any] = json.loads(body)
        return _build(fields.pop("type"), fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"a body that is no message: {body[:200]!r}") from error


_PLAIN = {
    kind.__name__: kind
    for kind in (
        *(Ready, Pong, Routed, Started, Refused, Closed, Asked),
        *(Stop, Signal, FindRoute, Ping, Farewell),
    )
}


def _build(name: str, fields: dict[str, Any]) -> Message:
    if name == "Exited":
        return Exited(fields["rank"], Exit(**fields["exit"]), fields["at"])
    if name == "Start":
        return Start(_node_plan(fields["plan"]), fields["grace"])
    return _PLAIN[name](**fields)


def _node_plan(plan: dict[str, Any]) -> NodePlan:
    workers = tuple(
        WorkerSpec(w["rank"], tuple(w["argv"]), w["env"], w["cwd"]) for w in plan["workers"]
    )
    files = tuple((path, text) for path, text in plan["files"])
    return NodePlan(plan["node_rank"], plan["env"], workers, plan["inherit"], plan["python"], files)
