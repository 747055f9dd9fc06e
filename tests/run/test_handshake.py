"""Two sides with one token agree; whatever else is said, at whatever place, proves nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.run.handshake import (
    ANOTHER_TOKEN,
    LARGEST_HELLO,
    LONGEST_LINE,
    NONCE,
    Answer,
    Doorkeeper,
    HandshakeError,
    Hello,
    Joiner,
    OtherVersionError,
    WrongTokenError,
    other_protocol,
)

TOKEN = b"0123456789abcdef"
HELLO = Hello(
    node_rank=1,
    nnodes=2,
    host="h1",
    slots=(0, "GPU-1"),
    device="cuda",
    bf16=True,
    prefix=("/usr/bin/python", "job.py"),
    args=("a b", "", "\n", "ä€", "\udcff"),
    local_rank_option=None,
    cwd="/data/\udcff",
    env={"OMP_NUM_THREADS": "2"},
)
ACCEPTED, BEGIN = Answer("accepted"), Answer("begin", "all are there")


class Pair:
    """Both sides, and what each has said; the nonces are counted up."""

    def __init__(self, theirs: bytes = TOKEN, ours: bytes = TOKEN, first: int = 1) -> None:
        self.joiner = Joiner(theirs, "1.0", first.to_bytes(NONCE, "big"))
        self.door = Doorkeeper(ours, "1.0", (first + 1).to_bytes(NONCE, "big"))

    def challenge(self) -> bytes:
        return self.door.feed(self.joiner.greeting)

    def said(self) -> bytes:
        """All that the joiner says, where nothing goes wrong."""
        return self.joiner.greeting + self.joiner.meet(self.challenge(), HELLO)


def test_who_holds_the_token_comes_in() -> None:
    pair = Pair()
    hello = pair.joiner.meet(pair.challenge(), HELLO)
    assert not pair.door.proved
    assert pair.door.feed(hello) == b""
    assert pair.door.proved and pair.door.hello == HELLO
    for answer in (ACCEPTED, BEGIN):
        assert pair.joiner.read(pair.door.answer(answer)) == answer


odd = st.binary(max_size=40).map(lambda data: os.fsdecode(data.replace(b"\0", b"")))


@given(args=st.lists(odd, max_size=4), cwd=odd, env=st.dictionaries(odd, odd, max_size=3))
def test_what_a_node_runs_arrives_byte_for_byte(
    args: list[str], cwd: str, env: dict[str, str]
) -> None:
    pair = Pair()
    hello = replace(HELLO, prefix=(*args, "job.py"), args=tuple(args), cwd=cwd, env=env)
    pair.door.feed(pair.joiner.meet(pair.challenge(), hello))
    assert pair.door.hello == hello


@given(st.lists(st.integers(0, 2000), max_size=5))
def test_in_whatever_pieces(cuts: list[int]) -> None:
    pair = Pair()
    said = pair.said()
    door = Doorkeeper(TOKEN, "1.0", (2).to_bytes(NONCE, "big"))
    ends = [0, *sorted(min(cut, len(said)) for cut in cuts), len(said)]
    for begin, end in pairwise(ends):
        if begin < end:
            assert door.hello is None
            door.feed(said[begin:end])
    assert door.hello == HELLO


def test_node_0_proves_itself_first() -> None:
    pair = Pair(ours=TOKEN + b"!")
    challenge = pair.challenge()
    with pytest.raises(WrongTokenError):
        pair.joiner.meet(challenge, HELLO)
    with pytest.raises(WrongTokenError):
        pair.door.feed(ANOTHER_TOKEN)


@given(st.data())
def test_one_changed_byte_of_the_joiner_is_one_too_many(data: st.DataObject) -> None:
    said = bytearray(Pair().said())
    place = data.draw(st.integers(0, len(said) - 1))
    said[place] ^= data.draw(st.integers(1, 255))
    door = Doorkeeper(TOKEN, "1.0", (2).to_bytes(NONCE, "big"))
    with suppress(HandshakeError):
        door.feed(bytes(said))
    assert door.hello is None


@given(st.data())
def test_one_changed_byte_of_node_0_is_one_too_many(data: st.DataObject) -> None:
    pair = Pair()
    challenge = bytearray(pair.challenge())
    challenge[data.draw(st.integers(0, len(challenge) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(HandshakeError):
        pair.joiner.meet(bytes(challenge), HELLO)


@given(st.data())
def test_one_changed_byte_of_an_answer_is_one_too_many(data: st.DataObject) -> None:
    pair = Pair()
    pair.door.feed(pair.joiner.meet(pair.challenge(), HELLO))
    line = bytearray(pair.door.answer(ACCEPTED))
    line[data.draw(st.integers(0, len(line) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(HandshakeError):
        pair.joiner.read(bytes(line))


@given(st.integers(0, 2000))
def test_a_part_of_it_is_nothing(length: int) -> None:
    said = Pair().said()
    door = Doorkeeper(TOKEN, "1.0", (2).to_bytes(NONCE, "big"))
    door.feed(said[: min(length, len(said) - 1)])
    assert door.hello is None


@given(st.binary(max_size=3 * LONGEST_LINE))
def test_noise_proves_nothing_and_is_not_kept(noise: bytes) -> None:
    door = Doorkeeper(TOKEN, "1.0", os.urandom(NONCE))
    try:
        reply = door.feed(noise)
    except HandshakeError:
        return
    assert reply == b"" and not door.proved and len(door._pending) < LONGEST_LINE


@given(st.binary(max_size=300))
def test_a_joiner_takes_no_noise(noise: bytes) -> None:
    pair = Pair()
    with pytest.raises(HandshakeError):
        pair.joiner.meet(noise + b"\n", HELLO)
    pair.joiner.meet(pair.challenge(), HELLO)
    with pytest.raises(HandshakeError):
        pair.joiner.read(noise + b"\n")


def test_a_replay_proves_nothing() -> None:
    said = Pair().said()
    door = Doorkeeper(TOKEN, "1.0", os.urandom(NONCE))
    with pytest.raises(WrongTokenError):
        door.feed(said)
    assert not door.proved and door.hello is None


def test_a_reflection_proves_nothing() -> None:
    """Somebody without the token has one of two nodes 0 prove what the other asks for."""
    pair = Pair()
    challenge = pair.challenge()
    proof = challenge.split()[-1].decode()
    with pytest.raises(HandshakeError):
        pair.door.feed(b"2 %s %s\n{}" % (b"0" * 64, proof.encode()))
    other = Doorkeeper(TOKEN, "1.0", os.urandom(NONCE))
    with pytest.raises(HandshakeError):
        other.feed(challenge)


def test_a_proof_is_of_one_hello() -> None:
    pair = Pair()
    hello = pair.joiner.meet(pair.challenge(), HELLO)
    line, _, body = hello.partition(b"\n")
    changed = body.replace(b"job.py", b"jab.py")
    with pytest.raises(WrongTokenError):
        pair.door.feed(line + b"\n" + changed)
    assert pair.door.hello is None


def test_answers_come_once_and_in_their_order() -> None:
    pair = Pair()
    pair.door.feed(pair.joiner.meet(pair.challenge(), HELLO))
    accepted, begin = pair.door.answer(ACCEPTED), pair.door.answer(BEGIN)
    with pytest.raises(HandshakeError):
        pair.joiner.read(begin)
    pair.joiner.read(accepted)
    with pytest.raises(HandshakeError):
        pair.joiner.read(accepted)


def test_no_more_than_a_hello_is_taken() -> None:
    pair = Pair()
    hello = pair.joiner.meet(pair.challenge(), HELLO)
    with pytest.raises(HandshakeError):
        pair.door.feed(hello + b"x")
    pair = Pair()
    pair.door.feed(pair.joiner.meet(pair.challenge(), HELLO))
    with pytest.raises(HandshakeError):
        pair.door.feed(b"x")


def test_a_command_line_that_is_too_long_is_said_here() -> None:
    pair = Pair()
    with pytest.raises(HandshakeError, match="too long"):
        pair.joiner.meet(pair.challenge(), replace(HELLO, args=("x" * LARGEST_HELLO,)))


def test_another_version_is_named_on_both_sides() -> None:
    door = Doorkeeper(TOKEN, "2.0", bytes(NONCE))
    joiner = Joiner(TOKEN, "1.0", bytes(NONCE))
    with pytest.raises(OtherVersionError, match=r"1\.0"):
        door.feed(joiner.meet(door.feed(joiner.greeting), HELLO))
    refused = Answer("refused", "zlaunch 2.0 here, 1.0 there", 2)
    assert joiner.read(door.answer(refused)) == refused


def test_another_protocol_is_named_on_both_sides() -> None:
    newer = b"zlaunch-join 2 3.1 " + b"a" * 64 + b" and more\n"
    with pytest.raises(OtherVersionError, match=r"3\.1"):
        Doorkeeper(TOKEN, "1.0", bytes(NONCE)).feed(newer)
    with pytest.raises(OtherVersionError, match=r"3\.1"):
        Joiner(TOKEN, "1.0", bytes(NONCE)).meet(newer, HELLO)
    assert other_protocol("1.0").startswith(b"zlaunch-join 1 1.0 ")


@pytest.mark.parametrize(
    "changes",
    [
        {"slots": ()},
        {"slots": (1.5,)},
        {"slots": (True,)},
        {"node_rank": "1"},
        {"nnodes": True},
        {"host": 1},
        {"host": "h1\x1b[2J"},
        {"device": "tpu"},
        {"bf16": 1},
        {"prefix": ()},
        {"args": (1,)},
        {"cwd": None},
        {"env": {"A": 1}},
        {"env": []},
        {"local_rank_option": 1},
    ],
)
def test_a_hello_with_other_fields_is_refused(changes: dict[str, object]) -> None:
    pair = Pair()
    hello = pair.joiner.meet(pair.challenge(), replace(HELLO, **changes))  # type: ignore[arg-type]
    with pytest.raises(HandshakeError, match="cannot be read"):
        pair.door.feed(hello)
    assert pair.door.proved and pair.door.hello is None
