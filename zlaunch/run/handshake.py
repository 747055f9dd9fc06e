"""How a node that joins and node 0 prove to each other that they hold the same token.

    joiner   zlaunch-join 1 VERSION NONCE
    node 0   zlaunch-join 1 VERSION NONCE PROOF       of node 0, over both lines up to here
    joiner   LENGTH DIGEST PROOF                      of the joiner, over all before and these two
             its hello: LENGTH bytes of JSON
    node 0   PROOF ANSWER                             JSON; several, each over all before it too

Every proof is an HMAC-SHA256 under the token, so it is good for one connection, one side and
one place in the exchange: neither a replay nor a reflection proves anything. Whoever has not
proved himself is read as these fixed forms only, in lines of at most 256 bytes; and the joiner
says nothing of itself before node 0 has proved itself. The token never travels.

What follows the handshake on the connection is neither encrypted nor signed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, Literal

from zlaunch.frozen import frozen

PROTOCOL = 1
NONCE = 32  # bytes
LONGEST_LINE = 256  # bytes with the newline, from somebody who has not proved himself
LONGEST_ANSWER = 64 << 10
LARGEST_HELLO = 4 << 20  # a command line may have 2 MiB
ANOTHER_TOKEN = b"zlaunch-join another-token\n"
"""What a joiner says instead of a hello, so that node 0 can tell whose token differs."""

_HEAD = rb"zlaunch-join ([0-9]{1,4}) ([0-9A-Za-z.+!_-]{1,40})"
_GREETING = re.compile(_HEAD + rb" ([0-9a-f]{64})\n")
_CHALLENGE = re.compile(_HEAD + rb" ([0-9a-f]{64}) ([0-9a-f]{64})\n")
_ANY_PROTOCOL = re.compile(_HEAD + rb"[ -~]*\n")
_HELLO = re.compile(rb"([0-9]{1,8}) ([0-9a-f]{64}) ([0-9a-f]{64})\n")
_ANSWER = re.compile(rb"([0-9a-f]{64}) ([ -~]*)\n")


class HandshakeError(Exception):
    """What came is not what it had to be."""


class WrongTokenError(HandshakeError):
    """The other side holds another token, or none."""


class OtherVersionError(HandshakeError):
    """The other side is a zlaunch of `version`."""

    def __init__(self, version: str) -> None:
        super().__init__(f"zlaunch {version}")
        self.version = version


@frozen
class Hello:
    """What a node says of itself: what its workers run, where, and on which devices.

    `env` holds the few variables there that the plan depends on. The slots are to be chosen from
    `pool`, where there is one.
    """

    node_rank: int
    nnodes: int
    host: str
    slots: tuple[int | str, ...]
    device: Literal["cuda", "cpu"]
    bf16: bool
    prefix: tuple[str, ...]
    args: tuple[str, ...]
    local_rank_option: str | None
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    pool: tuple[int | str, ...] = ()


@frozen
class Answer:
    """`accepted`: wait for the others; `begin`: all are there; `refused`: leave, with the code."""

    kind: Literal["accepted", "begin", "refused"]
    words: str = ""
    exit_code: int = 0


class Joiner:
    """The joiner's side: lines go in, what is to be sent comes out."""

    def __init__(self, token: bytes, version: str, nonce: bytes) -> None:
        self._token = token
        self.greeting = _head(version, nonce) + b"\n"
        self._said = self.greeting

    def meet(self, line: bytes, hello: Hello) -> bytes:
        """Check that node 0 holds the token, and return the hello for it.

        Raises HandshakeError, or one of its kinds.
        """
        challenge = _CHALLENGE.fullmatch(line) if len(line) <= LONGEST_LINE else None
        if challenge is None or int(challenge[1]) != PROTOCOL:
            raise _not_ours(line)
        unproved = line[: challenge.start(4)]
        _check(challenge[4], _proof(self._token, "node 0", self._said + unproved))
        body = json.dumps(asdict(hello), separators=(",", ":")).encode("ascii")
        if len(body) > LARGEST_HELLO:
            raise HandshakeError(f"the command line is too long ({len(body)} bytes)")
        self._said += line + b"%d %s " % (len(body), _digest(body))
        proof = _proof(self._token, "joiner", self._said)
        self._said += proof
        return b"%d %s %s\n" % (len(body), _digest(body), proof) + body

    def read(self, line: bytes) -> Answer:
        """Return node 0's answer.

        Raises HandshakeError where it is not node 0's, or not the next one.
        """
        found = _ANSWER.fullmatch(line) if len(line) <= LONGEST_ANSWER else None
        if found is None:
            raise HandshakeError("what was read is no answer")
        _check(found[1], _proof(self._token, "answer", self._said + found[2]))
        self._said += line
        try:
            return Answer(**json.loads(found[2]))
        except (ValueError, TypeError) as error:
            raise HandshakeError("what was read is no answer") from error


