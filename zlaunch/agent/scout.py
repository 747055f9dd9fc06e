"""Answers what the launcher asks of the node before any worker starts."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Callable, Union

from zlaunch.agent.aside import Aside
from zlaunch.run.messages import (
    Event,
    FindRoute,
    Inspect,
    Inspected,
    Listen,
    Listening,
    Reach,
    Reached,
    Routed,
)
from zlaunch.spec.facts import Facts
from zlaunch.system.loop import Loop
from zlaunch.system.ports import ReservedPort, take
from zlaunch.system.routes import own_address_towards

Asked = Union[FindRoute, Inspect, Listen, Reach]
_LATE = 1.0  # seconds beyond its own limit until work is given up


class Scout:
    """Holds the rendezvous port; what takes time is done aside."""

    def __init__(self, node_rank: int, loop: Loop, send: Callable[[Event], None]) -> None:
        self._node_rank = node_rank
        self._loop = loop
        self._send = send
        self._port = ReservedPort()
        self._listener: socket.socket | None = None

    @property
    def port(self) -> int:
        """The port that is kept free for a rendezvous."""
        return self._port.port

    def answer(self, order: Asked) -> None:
        """Look, and send what was found."""
        if isinstance(order, FindRoute):
            address = own_address_towards(order.to) or ""
            self._send(Routed(self._node_rank, address))
        elif isinstance(order, Inspect):
            self._inspect(order)
        elif isinstance(order, Listen):
            self._send(self._listen(order.port))
        else:
            reach = partial(_reach, order)
            Aside(self._loop, reach, order.within + _LATE, self._reached)

    def let_go(self) -> None:
        """Listen no more: rank 0 will."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    # Inspect

    def _inspect(self, order: Inspect) -> None:
        asked = time.time()
        look = partial(_look, order)
        Aside(self._loop, look, order.within + _LATE, partial(self._inspected, order, asked))

    def _inspected(self, order: Inspect, at: float, found: Mapping[str, Any] | None) -> None:
        if found is None or "error" in found:
            why = found["error"] if found else f"not done in {order.within:g} s"
            facts = Facts(at=at, trouble=(f"it could not be looked at: {why}",))
        else:
            facts = Facts.from_json({**found, "at": at})
        self._send(Inspected(self._node_rank, facts))

    # Listen and Reach

    def _listen(self, port: int) -> Listening:
        """Listen beside the socket that keeps the port, as torch's store will."""
        wanted = port or self._port.port
        try:
            if port and port != self._port.port:
                self._port.release()
                self._port = take(port)
            self._listener = self._port.listen()
        except OSError as error:
            return Listening(self._node_rank, wanted, error.strerror or str(error))
        return Listening(self._node_rank, wanted)

    def _reached(self, found: Mapping[str, Any] | None) -> None:
        problem = "no answer in time" if found is None else "".join(found.values())
        self._send(Reached(self._node_rank, problem))


def _look(order: Inspect) -> dict[str, Any]:
    from zlaunch.agent.inspection import inspect  # the child alone pays for what it imports

    return asdict(inspect(order.plan, order.question, order.within))


def _reach(order: Reach) -> dict[str, Any]:
    try:
        socket.create_connection((order.address, order.port), timeout=order.within).close()
    except socket.timeout:  # TimeoutError itself from Python 3.10 on
        return {"problem": f"no answer within {order.within:g} s"}
    except OSError as error:
        return {"problem": error.strerror or str(error)}
    return {"problem": ""}
