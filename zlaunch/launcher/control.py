"""The launcher's ear for other shells of the same user: takes requests, hands out answers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from zlaunch.run.control import LONGEST_REQUEST, ControlError, parse_request, refusal
from zlaunch.system.control_socket import is_ours, listen, remove
from zlaunch.system.loop import READ, Loop
from zlaunch.system.rundir import RunDir
from zlaunch.system.visitor import Visitor

_PATIENCE = 30.0  # seconds for a caller to say what it wants, and to take the answer

Reply = Callable[[bytes], None]
Handler = Callable[[Mapping[str, Any], Reply], None]
Stream = Callable[[Mapping[str, Any], Reply], Callable[[], None]]
"""Sends lines for as long as the caller listens; returns what is to be called when it has gone."""


class Control:
    """Listens in the run directory. A handler is given the request, and answers once.

    A stream answers again and again.
    """

    def __init__(
        self,
        loop: Loop,
        run: RunDir,
        handlers: Mapping[str, Handler],
        streams: Mapping[str, Stream] = MappingProxyType({}),
    ) -> None:
        self._loop = loop
        self._run = run
        self._handlers = handlers
        self._streams = streams
        self._callers: set[_Caller] = set()
        self._listener = listen(run)
        if self._listener is not None:
            loop.watch(self._listener.fileno(), READ, self._accept)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone already, or no descriptor left for it
            return
        if not is_ours(connection):
            connection.close()
            return
        self._callers.add(_Caller(self._loop, connection, self._handle, self._callers.discard))

    def _handle(self, line: bytes, caller: _Caller) -> None:
        reply = caller.reply
        try:
            do, fields = parse_request(line)
        except ControlError as error:
            reply(refusal(str(error)))
            return
        if do in self._streams:
            caller.keep(self._streams[do](fields, caller.send))
            return
        handler = self._handlers.get(do)
        if handler is None:
            reply(refusal(f"this launcher knows nothing of {do!r}"))
            return
        handler(fields, reply)

    def close(self) -> None:
        """Listen no more; who waits for an answer gets none."""
        for caller in list(self._callers):
            caller.close()
        if self._listener is not None:
            self._loop.unwatch(self._listener.fileno(), READ)
            self._listener.close()
            remove(self._run)


class _Caller:
    """One connection: a request is read, an answer written, and that is all; or many, for long."""

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        handle: Callable[[bytes, _Caller], None],
        on_close: Callable[[_Caller], None],
    ) -> None:
        self._handle = handle
        self._on_close = on_close
        self._request = b""
        self._on_gone: Callable[[], None] | None = None
        self._visitor = Visitor(
            loop, connection, _PATIENCE, self._hear, self._drained, self._closed
        )

    def _hear(self, data: bytes) -> None:
        if self._on_gone is not None:
            if not data:
                self.close()
            return
        self._request += data
        if not data or len(self._request) > LONGEST_REQUEST:
            self.close()
        elif b"\n" in self._request:
            self._visitor.ignore()
            self._handle(self._request.partition(b"\n")[0], self)

    def keep(self, on_gone: Callable[[], None]) -> None:
        """More is to come for as long as the caller stays; call back when it has gone."""
        self._on_gone = on_gone
        self._visitor.stay()
        self._visitor.listen()

    def send(self, line: bytes) -> None:
        """Send one of many; left out for a caller that has not taken the one before."""
        if self._visitor.is_open and not self._visitor.out.pending:
            self._visitor.out.write(line)

    def reply(self, line: bytes) -> None:
        """Send the only answer."""
        if not self._visitor.is_open:
            return
        self._visitor.out.write(line)
        if not self._visitor.out.pending:
            self.close()

    def _drained(self) -> None:
        if self._on_gone is None:
            self.close()

    def close(self) -> None:
        """Hang up."""
        self._visitor.close()

    def _closed(self) -> None:
        if self._on_gone is not None:
            self._on_gone()
        self._on_close(self)
