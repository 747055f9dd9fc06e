r"""Messages on the wire.

A frame is a header of five bytes (length of the body, unsigned, big endian; kind) and the
body. Kind J is a JSON object `{"type": NAME, ...fields}` in ASCII: lone surrogates, which
stand for undecodable bytes in arguments and paths, pass as `\udcXX` and arrive as they were.
Kind O is output: the rank (unsigned, four bytes, big endian), then the bytes that it wrote.
Kind I is input, of the same form: the rank, then the bytes for its stdin.

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
    Input,
    InputTaken,
    Inspect,
    Inspected,
    Lease,
    Leased,
    Leave,
    Listen,
    Listening,
    Message,
    Note,
    Output,
    Ping,
    Pong,
    Reach,
    Reached,
    Ready,
    Refused,
    Resize,
    Routed,
    Signal,
    Stacks,
    Start,
    Started,
    Stop,
    Sweep,
    TakeStacks,
    TakeUsage,
    Told,
    Unkillable,
    Usage,
    Used,
)
from zlaunch.spec.facts import Facts, Question
from zlaunch.spec.worker import NodePlan, Operators, Preload, WorkerSpec

_HEADER = struct.Struct("!IB")
_RANK = struct.Struct("!I")
_JSON, _OUTPUT, _INPUT = ord("J"), ord("O"), ord("I")
_LARGEST_BODY = 1 << 30

PREAMBLE = b"\0zlaunch agent\n"
"""What an agent says first: start files of a login shell may have printed before it."""
_MOST_NOISE = 64 << 10  # bytes before it


class ProtocolError(Exception):
    """The other side said something that is no message of ours."""


def encode(message: Message) -> bytes:
    """Return the frame of `message`."""
    if isinstance(message, (Output, Input)):
        kind = _OUTPUT if isinstance(message, Output) else _INPUT
        header = _HEADER.pack(_RANK.size + len(message.data), kind)
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
    if kind in (_OUTPUT, _INPUT) and len(body) >= _RANK.size:
        rank, data = _RANK.unpack_from(body)[0], body[_RANK.size :]
        return Output(rank, data) if kind == _OUTPUT else Input(rank, data)
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
        *(Ready, Pong, Routed, Listening, Reached, Started, Refused, Closed, Told, Unkillable),
        *(InputTaken, Resize, Stop, Signal, TakeStacks, FindRoute, Listen, Reach, Ping, Farewell),
        *(Note, Leave, TakeUsage, Used),
    )
}


def _build(name: str, fields: dict[str, Any]) -> Message:
    if name == "Exited":
        return Exited(**{**fields, "exit": Exit(**fields["exit"])})
    if name == "Start":
        signals = tuple(fields["signals"])
        return Start(_node_plan(fields["plan"]), fields["grace"], fields["handler"], signals)
    if name == "Stacks":
        lists = {name: tuple(fields[name]) for name in ("texts", "flight")}
        return Stacks(**{**fields, **lists, "usage": Usage(**fields["usage"])})
    if name == "Lease":
        devices = tuple((index, uuid, tuple(mig)) for index, uuid, mig in fields["devices"])
        return Lease(**{**fields, "slots": tuple(fields["slots"]), "devices": devices})
    if name == "Leased":
        return Leased(**{**fields, "slots": tuple(fields["slots"])})
    if name == "Sweep":
        return Sweep(tuple(fields["mark"]))
    if name == "Inspect":
        question = {**fields["question"], "packages": tuple(fields["question"]["packages"])}
        return Inspect(_node_plan(fields["plan"]), Question(**question), fields["within"])
    if name == "Inspected":
        return Inspected(fields["node_rank"], Facts.from_json(fields["facts"]))
    return _PLAIN[name](**fields)


def _node_plan(plan: dict[str, Any]) -> NodePlan:
    workers = tuple(
        WorkerSpec(w["rank"], tuple(w["argv"]), w["env"], w["cwd"], w["stdin"])
        for w in plan["workers"]
    )
    preload = plan["preload"]
    if preload is not None:
        imports = tuple((line, text) for line, text in preload["imports"])
        files = tuple((name, text) for name, text in preload["files"])
        sources = tuple((path, digest) for path, digest in preload["sources"])
        preload = Preload(imports, files, preload["within"], preload["asked"], sources)
    operators = plan["operators"]
    if operators is not None:
        builders = tuple((name, builder) for name, builder in operators["builders"])
        files = tuple((name, text) for name, text in operators["files"])
        operators = Operators(builders, files, operators["within"])
    return NodePlan(
        **{
            **plan,
            "preload": preload,
            "operators": operators,
            "workers": workers,
            "files": tuple((path, text) for path, text in plan["files"]),
            "preferred": tuple(plan["preferred"]),
        }
    )
