"""Answers Prometheus on this machine, from the launcher's own loop: nothing waits for a client."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from zlaunch.run.scrape import LONGEST_HEAD, head_is_complete, response, response_to
from zlaunch.system.loop import READ, Loop
from zlaunch.system.visitor import Visitor

_MOST = 16  # clients at a time; one more takes the place of the one that came first
_PATIENCE = 10.0  # seconds for a client to ask, and to take the answer
_MOST_UNREAD = 1 << 20  # bytes behind a request
_REST = 1.0  # seconds without descriptors


class MetricsPort:
    """`page` makes the text at the time of each request."""

    def __init__(
        self, loop: Loop, listener: socket.socket, page: Callable[[], bytes], content_type: str
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._answer = lambda head: response_to(head, page, content_type)
        self._clients: dict[_Client, None] = {}  # in the order in which they came
        listener.setblocking(False)
        self._listen()

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), READ, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:  # gone already, or no descriptor left for it
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                self._drop_first()
                self._loop.unwatch(self._listener.fileno(), READ)
                self._loop.after(_REST, self._listen)
            return
        if len(self._clients) >= _MOST:
            self._drop_first()
        self._clients[_Client(self._loop, connection, self._answer, self._forget)] = None

    def _drop_first(self) -> None:
        first = next(iter(self._clients), None)
        if first is not None:
            first.close()

    def _forget(self, client: _Client) -> None:
        self._clients.pop(client, None)

    def close(self) -> None:
        """Answer no more."""
        for client in list(self._clients):
            client.close()
        self._loop.unwatch(self._listener.fileno(), READ)
        self._listener.close()


class _Client:
    """One connection and one request; what comes behind it is read and thrown away."""

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        answer: Callable[[bytes], bytes],
        on_close: Callable[[_Client], None],
    ) -> None:
        self._answer = answer
        self._head = b""
        self._unread = 0
        self._answered = self._silent = False
        self._visitor = Visitor(
            loop, connection, _PATIENCE, self._hear, self._part, lambda: on_close(self)
        )

    def _hear(self, data: bytes) -> None:
        if not data:
            self._silent = True
            self._visitor.ignore()
            if not self._visitor.out.pending:  # who says no more may still wait for the answer
                self.close()
        elif not self._answered:
            self._head += data
            self._try_to_answer()
        else:
            self._unread += len(data)
            if self._unread > _MOST_UNREAD:
                self.close()

    def _try_to_answer(self) -> None:
        if head_is_complete(self._head):
            said = self._answer(self._head)
        elif len(self._head) > LONGEST_HEAD:
            said = response("431 Request Header Fields Too Large", b"this is too long\n")
        else:
            return
        self._answered = True
        out = self._visitor.out
        out.write(said)
        if out.closed:
            self.close()
        elif not out.pending:
            self._part()

    def _part(self) -> None:
        """Let the client hang up first: closed with something unread, the answer could get lost."""
        if self._silent:
            self.close()
            return
        try:
            self._visitor.end_of_answer()
        except OSError:
            self.close()

    def close(self) -> None:
        """Hang up."""
        self._visitor.close()
