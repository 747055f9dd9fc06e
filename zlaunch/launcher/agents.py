"""The launcher's agents: reached, heard, ordered, lost, let go.

Speaks of nodes and messages only; what they mean is the launcher's business.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from zlaunch.backends.base import ENDED, WELL, Backend, Link
from zlaunch.errors import BackendError
from zlaunch.frozen import frozen
from zlaunch.run.messages import Message, Order, Ping, Pong, Ready
from zlaunch.run.wire import Decoder, ProtocolError, encode
from zlaunch.spec.topology import Node
from zlaunch.system.loop import READ, Loop, read_chunk
from zlaunch.system.stream import OutStream

_CHUNK = 1 << 20  # bytes read from a link at once
_LEAVE = 5.0  # seconds for an agent to go once its link is closed
_LAST_WORDS = 4 << 10  # bytes kept of what an agent prints beside its link
_PINGS = 3  # in one heartbeat
_OFTEN = 15.0  # seconds; pings come often where no more lie between two


@frozen
class Patience:
    """How long an agent may be silent, in seconds.

    `connect` until it is reached, and `setup` more until it is ready; `heartbeat` from then on,
    where the link crosses a network.
    """

    connect: float = 15.0
    heartbeat: float = 15.0
    setup: float = 0.0


@dataclass(eq=False)
class _Agent:
    """One agent as the launcher sees it."""

    node_rank: int
    link: Link
    orders: OutStream
    decoder: Decoder = field(default_factory=lambda: Decoder(preamble=True))
    words: bytes = b""
    ready: Ready | None = None
    heard: float = 0.0
    pinged: float = 0.0  # wall clock
    beaten: float = 0.0
    clock: tuple[float, float] = (0.0, 0.0)
    lost: bool = False
    broke_off: bool = False  # its link came to an end, and a ready agent with it


class Agents:
    """All agents of a run.

    `on_messages` gets what came in one read; `on_lost` a node rank and why, once a node;
    `on_notice` what the way to an agent tells of itself, such as that its time is over.
    """

    def __init__(
        self,
        loop: Loop,
        backend: Backend,
        patience: Patience,
        on_messages: Callable[[Iterable[Message]], None],
        on_lost: Callable[[int, str], None],
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._loop = loop
        self._backend = backend
        self._patience = patience
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._on_notice = on_notice
        self._agents: dict[int, _Agent] = {}
        self._paused = False
        self.on_beat: Callable[[int], None] = lambda _: None

    def reach(self, nodes: Iterable[Node]) -> None:
        """Open a link to each node; none waits for another."""
        for node in nodes:
            try:
                link = self._backend.open(node.rank, node.host)
            except BackendError as error:
                self._on_lost(node.rank, str(error))
                continue
            agent = _Agent(node.rank, link, OutStream(self._loop, link.outgoing))
            self._agents[node.rank] = agent
            agent.orders.write(link.greeting)
            os.set_blocking(link.incoming, False)
            self._loop.watch(link.incoming, READ, partial(self._read, agent))
            self._loop.watch(link.errors, READ, partial(self._read_words, agent))
            self._loop.after(self._until_ready, partial(self._expect_ready, agent))

    def ready(self, node_rank: int) -> Ready:
        """What the agent of a node said of itself; only once it is ready."""
        ready = self._agents[node_rank].ready
        assert ready is not None
        return ready

    def clock(self, node_rank: int) -> tuple[float, float]:
        """How far a node's clock is ahead of ours, at least and at most, in seconds."""
        return self._agents[node_rank].clock

    def order(self, order: Order) -> None:
        """Tell all agents."""
        for node_rank in self._agents:
            self.order_one(node_rank, order)

    def order_one(self, node_rank: int, order: Order) -> None:
        """Tell one agent; one that is lost hears nothing."""
        agent = self._agents.get(node_rank)
        if agent is not None and not agent.lost:
            agent.orders.write(encode(order))

    # Hearing

    def _read(self, agent: _Agent) -> None:
        data = read_chunk(agent.link.incoming, _CHUNK)
        if data is None:
            return
        if not data:
            self._lose(agent, ENDED)
            return
        agent.heard = time.monotonic()
        try:
            self._on_messages(self._noted(agent, agent.decoder.feed(data)))
        except ProtocolError as error:
            self._lose(agent, f"sent what cannot be read: {error}")

    def _noted(self, agent: _Agent, messages: Iterable[Message]) -> Iterable[Message]:
        for message in messages:
            if isinstance(message, Ready):
                agent.ready = message
                if agent.link.remote:
                    self._beat(agent)
            if isinstance(message, Pong):
                # Its clock was read between our question and now.
                agent.clock = (message.at - time.time(), message.at - agent.pinged)
            else:
                yield message

    def _read_words(self, agent: _Agent) -> None:
        """Keep the end of what the agent prints: it matters only where the agent is lost."""
        data = read_chunk(agent.link.errors, _CHUNK)
        if data:
            agent.words = (agent.words + data)[-_LAST_WORDS:]
            for notice in agent.link.heard(data.decode(errors="replace")):
                self._on_notice(notice)
        elif data is not None:
            self._loop.unwatch(agent.link.errors, READ)

    def pause(self) -> None:
        """Read no more until `resume`."""
        self._paused = True
        for agent in self._agents.values():
            self._loop.unwatch(agent.link.incoming, READ)

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        for agent in self._agents.values():
            if not agent.lost:
                agent.heard = time.monotonic()
                self._loop.watch(agent.link.incoming, READ, partial(self._read, agent))

    # Losing

    @property
    def _until_ready(self) -> float:
        return self._patience.connect + self._patience.setup

    def _expect_ready(self, agent: _Agent) -> None:
        if agent.ready is None:
            self._lose(agent, f"did not answer within {self._until_ready:g} s")

    def _beat(self, agent: _Agent) -> None:
        """Say that we live, and see that the agent does."""
        heartbeat = self._patience.heartbeat
        if agent.lost:
            return
        left = agent.heard + heartbeat - time.monotonic()
        if left <= 0 and not self._paused:
            self._lose(agent, f"was not heard of for {heartbeat:g} s")
            return
        agent.pinged, agent.beaten = time.time(), time.monotonic()
        self.order_one(agent.node_rank, Ping(heartbeat))
        self.on_beat(agent.node_rank)
        pause = heartbeat / _PINGS
        self._loop.after(min(pause, left) if left > 0 else pause, partial(self._beat, agent))

    def beats(self, node_rank: int) -> bool:
        """Whether a node is pinged often, each time with `on_beat`."""
        agent = self._agents.get(node_rank)
        often = self._patience.heartbeat / _PINGS <= _OFTEN
        return often and agent is not None and agent.link.remote and not agent.lost

    def _lose(self, agent: _Agent, how: str) -> None:
        self._loop.unwatch(agent.link.incoming, READ)
        if agent.lost:
            return
        agent.lost = True
        agent.broke_off = how == ENDED and agent.link.remote and agent.ready is not None
        self._read_words(agent)
        reason = self._slept(agent) or agent.link.explain(
            how, _words(agent), agent.ready is not None
        )
        agent.orders.close()
        agent.link.hang_up()  # should it live after all, it stops its workers now
        self._on_lost(agent.node_rank, reason)

    def _slept(self, agent: _Agent) -> str | None:
        """A launcher that stood still is to blame itself: agents take it for gone."""
        still = time.monotonic() - agent.beaten if agent.beaten else 0.0
        if still <= self._patience.heartbeat:
            return None
        return (
            f"this process stood still for {still:.0f} s, and after {self._patience.heartbeat:g} s "
            "(--heartbeat) the other nodes take it for gone"
        )

    @property
    def broken_off(self) -> list[int]:
        """The nodes of other machines whose agent ended all of a sudden.

        Where a set-up command has run, its guard stands behind the agent and sees to the rest.
        """
        if self._patience.setup:
            return []
        return [agent.node_rank for agent in self._agents.values() if agent.broke_off]

    def close(self) -> list[int]:
        """Close all links; agents stop what is left and leave, all at the same time.

        Return the nodes of this machine whose agent did not leave by itself.
        """
        for agent in self._agents.values():
            self._loop.unwatch(agent.link.incoming, READ)
            self._loop.unwatch(agent.link.errors, READ)
            agent.orders.close()
            agent.link.hang_up()
        deadline = time.monotonic() + _LEAVE
        ends = {
            agent: agent.link.close(0.0 if agent.lost else max(0.0, deadline - time.monotonic()))
            for agent in self._agents.values()
        }
        self._backend.close()
        return [a.node_rank for a, how in ends.items() if not a.link.remote and how != WELL]


def _words(agent: _Agent) -> str:
    """What was printed beside the link, and before the agent began also on it."""
    noise = agent.decoder.noise if agent.ready is None else b""
    return (agent.words + noise[-_LAST_WORDS:]).decode(errors="replace").strip()
