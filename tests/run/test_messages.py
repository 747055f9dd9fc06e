"""Every message arrives as it was sent, however the stream is cut; all else is refused."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zlaunch
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
    TakeStacks,
    TakeUsage,
    Told,
    Usage,
    Used,
)
from zlaunch.run.orders import STACK_SIGNALS
from zlaunch.run.wire import Decoder, ProtocolError, encode
from zlaunch.spec.facts import Facts, Gpu, Question
from zlaunch.spec.worker import NodePlan, Operators, Preload, WorkerSpec

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Arguments and paths as a process gets them: any bytes; plain text of any kind besides.
typed = st.binary().map(os.fsdecode) | st.text()
ranks = st.integers(0, 2**32 - 1)
numbers = st.integers(-(2**63), 2**63)
moments = st.floats(allow_nan=False)
environments = st.dictionaries(typed, typed, max_size=4)
specs = st.builds(
    WorkerSpec,
    ranks,
    st.lists(typed, max_size=5).map(tuple),
    environments,
    st.none() | typed,
    st.sampled_from(["null", "pipe", "terminal"]),
)
plans = st.builds(NodePlan, numbers, environments, st.lists(specs, max_size=3).map(tuple))
exits = st.builds(Exit, code=numbers) | st.builds(Exit, signal=numbers)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Ready, numbers, numbers),
    st.builds(Started, ranks, numbers, moments),
    st.builds(Refused, ranks, typed),
    st.builds(Output, ranks, st.binary()),
    st.builds(Input, ranks, st.binary()),
    st.builds(InputTaken, ranks, numbers, st.booleans()),
    st.builds(Exited, ranks, exits, moments),
    st.builds(Closed, ranks),
    st.builds(Start, plans, moments),
    st.builds(Stop, moments),
    st.builds(Signal, numbers),
)


def decode(chunks: Iterable[bytes]) -> list[Message]:
    decoder = Decoder()
    return [message for chunk in chunks for message in decoder.feed(chunk)]


def frame(kind: str, body: bytes) -> bytes:
    return struct.pack("!IB", len(body), ord(kind)) + body


@relaxed
@given(messages)
def test_round_trip(message: Message) -> None:
    assert decode([encode(message)]) == [message]


@relaxed
@given(st.lists(messages, max_size=5), st.data())
def test_a_stream_may_be_cut_anywhere(sent: list[Message], data: st.DataObject) -> None:
    stream = b"".join(map(encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    ends = [0, *cuts, len(stream)]
    assert decode(stream[a:b] for a, b in pairwise(ends)) == sent


SENT: list[Message] = [
    Ready(0, 17, 29500),
    Ready(1, 18, 29501, "fd00::1", "10.0.0.9"),
    Pong(2, 1.5),
    TakeUsage(),
    Used(1, 2.5, {"3": {"cpu": 1.25, "rss": 4096}, "4": {}}),
    Inspect(NodePlan(1, {}, ()), Question(script="a b.py", packages=("torch",), nvml="x\n"), 30.0),
    Inspected(1, Facts()),
    Inspected(
        1,
        Facts(
            at=2.5,
            packages={"torch": "2.4.0", "deepspeed": None},
            gpus=(Gpu(0, "GPU-1", "H200", 1 << 37, 5, ("pid 8 (python)",), ("MIG-1",)),),
            locks=("/c/lock",),
            trouble=("é",),
        ),
    ),
    Listen(29500),
    Listening(0, 29500, "Address already in use"),
    Reach("fd00::1", 29500, 5.0),
    Reached(3),
    Routed(0, "10.0.0.1"),
    FindRoute("10.0.0.2"),
    Ping(15.0),
    Lease("run", (0, "GPU-1"), 1, True, "/l", 5, ((0, "GPU-1", ("MIG-1",)), (1, "GPU-2", ()))),
    Lease("run", (3,), 1, nvml="x\n"),
    Leased(1, (3, "MIG-1"), note="é"),
    Leased(0, busy="GPU 0 is held", problem="no driver"),
    Leave(devices=True),
    Leave(queue=True),
    Start(NodePlan(1, {"A": "\udcff"}, (WorkerSpec(3, ("", "a\nb", "é"), {}, None),)), 30.0),
    Start(NodePlan(0, {}, (), True, "/opt/python", (("/run/x/", ""), ("/c", "{}"))), 1.0),
    Start(NodePlan(0, {}, ()), 1.0, "import os\n"),
    TakeStacks(7, 2.5, "often"),
    Stacks(3, 7, 1.5),
    Stacks(3, 7, 1.5, ("a\n", "b"), "", "7f01", Usage(1.5, 2.5, 3, 100, 0), ({"group": "0"},)),
    Output(3, b"\x00\xff\r\n"),
    Output(3, b""),
    Input(3, b"\x00\xff\r\n\x04"),
    Input(2**32 - 1, b""),
    InputTaken(3, 1 << 40, closed=True),
    Resize(0, 24, 80),
    Start(NodePlan(0, {}, (WorkerSpec(0, ("x",), {}, "/", "terminal"),)), 1.0),
    Exited(3, Exit(signal=9), 1.5),
    Closed(3),
    Told(1, 15),
    Note(1, "cold start: é"),
    Note(1, "a lock was left", "warning"),
    Start(
        NodePlan(0, {}, (), preload=Preload(((1, "import é"),), (("a", "b"),), 2.5, asked=True)),
        1.0,
    ),
    Start(
        NodePlan(0, {}, (), preload=Preload((), sources=(("a.py", "0f"), ("b.py", None)))),
        1.0,
    ),
    Start(NodePlan(0, {}, (), operators=Operators((("a", "A"),), (("b", "c"),), 2.5)), 1.0),
    Farewell(143, "run r was stopped by SIGTERM"),
]


def test_every_single_cut_and_byte_by_byte() -> None:
    stream = b"".join(map(encode, SENT))
    for cut in range(len(stream) + 1):
        assert decode([stream[:cut], stream[cut:]]) == SENT
    assert decode(bytes([byte]) for byte in stream) == SENT


def test_a_message_comes_as_soon_as_it_is_whole() -> None:
    stream = encode(Closed(1))
    decoder = Decoder()
    assert list(decoder.feed(stream[:-1])) == []
    assert list(decoder.feed(stream[-1:] + stream[:3])) == [Closed(1)]
    assert list(decoder.feed(stream[3:])) == [Closed(1)]


def test_a_large_output_is_whole() -> None:
    data = os.urandom(10 << 20)
    stream = encode(Output(5, data))
    size = 1 << 20
    assert decode(stream[at : at + size] for at in range(0, len(stream), size)) == [Output(5, data)]


def test_json_frames_are_ascii() -> None:
    """So that whoever looks at a dump, or a link that is not clean, sees no control bytes."""
    body = encode(Refused(1, "é\x00\n\udc80"))[5:]
    assert all(32 <= byte < 127 for byte in body)
    assert json.loads(body) == {"type": "Refused", "rank": 1, "reason": "é\x00\n\udc80"}


@pytest.mark.parametrize(
    "stream",
    [
        frame("X", b""),
        frame("\0", b"{}"),
        frame("O", b"\x00\x00\x01"),  # no room for the rank
        frame("I", b"\x00\x00\x01"),
        frame("J", b'{"type": "Input", "rank": 1, "data": ""}'),
        frame("J", b""),
        frame("J", b"no JSON"),
        frame("J", b"\xff\xfe"),
        frame("J", b"[]"),
        frame("J", b"1"),
        frame("J", b"[" * 100_000),
        frame("J", b"null"),
        frame("J", b"{}"),
        frame("J", b'{"type": null}'),
        frame("J", b'{"type": ["Ready"]}'),
        frame("J", b'{"type": "Nothing"}'),
        frame("J", b'{"type": "Output", "rank": 1, "data": ""}'),
        frame("J", b'{"type": "Ready", "node_rank": 0}'),
        frame("J", b'{"type": "Ready", "node_rank": 0, "pid": 1, "more": 2}'),
        frame("J", b'{"type": "Exited", "rank": 0, "exit": 3, "at": 1}'),
        frame("J", b'{"type": "Start", "plan": {"node_rank": 0, "env": {}, "workers": []}}'),
        frame(
            "J",
            b'{"type": "Start", "grace": 1, "plan": {"node_rank": 0, "env": {}, "workers": [1]}}',
        ),
        b"\xff\xff\xff\xffO",
        struct.pack("!IB", (1 << 30) + 1, ord("O")),
        b"Welcome to host7! Last login: Monday\n",
    ],
)
def test_garbage_is_refused(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode([stream])


def test_what_came_before_garbage_is_still_given() -> None:
    got: list[Message] = []
    with pytest.raises(ProtocolError):
        got.extend(Decoder().feed(encode(Closed(1)) + encode(Closed(2)) + b"garbage"))
    assert got == [Closed(1), Closed(2)]


@relaxed
@given(st.binary(max_size=64), st.sampled_from("JOI?"))
def test_any_frame_is_a_message_or_refused(body: bytes, kind: str) -> None:
    try:
        (message,) = decode([frame(kind, body)])
    except ProtocolError:
        return
    assert decode([encode(message)]) == [message]


@pytest.mark.parametrize(
    ("end", "status"),
    [(Exit(code=0), 0), (Exit(code=3), 3), (Exit(signal=9), 137), (Exit(signal=15), 143)],
)
def test_status_is_what_a_shell_gives(end: Exit, status: int) -> None:
    assert end.status == status


def test_the_signals_that_stacks_are_asked_by_are_the_handler_s_own() -> None:
    source = (Path(zlaunch.__file__).parent / "workers" / "stack_handler.py").read_text()
    (said,) = re.findall(r"^ALL, MAIN = (\d+), (\d+)$", source, re.MULTILINE)
    assert tuple(map(int, said)) == STACK_SIGNALS
