"""What the launcher reads, on its way to the one rank that is to have it."""

from __future__ import annotations

from collections.abc import Callable

from zlaunch.launcher.seat import Seat
from zlaunch.run.messages import (
    INPUT_WINDOW,
    Exited,
    Input,
    InputTaken,
    Order,
    Ready,
    Refused,
    Started,
)
from zlaunch.run.state import AgentLost, Happening
from zlaunch.spec.plan import Plan
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop
from zlaunch.system.source import Source

_CHUNK = 64 << 10  # bytes read at once

SendTo = Callable[[int, Order], None]


def typed(plan: Plan, loop: Loop, console: Console, send: SendTo) -> Typed | None:
    """Return who reads for the rank of `plan` that has a stdin; None where none has."""
    for spec, worker in zip(plan.workers, plan.topology.workers, strict=True):
        if spec.stdin != "null":
            seat = Seat(loop, console, spec.rank) if spec.stdin == "terminal" else None
            return Typed(loop, spec.rank, worker.node_rank, send, seat)
    return None


class Typed:
    """Reads stdin while the rank runs, and never more than it takes.

    After a restart it goes on where it was. With a `seat` the rank has our terminal.
    """

    def __init__(
        self, loop: Loop, rank: int, node_rank: int, send: SendTo, seat: Seat | None
    ) -> None:
        self._rank = rank
        self._node_rank = node_rank
        self._send = send
        self._source = Source(loop, 0, self._pass_on)
        self._seat = seat
        if seat is not None:
            seat.on_resize = self._tell_size
        self._wanted = False  # the rank runs and has not closed its stdin
        self._ended = False  # there is no more to be read
        self._under_way = 0  # bytes

    def note(self, event: Happening) -> None:
        """See what becomes of the rank."""
        if isinstance(event, Ready) and event.node_rank == self._node_rank:
            self._tell_size()
        elif isinstance(event, AgentLost):
            if event.node_rank == self._node_rank:
                self._leave()
        elif getattr(event, "rank", None) == self._rank:
            if isinstance(event, Started):
                self._begin()
            elif isinstance(event, InputTaken):
                self._note_taken(event)
            elif isinstance(event, (Exited, Refused)):
                self._leave()

    def _begin(self) -> None:
        if self._seat is not None:
            self._seat.sit_down()
        self._wanted, self._under_way = True, 0
        if self._ended:  # by an attempt before this one
            self._order(Input(self._rank, b""))
        self._read_on()

    def _note_taken(self, taken: InputTaken) -> None:
        self._under_way -= taken.count
        if taken.closed:
            self._wanted = False
            self._source.leave()
        self._read_on()

    def _read_on(self) -> None:
        room = INPUT_WINDOW - self._under_way
        if self._wanted and not self._ended and room > 0:
            self._source.ask(min(_CHUNK, room))

    def _pass_on(self, data: bytes) -> None:
        self._under_way += len(data)
        self._ended = not data
        self._order(Input(self._rank, data))
        self._read_on()

    def _leave(self) -> None:
        self._wanted = False
        self._source.leave()
        if self._seat is not None:
            self._seat.stand_up()

    def _tell_size(self) -> None:
        if self._seat is not None:
            self._order(self._seat.size)

    def _order(self, order: Order) -> None:
        self._send(self._node_rank, order)

    def close(self) -> None:
        """Read no more; give the terminal back."""
        self._leave()
        self._source.close()
        if self._seat is not None:
            self._seat.close()
