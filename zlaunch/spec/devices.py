"""Which GPUs of one machine a run uses: CUDA_VISIBLE_DEVICES, a count, a list, a filter.

One rule holds throughout: whatever is asked for is chosen within the visible devices,
never beside them. Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from zlaunch.errors import SelectionError
from zlaunch.frozen import frozen
from zlaunch.spec.device import Device
from zlaunch.spec.filters import parse_filter
from zlaunch.spec.slots import MAX_SLOTS, Slot, format_slots, parse_slot, parse_slots


def visible_slots(env: str | None, devices: tuple[Device, ...] | None) -> tuple[Slot, ...]:
    """Read CUDA_VISIBLE_DEVICES in its order; unset (None) means every device.

    "" and "-1" mean none, and -1 ends the list, as in CUDA. `devices` None means that
    the driver could not be asked: indices are then taken as they are.
    """
    if env is None:
        return tuple(device.index for device in devices or ())
    slots: list[Slot] = []
    for token in _tokens(env):
        if token == "-1":  # noqa: S105 - an index
            break
        slots.append(_visible_slot(token, env, devices))
    _refuse_twice(slots, _known(devices, slots), devices, f"CUDA_VISIBLE_DEVICES={env}")
    _refuse_mixture(slots, f"CUDA_VISIBLE_DEVICES={env}")
    return tuple(slots)


def choose_slots(
    visible: Sequence[Slot],
    *,
    devices: tuple[Device, ...] | None,
    count: int | None = None,
    gpus: str | None = None,
    include: str | None = None,
    exclude: str | None = None,
    host: str = "localhost",
    env: str | None = None,
    counted_by: str = "--num-gpus",
) -> tuple[Slot, ...]:
    """Choose among `visible`: the first `count`, those in `gpus`, or by a DeepSpeed filter.

    `gpus` keeps the user's order and spelling, a filter the visible order; without any of
    them all are chosen. `env` is CUDA_VISIBLE_DEVICES. Where neither it nor the driver
    tells what there is (`devices` None), what the user asks for is trusted.
    """
    _refuse_contradictions(count, gpus, include, exclude)
    pool = _Pool(tuple(visible), devices, host, env)
    if gpus is not None:
        return _listed(pool, gpus, count)
    if count is not None:
        return _first(pool, count, counted_by)
    if include is not None or exclude is not None:
        return _filtered(pool, include, exclude)
    if not pool.visible:
        raise SelectionError(f"there is no GPU to run on: {pool.describe()}", hint=pool.way_out())
    return pool.visible


_WITHOUT = "train without GPUs: --cpu N starts N workers"


@frozen
class _Pool:
    """The slots that may be chosen, and what is known about them."""

    visible: tuple[Slot, ...]
    devices: tuple[Device, ...] | None
    host: str
    env: str | None

    @property
    def unknown(self) -> bool:
        """Nothing tells which devices there are."""
        return self.devices is None and self.env is None and not self.visible

    @property
    def known(self) -> tuple[str, ...]:
        """Full identifiers, to complete abbreviated ones."""
        return _known(self.devices, self.visible)

    def identify(self, slot: Slot) -> str:
        """Name the device behind a spelling."""
        return _identify(slot, self.known, self.devices)

    def require(self, slot: Slot, asker: str, *, parts: bool) -> None:
        """Refuse a slot that is not visible; with `parts`, a part of a visible GPU will do."""
        seen = {self.identify(visible) for visible in self.visible}
        name = self.identify(slot)
        if self.unknown or name in seen or (parts and _parent(name, self.devices) in seen):
            return
        raise SelectionError(
            f"{asker} asks for {slot}, which is not visible: {self.describe()}",
            hint=self.way_out(),
        )

    def describe(self) -> str:
        """Say what is visible, and what limits it."""
        shown = f" ({format_slots(self.visible)})" if self.visible else ""
        if self.env is not None:
            return (
                f"CUDA_VISIBLE_DEVICES={self.env} leaves {len(self.visible)} visible "
                f"on {self.host}{shown}"
            )
        if self.unknown:
            return f"the GPUs of {self.host} could not be asked for"
        return f"{self.host} has {len(self.visible)}{shown}"

    def way_out(self) -> str:
        """Say what the user may do about a choice that is not visible."""
        if self.env is not None:
            other = "choose among the visible ones" if self.visible else _WITHOUT
            return f"change or unset CUDA_VISIBLE_DEVICES, or {other}"
        if self.unknown:
            return "name them: --gpus 0,1"
        return "choose among those that are there" if self.visible else _WITHOUT


def _tokens(env: str) -> list[str]:
    tokens = [token.strip() for token in env.split(",")]
    if not tokens[-1]:  # "" is no device; one comma at the end does no harm in CUDA
        tokens.pop()
    return [] if tokens == ["NoDevFiles"] else tokens  # what Slurm writes for no device


def _visible_slot(token: str, env: str, devices: tuple[Device, ...] | None) -> Slot:
    slot = parse_slot(token)
    if slot is None:
        raise SelectionError(
            f"CUDA_VISIBLE_DEVICES={env} holds {token!r}, which is neither an index nor a "
            "GPU-... or MIG-... identifier",
            hint="CUDA would hide this entry and all after it; ranges are not read there",
        )
    if isinstance(slot, int) and devices is not None and slot not in {d.index for d in devices}:
        there = ", ".join(str(device.index) for device in devices)
        raise SelectionError(
            f"CUDA_VISIBLE_DEVICES={env} names device {slot}, but this machine has "
            f"{len(devices)} ({there or 'none'})",
            hint="CUDA would hide this device and all after it",
        )
    return slot


def _refuse_contradictions(
    count: int | None, gpus: str | None, include: str | None, exclude: str | None
) -> None:
    options = {"--num-gpus": count, "--gpus": gpus, "--include": include, "--exclude": exclude}
    given = [option for option, value in options.items() if value is not None]
    if len(given) > 1 and given != ["--num-gpus", "--gpus"]:
        raise SelectionError(
            f"{given[0]} and {given[1]} cannot be given together",
            hint="each says by itself which GPUs to use: keep one of them",
        )
    if count is not None and count < 1:
        raise SelectionError(
            f"--num-gpus {count} is less than 1", hint="leave --num-gpus out to use all visible"
        )


def _first(pool: _Pool, count: int, counted_by: str) -> tuple[Slot, ...]:
    if pool.unknown and count <= MAX_SLOTS:
        return tuple(range(count))
    if count > len(pool.visible):
        raise SelectionError(
            f"{counted_by} {count} asks for more than there are: {pool.describe()}",
            hint=pool.way_out(),
        )
    return pool.visible[:count]


def _listed(pool: _Pool, gpus: str, count: int | None) -> tuple[Slot, ...]:
    slots = parse_slots(gpus, "--gpus")
    for slot in slots:
        pool.require(slot, f"--gpus {gpus}", parts=True)
    _refuse_twice(slots, pool.known, pool.devices, f"--gpus {gpus}")
    _refuse_mixture(slots, f"--gpus {gpus}")
    if count is not None and count != len(slots):
        raise SelectionError(
            f"--num-gpus {count} and --gpus {gpus} disagree: the list has {len(slots)}",
            hint="leave --num-gpus out",
        )
    return slots


def _filtered(pool: _Pool, include: str | None, exclude: str | None) -> tuple[Slot, ...]:
    option, text = ("--exclude", exclude) if include is None else ("--include", include)
    local = {"localhost", "127.0.0.1", pool.host}
    named: list[Slot] = []
    for mention in parse_filter(text or "", option):
        if mention.name not in local:
            raise SelectionError(
                f"{option} names host {mention.name!r}, but this run is on {pool.host} alone",
                hint="for other hosts, use: zlaunch multinode --hostfile FILE",
            )
        for slot in mention.slots or ():
            pool.require(slot, f"{option} {text}", parts=False)
        named += pool.visible if mention.slots is None else mention.slots
    if pool.unknown and include is not None:
        chosen = tuple(dict.fromkeys(named))
    else:
        names = {pool.identify(slot) for slot in named}
        keep = include is not None
        chosen = tuple(slot for slot in pool.visible if (pool.identify(slot) in names) is keep)
    if not chosen:
        raise SelectionError(
            f"{option} {text} leaves no GPU: {pool.describe()}",
            hint="leave at least one GPU to run on",
        )
    return chosen


def _known(devices: tuple[Device, ...] | None, spelled: Sequence[Slot]) -> tuple[str, ...]:
    named = [name for device in devices or () for name in (device.uuid, *device.mig)]
    for slot in spelled:  # a visible identifier that the driver did not name stands for itself
        if isinstance(slot, str) and not any(_begins(name, slot) for name in named):
            named.append(slot)
    return tuple(named)


def _identify(slot: Slot, known: Sequence[str], devices: tuple[Device, ...] | None) -> str:
    if isinstance(slot, int):
        return next((d.uuid for d in devices or () if d.index == slot), str(slot))
    matches = [name for name in known if _begins(name, slot)]
    whole = [name for name in matches if len(name) == len(slot)]
    if whole:
        return whole[0]
    if len(matches) > 1:
        raise SelectionError(
            f"{slot} is the beginning of more than one device: {', '.join(matches)}",
            hint="write more of the identifier",
        )
    return matches[0] if matches else slot


def _begins(name: str, beginning: str) -> bool:
    return name.lower().startswith(beginning.lower())  # CUDA reads a UUID in either case


def _parent(name: str, devices: tuple[Device, ...] | None) -> str | None:
    """Find the GPU that a MIG device is a part of."""
    if name.startswith("MIG-GPU-"):  # the older spelling: MIG-<GPU's UUID>/instance/instance
        return name[len("MIG-") :].partition("/")[0]
    return next((device.uuid for device in devices or () if name in device.mig), None)


def _refuse_twice(
    slots: Sequence[Slot], known: Sequence[str], devices: tuple[Device, ...] | None, asker: str
) -> None:
    """Refuse two spellings of one device, or a MIG device beside the GPU it is a part of."""
    names = [_identify(slot, known, devices) for slot in slots]
    for place, name in enumerate(names):
        for earlier in range(place):
            other = names[earlier]
            if name in (other, _parent(other, devices)) or _parent(name, devices) == other:
                raise SelectionError(
                    f"{asker} names one device twice: {slots[earlier]} and {slots[place]}",
                    hint="name each one once: CUDA shows no device at all for a list with doubles",
                )


def _refuse_mixture(slots: Sequence[Slot], asker: str) -> None:
    if len({isinstance(slot, int) for slot in slots}) > 1:
        raise SelectionError(
            f"{asker} mixes indices and GPU-... or MIG-... identifiers",
            hint="CUDA hides what is not spelled like the first entry: use one spelling for all",
        )
