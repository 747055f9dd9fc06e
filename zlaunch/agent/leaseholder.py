"""Takes leases of this node's devices for a run, or waits for them; holds them to its end."""

from __future__ import annotations

import os
import pwd
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any, Callable

from zlaunch.agent.aside import Aside
from zlaunch.run.messages import Event, Lease, Leased, Leave, Note
from zlaunch.spec.device import Device
from zlaunch.spec.leases import Claim, in_words, lock_names
from zlaunch.spec.slots import Slot, format_slots
from zlaunch.system.leases import Leases, describe, lease_directory
from zlaunch.system.loop import READ, Loop, Timer

_LATE = 1.0  # seconds beyond its own limit until a look is given up
_SOON = 0.05  # seconds from a sign that a lock is let go: the sign may come a little before
_COME_BACK = 1.0  # seconds for those who held leases in a directory that somebody has removed
_AGAIN = 5.0  # seconds between looks: nothing tells when a stranger's process leaves a GPU


class Leaseholder:
    """The one of a node. `send` takes the answers."""

    def __init__(self, node_rank: int, loop: Loop, send: Callable[[Event], None]) -> None:
        self._node_rank = node_rank
        self._loop = loop
        self._send = send
        self._leases: Leases | None = None
        self._watch: Any = None
        self._guard: Any = None
        self._timer: Timer | None = None
        self._said = ""
        self._looking = self._taken = False

    def take(self, order: Lease) -> None:
        """Take what was ordered, or wait for it, and answer."""
        self._order = order
        self._said = ""
        self._taken = False
        try:
            if self._leases is None:
                self._leases = Leases(order.folder)
        except OSError as error:
            self._go_without(_words(error, self._order.folder))
            return
        self._look()

    def leave(self, order: Leave) -> None:
        """Give back, or wait no longer."""
        if self._leases is not None:
            if order.devices:
                self._end_guard()
                with suppress(OSError):  # nobody may come between
                    self._queue_up(self._leases, self._claim, "other hosts are not free yet")
                self._leases.give_back()
                self._taken = False
            if order.queue:
                self._leases.leave_queue()

    def close(self) -> None:
        """Give back all."""
        self._end_guard()
        if self._leases is not None:
            self._leases.close()

    # Looking

    def _look(self) -> None:
        if self._taken or self._looking:
            return
        order = self._order
        if order.devices and not order.idle:
            self._try(tuple(Device(i, uuid, mig=mig) for i, uuid, mig in order.devices), {})
            return
        self._looking = True
        _provide_nvml(order.nvml)  # once, and not in each child anew; it asks nothing yet
        Aside(self._loop, partial(_ask, order), order.within + _LATE, self._found)

    def _found(self, found: dict[str, Any] | None) -> None:
        self._looking = False
        if found is None or "error" in found:
            self._go_without(found["error"] if found else "the driver does not answer")
            return
        devices = tuple(Device(i, uuid, mig=tuple(mig)) for i, uuid, mig in found["devices"])
        self._try(devices, found["in_use"])

    # Taking

    def _try(self, devices: tuple[Device, ...], in_use: dict[str, str]) -> None:
        assert self._leases is not None
        names = {slot: lock_names(slot, devices) for slot in self._order.slots}
        claim = self._claim = Claim(
            self._order.run,
            _user(),
            os.getpid(),
            time.time(),
            tuple(name for slot in names for name in names[slot]),
            self._order.count,
        )
        try:
            if self._leases.is_displaced():
                self._move()
                return
            with self._leases.turn():
                self._choose(self._leases, names, claim, in_use)
        except OSError as error:
            self._go_without(_words(error, self._order.folder))

    def _move(self) -> None:
        """We have waited where nobody looks any more; who holds devices comes back first."""
        assert self._leases is not None
        self._end_waiting()
        self._leases.close()
        self._leases = Leases(self._order.folder)
        self._look_in(_COME_BACK)

    def _choose(
        self,
        leases: Leases,
        names: dict[Slot, tuple[str, ...]],
        claim: Claim,
        in_use: dict[str, str],
    ) -> None:
        order = self._order
        mine = (order.ticket or time.time_ns(), order.run)
        ahead = leases.before(mine, claim.names)
        free, used = [], []
        for slot, locks in names.items():
            holder = next(filter(None, map(leases.holder, locks)), None)
            reason = f"held by {describe(holder)}" if holder else _first(in_use, locks)
            if reason:
                used.append((slot, reason))
            else:
                free.append(slot)
        chosen = free[: order.count]
        chosen_names = [name for slot in chosen for name in names[slot]]
        if not ahead and len(chosen) == order.count and leases.take(chosen_names, claim):
            self._settle(leases, tuple(chosen))
            return
        before = f"before us waits {describe(ahead)}" if ahead else ""
        text = "; ".join(filter(None, (in_words(used), before))) or "somebody is just taking them"
        if order.idle and len(names) > order.count:
            pool = format_slots(order.slots)
            verb = "is" if order.count == 1 else "are"
            text = f"{order.count} of GPUs {pool} {verb} wanted, {len(free)} idle: {text}"
        if order.ticket:
            self._queue_up(leases, claim, text)
            self._wait(leases)
        self._answer(busy=text)

    def _queue_up(self, leases: Leases, claim: Claim, why: str) -> None:
        ticket = self._order.ticket
        waiting = Claim(**{**vars(claim), "since": ticket / 1e9, "why": why})
        leases.queue_up((ticket, claim.run), waiting)

    def _settle(self, leases: Leases, slots: tuple[Slot, ...]) -> None:
        from zlaunch.agent.lease_guard import LeaseGuard

        self._taken = True
        self._end_waiting()
        self._send(Leased(self._node_rank, slots))
        self._guard = LeaseGuard(self._loop, leases, self._claim, self._warn)

    def _warn(self, text: str) -> None:
        self._send(Note(self._node_rank, text, "warning"))

    def _end_guard(self) -> None:
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def _go_without(self, why: str) -> None:
        """Where there can be no leases, runs go on as they did before there were any."""
        self._end_waiting()
        if self._order.idle:
            self._answer(problem=f"it cannot be told which GPUs are idle: {why}")
            return
        self._taken = True
        note = f"GPUs are not protected from other launches: {why}"
        self._send(Leased(self._node_rank, self._order.slots[: self._order.count], note=note))

    def _answer(self, busy: str = "", problem: str = "") -> None:
        if busy + problem != self._said:
            self._said = busy + problem
            self._send(Leased(self._node_rank, busy=busy, problem=problem))

    # Waiting

    def _wait(self, leases: Leases) -> None:
        unwatched = self._watch is None  # so far: what was let go since we looked was not seen
        if unwatched:
            from zlaunch.system.changes import Changes, can_watch  # few have to wait

            try:
                self._watch = Changes([leases.path], releases=True) if can_watch() else False
            except OSError:  # no watch is left
                self._watch = False
            if self._watch:
                self._loop.watch(self._watch.fd, READ, self._changed)
        self._look_in(_SOON if unwatched else _AGAIN)

    def _changed(self) -> None:
        self._watch.clear()
        self._look_in(_SOON)

    def _look_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.after(seconds, self._look)

    def _end_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch:
            self._loop.unwatch(self._watch.fd, READ)
            self._watch.close()
        self._watch = None


