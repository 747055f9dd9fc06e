"""Where node 0 waits for the other nodes: it listens, lets in who holds the token, counts.

One loop serves all callers, so nobody who is silent, slow or hostile holds anyone up.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from zlaunch import __version__
from zlaunch.errors import BackendError, TimeLimitError
from zlaunch.run.handshake import (
    NONCE,
    Answer,
    Doorkeeper,
    HandshakeError,
    Hello,
    OtherVersionError,
    WrongTokenError,
    other_protocol,
)
from zlaunch.spec.joining import describe_nodes
from zlaunch.system.connection import keep_watch, plain_address
from zlaunch.system.loop import READ, Loop, Timer, read_chunk

_CHUNK = 64 << 10  # bytes read at once
_HANDSHAKE = 5.0  # seconds for a caller to prove himself and say his hello
_CALLERS = 128  # at once, or two a node; one more, and the oldest who proved nothing has to go
_STRANGERS = 8  # addresses of which it is said that they are none of us
_TELL_AFTER, _TELL_EVERY = 2.0, 10.0  # seconds: who is missing

Say = Callable[[str], None]


@dataclass(eq=False)
class Caller:
    """A connection, and who is at its other end as far as that is known."""

    sock: socket.socket
    door: Doorkeeper
    address: str
    limit: Timer | None = None

    @property
    def hello(self) -> Hello:
        """What a node that was let in has said of itself."""
        assert self.door.hello is not None
        return self.door.hello

    @property
    def here(self) -> str:
        """Our own address at this connection."""
        return plain_address(self.sock.getsockname()[0])

    def send(self, data: bytes) -> bool:
        """Send a few bytes to somebody who has not been sent much before; else give up on him."""
        try:
            return self.sock.send(data) == len(data)
        except OSError:
            return False


class Lobby:
    """Used once. `mine` is the hello that node 0 would say; `tell` is for -v, `say` is not.

    `missing` hears for which nodes it waits, whenever that has changed.
    """

    def __init__(
        self,
        listener: socket.socket,
        token: bytes,
        mine: Hello,
        heartbeat: float,
        say: Say,
        tell: Say,
        missing: Say = lambda _: None,
    ) -> None:
        self._listener = listener
        self._token = token
        self._mine = mine
        self._heartbeat = heartbeat
        self._say = say
        self._tell = tell
        self._note_missing = missing
        self._loop = Loop()
        self._callers: list[Caller] = []
        self._strangers: set[tuple[str, str]] = set()
        self.joined: dict[int, Caller] = {}

    def gather(self, timeout: float) -> None:
        """Wait until every node has joined.

        Raises BackendError with the missing ones after `timeout` seconds.
        """
        self._listener.setblocking(False)
        self._loop.watch(self._listener.fileno(), READ, self._accept)
        self._loop.after(_TELL_AFTER, self._tell_missing)
        self._loop.after(timeout, partial(self._give_up, timeout))
        if self._missing():
            self._note_missing(self._describe_missing())
            self._loop.run()
        for caller in list(self._callers):
            self._drop(caller)
        self._listener.close()  # who comes later is refused by the system

    def dismiss(self, words: str, exit_code: int) -> None:
        """Send all who have joined away again."""
        for caller in self.joined.values():
            caller.send(caller.door.answer(Answer("refused", words, exit_code)))

    def close(self) -> None:
        """Close whatever is still open."""
        self._listener.close()
        for caller in [*self._callers, *self.joined.values()]:
            caller.sock.close()
        self._loop.close()

    # Who is missing

    def _missing(self) -> set[int]:
        return set(range(1, self._mine.nnodes)) - self.joined.keys()

    def _describe_missing(self) -> str:
        return describe_nodes(self._missing(), self._mine.nnodes)

    def _tell_missing(self) -> None:
        count = len(self.joined)
        so_far = f"; {count} joined" if count else ""
        self._say(f"waiting for {self._describe_missing()}{so_far}")
        self._loop.after(_TELL_EVERY, self._tell_missing)

    def _give_up(self, timeout: float) -> None:
        raise TimeLimitError(
            f"{self._describe_missing()} did not join within {timeout:g} s (--join-timeout)",
            hint="each node says by itself what it waits for, or why it was refused",
        )

    # Callers

    def _accept(self) -> None:
        while True:
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._make_room(error)
                return
            sock.setblocking(False)
            with suppress(OSError):  # it is gone again
                keep_watch(sock, self._heartbeat)
            door = Doorkeeper(self._token, __version__, os.urandom(NONCE))
            caller = Caller(sock, door, plain_address(address[0]))
            caller.limit = self._loop.after(_HANDSHAKE, partial(self._too_slow, caller))
            self._callers.append(caller)
            self._loop.watch(sock.fileno(), READ, partial(self._read, caller))
            if len(self._callers) > max(_CALLERS, 2 * self._mine.nnodes):
                self._drop(self._oldest())

    def _make_room(self, error: OSError) -> None:
        """Out of descriptors; or the caller has gone meanwhile, and that is that."""
        if error.errno not in {errno.EMFILE, errno.ENFILE}:
            return
        if not self._callers:
            raise BackendError(f"no more nodes can join: {error.strerror}", hint="ulimit -n 4096")
        self._drop(self._oldest())

    def _oldest(self) -> Caller:
        return next((c for c in self._callers if not c.door.proved), self._callers[0])

    def _drop(self, caller: Caller) -> None:
        if caller.limit is not None:
            caller.limit.cancel()
        self._loop.unwatch(caller.sock.fileno(), READ)
        caller.sock.close()
        self._callers.remove(caller)

    def _too_slow(self, caller: Caller) -> None:
        self._stranger(caller, f"said nothing of zlaunch join within {_HANDSHAKE:g} s")

    def _stranger(self, caller: Caller, what: str) -> None:
        """Drop somebody who proved nothing; say so, but not as often as he likes."""
        known = (caller.address, what)
        if known not in self._strangers and len(self._strangers) < _STRANGERS:
            self._strangers.add(known)
            self._say(f"{caller.address} {what}")
        self._drop(caller)

    def _read(self, caller: Caller) -> None:
        data = read_chunk(caller.sock.fileno(), _CHUNK)
        if data is None:
            return
        if not data:
            self._drop(caller)
            return
        try:
            reply = caller.door.feed(data)
        except WrongTokenError:
            self._stranger(caller, "holds another token (--token-file)")
        except OtherVersionError as error:
            self._other_version(caller, error)
        except HandshakeError as error:
            self._unreadable(caller, error)
        else:
            if reply and not caller.send(reply):
                self._drop(caller)
            elif caller.door.hello is not None:
                self._decide(caller)

    def _other_version(self, caller: Caller, error: OtherVersionError) -> None:
        if caller.door.proved:
            self._refuse(caller, f"it has zlaunch {error.version}, node 0 has {__version__}")
            return
        caller.send(other_protocol(__version__))
        self._stranger(caller, f"has zlaunch {error.version}, and this is {__version__}")

    def _unreadable(self, caller: Caller, error: HandshakeError) -> None:
        if caller.door.proved:
            self._refuse(caller, str(error))
        else:
            self._stranger(caller, "is no zlaunch join, whatever it is")

    # Nodes

    def _decide(self, caller: Caller) -> None:
        hello = caller.hello
        reason = self._reason(hello)
        if reason is not None:
            self._refuse(caller, reason, hello)
        elif caller.send(caller.door.answer(Answer("accepted"))):
            self._let_in(caller, hello)
        else:
            self._drop(caller)

    def _let_in(self, caller: Caller, hello: Hello) -> None:
        self._callers.remove(caller)
        if caller.limit is not None:
            caller.limit.cancel()
        self.joined[hello.node_rank] = caller
        self._loop.watch(caller.sock.fileno(), READ, partial(self._leave, caller))
        self._tell(f"node {hello.node_rank} is {hello.host} ({caller.address})")
        if self._missing():
            self._note_missing(self._describe_missing())
        else:
            self._loop.stop()

    def _leave(self, caller: Caller) -> None:
        """A node that waits has nothing to say: whatever is read here is its end."""
        if not self._missing():
            return  # all are there and the loop is about to end; the launcher will see it
        self._loop.unwatch(caller.sock.fileno(), READ)
        caller.sock.close()
        del self.joined[caller.hello.node_rank]
        self._say(f"node {caller.hello.node_rank} ({caller.hello.host}) has left again")
        self._note_missing(self._describe_missing())

    def _reason(self, hello: Hello) -> str | None:
        """Why a node cannot take part, None where it can."""
        mine, rank = self._mine, hello.node_rank
        if hello.nnodes != mine.nnodes:
            return f"it says --nnodes {hello.nnodes}, node 0 says {mine.nnodes}"
        if rank == 0:
            return f"node rank 0 is {mine.host}'s, which listens here"
        if not 0 < rank < mine.nnodes:
            return f"there is no node rank {rank} among {mine.nnodes} nodes"
        if rank in self.joined:
            other = self.joined[rank]
            return f"node rank {rank} is taken by {other.hello.host} ({other.address})"
        if hello.device != mine.device:
            kinds = {"cuda": "on GPUs", "cpu": "on the CPU"}
            return f"it trains {kinds[hello.device]}, node 0 {kinds[mine.device]}"
        return None

    def _refuse(self, caller: Caller, reason: str, hello: Hello | None = None) -> None:
        who = f"{hello.host} ({caller.address})" if hello else caller.address
        self._say(f"refused {who}: {reason}")
        caller.send(caller.door.answer(Answer("refused", reason, 2)))
        self._drop(caller)
