r"""Messages on the wire.

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
from dataclasses import asdict
from typing import Any

from zlaunch.run.messages import (
    Closed,
    Exit,
    Exited,
    Farewell,
    FindRoute,
    Inspect,
    Inspected,
    Listen,
    Listening,
    Message,
    Output,
    Ping,
    Pong,
    Reach,
    Reached,
    Ready,
    Refused,
    Routed,
    Signal,
    Start,
    Started,
    Stop,
    Told,
)
from zlaunch.spec.facts import Facts, Question
from zlaunch.spec.worker import NodePlan, WorkerSpec

_HEADER = struct.Struct("!IB")
_RANK = struct.Struct("!I")
_JSON, _OUTPUT = ord("J"), ord("O")
_LARGEST_BODY = 1 << 30

PREAMBLE = b"\0zlaunch agent\n"
"""What an agent says first: start files of a login shell may have printed before it."""
_MOST_NOISE = 64 << 10  # bytes before it


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
    """Cuts a byte stream into messages; keeps an unfinished frame for the next call.

    With `preamble` messages begin behind PREAMBLE; what came before it is `noise`.
    """

    def __init__(self, *, preamble: bool = False) -> None:
        self._pending = bytearray()
        self._begun = not preamble
        self.noise = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield every message that `data` completes.

        Raises ProtocolError where the stream is not ours.
        """
        pending = self._pending
        pending += data
        if not self._begun and not self._begin():
            return
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

    def _begin(self) -> bool:
        """Look for the preamble, and lay aside what stands before it."""
        noise, found, rest = bytes(self._pending).partition(PREAMBLE)
        self.noise = noise
        if not found:
            if len(noise) > _MOST_NOISE:
                raise ProtocolError("no agent speaks there")
            return False
        self._pending[:] = rest
        self._begun = True
        return True


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
        *(Ready, Pong, Routed, Listening, Reached, Started, Refused, Closed, Told),
        *(Stop, Signal, FindRoute, Listen, Reach, Ping, Farewell),
    )
}


def _build(name: str, fields: dict[str, Any]) -> Message:
    if name == "Exited":
        return Exited(fields["rank"], Exit(**fields["exit"]), fields["at"])
    if name == "Start":
        return Start(_node_plan(fields["plan"]), fields["grace"])
    if name == "Inspect":
        question = {**fields["question"], "packages": tuple(fields["question"]["packages"])}
        return Inspect(_node_plan(fields["plan"]), Question(**question), fields["within"])
    if name == "Inspected":
        return Inspected(fields["node_rank"], Facts.from_json(fields["facts"]))
    return _PLAIN[name](**fields)


def _node_plan(plan: dict[str, Any]) -> NodePlan:
    workers = tuple(
        WorkerSpec(w["rank"], tuple(w["argv"]), w["env"], w["cwd"]) for w in plan["workers"]
    )
    return NodePlan(
        **{
            **plan,
            "workers": workers,
            "files": tuple((path, text) for path, text in plan["files"]),
            "preferred": tuple(plan["preferred"]),
        }
    )
