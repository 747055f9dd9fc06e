"""A node that joins: finds node 0, proves itself, and is the agent of its own workers.

Standard library only, as everything of an agent.
"""

from __future__ import annotations

import os
import socket
import time
from functools import partial
from typing import Any, Callable

from zlaunch import __version__
from zlaunch.agent.keeper import leave_keeper_behind
from zlaunch.agent.node import Agent
from zlaunch.errors import BackendError, InputError, TimeLimitError
from zlaunch.run.handshake import (
    ANOTHER_TOKEN,
    LONGEST_ANSWER,
    LONGEST_LINE,
    NONCE,
    Answer,
    HandshakeError,
    Hello,
    Joiner,
    OtherVersionError,
    WrongTokenError,
)
from zlaunch.run.messages import Farewell, Start
from zlaunch.system.bounded import within
from zlaunch.system.connection import end_watch, keep_watch

_ATTEMPT = 5.0  # seconds for one try to connect and be answered
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)  # seconds between tries; the last goes on
_TELL_AFTER, _TELL_EVERY = 2.0, 10.0  # seconds: what is waited for
_SLACK = 5.0  # seconds that node 0 gets to say that it gave up

Say = Callable[[str], None]


class _NotYetError(Exception):
    """This try came to nothing; its text says why."""


