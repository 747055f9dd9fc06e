"""Sorts what agents say: the output of one read is joined, the rest goes to who waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from zlaunch.run.messages import ORDERS, Message, Output


class Inbox:
    """`takers` has the kinds of message that somebody waits for; `on_event` gets the others."""

    def __init__(
        self,
        on_output: Callable[[int, bytes], None],
        takers: Mapping[type, Callable[[Any], None]],
        on_event: Callable[[Any], None],
    ) -> None:
        self._on_output = on_output
        self._takers = takers
        self._on_event = on_event

    def take(self, messages: Iterable[Message]) -> None:
        """Take in what came in one read; an event comes after the output before it."""
        written: dict[int, list[bytes]] = {}
        for message in messages:
            taker = self._takers.get(type(message))
            if isinstance(message, Output):
                written.setdefault(message.rank, []).append(message.data)
            elif taker is not None:
                taker(message)
            elif not isinstance(message, ORDERS):
                self._hand_out(written)
                self._on_event(message)
        self._hand_out(written)

    def _hand_out(self, written: dict[int, list[bytes]]) -> None:
        for rank, pieces in written.items():
            self._on_output(rank, b"".join(pieces))
        written.clear()