class Doorkeeper:
    """Node 0's side of one connection; `hello` is there once the joiner has proved himself."""

    def __init__(self, token: bytes, version: str, nonce: bytes) -> None:
        self._token = token
        self._version = self._their_version = version
        self._head = _head(version, nonce)
        self._said = b""
        self._pending = b""
        self._expected: tuple[int, bytes] | None = None
        self.hello: Hello | None = None

    @property
    def proved(self) -> bool:
        """Whether whoever is there holds the token."""
        return self._expected is not None

    def feed(self, data: bytes) -> bytes:
        """Take what came, in whatever pieces; return what is to be sent.

        Raises HandshakeError, or one of its kinds; nothing more is to be read then.
        """
        self._pending += data
        reply = b""
        while self._expected is None:
            line, newline, rest = self._pending.partition(b"\n")
            if len(line) >= LONGEST_LINE:
                raise HandshakeError("a line that is too long")
            if not newline:
                return reply
            self._pending = rest
            reply += self._line(line + newline)
        self._take_hello(*self._expected)
        return reply

    def _line(self, line: bytes) -> bytes:
        if not self._said:
            greeting = _GREETING.fullmatch(line)
            if greeting is None or int(greeting[1]) != PROTOCOL:
                raise _not_ours(line)
            self._their_version = greeting[2].decode("ascii")
            unproved = self._head + b" "
            reply = unproved + _proof(self._token, "node 0", line + unproved) + b"\n"
            self._said = line + reply
            return reply
        if line == ANOTHER_TOKEN:
            raise WrongTokenError
        found = _HELLO.fullmatch(line)
        if found is None:
            raise HandshakeError("what was read is no hello")
        self._said += line[: found.start(3)]
        _check(found[3], _proof(self._token, "joiner", self._said))
        self._said += found[3]
        self._expected = int(found[1]), found[2]
        return b""

    def _take_hello(self, length: int, digest: bytes) -> None:
        if length > LARGEST_HELLO or len(self._pending) > length or self.hello is not None:
            raise HandshakeError("more than a hello")
        if len(self._pending) == length:
            body, self._pending = self._pending, b""
            _check(digest, _digest(body))
            if self._their_version != self._version:
                raise OtherVersionError(self._their_version)
            self.hello = _read_hello(body)

    def answer(self, answer: Answer) -> bytes:
        """Return the line for an answer; each is good once, in the order in which it is made."""
        body = json.dumps(asdict(answer), separators=(",", ":")).encode("ascii")
        if len(body) > LONGEST_ANSWER - 128:
            return self.answer(Answer(answer.kind, answer.words[:4096], answer.exit_code))
        line = _proof(self._token, "answer", self._said + body) + b" " + body + b"\n"
        self._said += line
        return line


def other_protocol(version: str) -> bytes:
    """The line for a joiner of another protocol: it says which zlaunch node 0 is."""
    return _head(version, bytes(NONCE)) + b"\n"


def _head(version: str, nonce: bytes) -> bytes:
    return b"zlaunch-join %d %s %s" % (PROTOCOL, version.encode("ascii"), nonce.hex().encode())


def _not_ours(line: bytes) -> HandshakeError:
    head = _ANY_PROTOCOL.fullmatch(line)
    if head is not None and int(head[1]) != PROTOCOL:
        return OtherVersionError(head[2].decode("ascii"))
    return HandshakeError("what was read is not of zlaunch join")


def _proof(token: bytes, side: str, said: bytes) -> bytes:
    message = side.encode("ascii") + b"\0" + said
    return hmac.new(token, message, hashlib.sha256).hexdigest().encode("ascii")


def _check(given: bytes, right: bytes) -> None:
    if not hmac.compare_digest(given, right):
        raise WrongTokenError


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode("ascii")


# The hello's fields. Whoever sends it holds the token and is of our version.

_TEXTS = ("host", "cwd")
_LISTS = ("prefix", "args")


def _read_hello(body: bytes) -> Hello:
    try:
        fields: dict[str, Any] = json.loads(body)
        hello = Hello(
            **{
                **fields,
                **{name: tuple(fields[name]) for name in ("slots", "pool", *_LISTS)},
            }
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise HandshakeError("its hello cannot be read") from error
    if not _well_formed(hello):
        raise HandshakeError("its hello cannot be read")
    return hello


def _well_formed(hello: Hello) -> bool:
    texts = [getattr(hello, name) for name in _TEXTS]
    texts += [text for name in _LISTS for text in getattr(hello, name)]
    texts += [hello.local_rank_option or ""]
    env = hello.env if isinstance(hello.env, dict) else {"": None}
    return (
        all(isinstance(text, str) for text in [*texts, *env, *env.values()])
        and all(type(number) is int for number in (hello.node_rank, hello.nnodes))
        and all(type(slot) in {int, str} for slot in (*hello.slots, *hello.pool))
        and isinstance(hello.bf16, bool)
        and hello.device in ("cuda", "cpu")
        and bool(hello.slots and hello.prefix)
        and hello.host.isprintable()
    )