class Member:
    """One node's way into a run and through it. `endpoint` is node 0's address in words."""

    def __init__(
        self,
        hello: Hello,
        where: tuple[str, int],
        token: bytes,
        heartbeat: float,
        say: Say,
        on_start: Callable[[Start], None] = lambda _: None,
    ) -> None:
        """`on_start` is called once the workers of this node are being started."""
        self._hello = hello
        self._where = where
        self._token = token
        self._heartbeat = heartbeat
        self._say = say
        self._on_start = on_start
        host, port = where
        self._node_0 = f"node 0 at [{host}]:{port}" if ":" in host else f"node 0 at {host}:{port}"

    def take_part(self, timeout: float) -> Farewell:
        """Join within `timeout` seconds, serve until the run is over, return how it ended.

        Raises InputError where node 0 does not want this node, BackendError where it is not
        there or was lost.
        """
        sock, joiner = self._join(time.monotonic() + timeout)
        try:
            self._say(f"joined {self._node_0} as node {self._hello.node_rank}")
            refused = self._wait(sock, joiner, timeout)
            if refused is not None:
                return refused
            sock.settimeout(None)
            end_watch(sock)
            will = leave_keeper_behind(sock.fileno())
            agent = _Agent(self._hello.node_rank, sock.fileno(), sock.fileno(), will)
            agent.on_start = self._on_start
            agent.run()
        finally:
            sock.close()
        if agent.keeper_gone:
            raise BackendError("the process that stood behind this node was killed")
        if agent.farewell is None:
            raise self._gone()
        return agent.farewell

    def _gone(self) -> BackendError:
        return BackendError(f"{self._node_0} is gone")

    # Joining

    def _join(self, deadline: float) -> tuple[socket.socket, Joiner]:
        begun = time.monotonic()
        tell_at = begun + _TELL_AFTER
        tries = 0
        while True:
            try:
                return self._try(deadline)
            except _NotYetError as error:
                reason = str(error)
            now = time.monotonic()
            if now >= deadline:
                raise TimeLimitError(
                    f"{self._node_0} could not be joined within {now - begun:.0f} s ({reason})",
                    hint="is it started, and is this its address? --rendezvous, --join-timeout",
                )
            if now >= tell_at:
                tell_at = now + _TELL_EVERY
                self._say(f"waiting for {self._node_0} ({reason})")
            pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
            tries += 1
            time.sleep(max(0.0, min(pause, deadline - now)))

    def _try(self, deadline: float) -> tuple[socket.socket, Joiner]:
        sock = self._connect(deadline)
        try:
            keep_watch(sock, self._heartbeat)
            return sock, self._shake_hands(sock)
        except OSError as error:
            sock.close()
            raise _NotYetError(_word(error)) from error
        except BaseException:
            sock.close()
            raise

    def _connect(self, deadline: float) -> socket.socket:
        """Connect to the first address that answers; names may appear only while we wait."""
        reason = "its name has no address"
        left = max(0.1, deadline - time.monotonic())
        (found,) = within(left, [partial(_look_up, *self._where)])
        if found is None:
            raise _NotYetError("its name is not answered for")
        if isinstance(found, Exception):
            raise _NotYetError(f"its name does not resolve: {_word(found)}")
        for family, kind, protocol, _, address in found:
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:  # a kind of address that this machine does not have
                reason = _word(error)
                continue
            try:
                sock.settimeout(max(0.1, min(_ATTEMPT, deadline - time.monotonic())))
                sock.connect(address)
            except OSError as error:
                sock.close()
                reason = _word(error)
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise _NotYetError(reason)

    def _shake_hands(self, sock: socket.socket) -> Joiner:
        joiner = Joiner(self._token, __version__, os.urandom(NONCE))
        limit = time.monotonic() + _ATTEMPT
        sock.sendall(joiner.greeting)
        try:
            hello = joiner.meet(_line(sock, LONGEST_LINE, limit), self._hello)
        except WrongTokenError as error:
            sock.sendall(ANOTHER_TOKEN)
            raise InputError(
                f"{self._node_0} holds another token",
                hint="--token-file has to be the same on every node",
            ) from error
        except OtherVersionError as error:
            raise InputError(
                f"{self._node_0} has zlaunch {error.version}, and this is {__version__}",
                hint="every node needs the same version",
            ) from error
        except HandshakeError as error:
            raise _NotYetError(f"what answers there: {error}") from error
        sock.settimeout(_ATTEMPT)
        sock.sendall(hello)
        answer = self._answer(sock, joiner, limit)
        if answer.kind == "refused":
            raise InputError(f"{self._node_0} refused this node: {answer.words}")
        return joiner

    def _answer(self, sock: socket.socket, joiner: Joiner, limit: float) -> Answer:
        try:
            return joiner.read(_line(sock, LONGEST_ANSWER, limit))
        except HandshakeError as error:
            raise _NotYetError(f"what answers there: {error}") from error

    # Waiting for the others

    def _wait(self, sock: socket.socket, joiner: Joiner, timeout: float) -> Farewell | None:
        """Wait for the word to begin; return the other one, where node 0 gives up."""
        try:
            answer = self._answer(sock, joiner, time.monotonic() + timeout + _SLACK)
        except (OSError, _NotYetError) as error:
            if isinstance(error, TimeoutError) and error.errno is None:  # ours, not the kernel's
                words = f"{self._node_0} did not begin within {timeout:g} s (--join-timeout)"
                raise TimeLimitError(words) from error
            raise self._gone() from error
        return None if answer.kind == "begin" else Farewell(answer.exit_code, answer.words)


class _Agent(Agent):
    on_start: Callable[[Start], None]

    def _start(self, order: Start) -> None:
        super()._start(order)
        self.on_start(order)


def _look_up(host: str, port: int) -> list[Any] | Exception:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return error


def _line(sock: socket.socket, longest: int, limit: float) -> bytes:
    """Read to the end of a line and not a byte further: what follows may be an order."""
    line = b""
    while not line.endswith(b"\n") and len(line) <= longest:
        sock.settimeout(max(0.01, limit - time.monotonic()))
        byte = sock.recv(1)
        if not byte:
            raise ConnectionResetError("it closed the connection")
        line += byte
    return line


def _word(error: Exception) -> str:
    """The system's word for it, in lower case as it stands inside a sentence."""
    if isinstance(error, TimeoutError):  # socket.timeout, which has no word
        return "it does not answer"
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]