def _ask(order: Lease) -> dict[str, Any]:
    """In a child: the devices, and which of the wanted ones somebody uses."""
    from zlaunch.errors import BackendError
    from zlaunch.system.gpu_idle import in_use
    from zlaunch.system.gpus import discover

    try:
        devices = order.devices or [
            (d.index, d.uuid, d.mig) for d in discover(timeout=order.within) or ()
        ]
        found: dict[str, str] = {}
        if order.idle:
            known = tuple(Device(i, uuid, mig=tuple(mig)) for i, uuid, mig in devices)
            wanted = {name for slot in order.slots for name in lock_names(slot, known)}
            uuids = [
                u for d in known for u in (d.uuid, *d.mig) if lock_names(u, known)[0] in wanted
            ]
            used = in_use(uuids, timeout=order.within)
            if used is None:
                return {"error": "there is no NVML to ask"}
            found = {lock_names(uuid, known)[0]: why for uuid, why in used.items()}
    except BackendError as error:
        return {"error": error.message}
    return {"devices": devices, "in_use": found}


def _provide_nvml(source: str) -> None:
    """Make pynvml importable from the launcher's copy: an agent sees no installed packages."""
    if not source.startswith("/"):
        from zlaunch.agent.inspection import provide_nvml  # few need it

        provide_nvml(source)
    elif "pynvml" not in sys.modules:  # compiled already, which saves a third of a second
        from importlib.machinery import SourceFileLoader
        from importlib.util import module_from_spec, spec_from_loader

        spec = spec_from_loader("pynvml", SourceFileLoader("pynvml", source))
        assert spec is not None and spec.loader is not None
        sys.modules["pynvml"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


def _words(error: OSError, folder: str) -> str:
    """With the whole path: what is opened in the directory is named by its last part alone."""
    if not error.filename:
        return str(error)
    place = "" if str(error.filename).startswith("/") else f"{lease_directory(folder)}/"
    return f"{place}{error.filename}: {error.strerror}"


def _first(reasons: dict[str, str], names: tuple[str, ...]) -> str:
    return next((reasons[name] for name in names if name in reasons), "")


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
