"""Leases: what is locked where a run uses a device, and what a lock's file says of its holder.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from zlaunch.frozen import frozen
from zlaunch.spec.device import Device
from zlaunch.spec.slots import Slot, gpus_in_words

_LONGEST = 120  # characters of a text that somebody else wrote


def in_words(reasons: Sequence[tuple[Slot, str]]) -> str:
    """`GPUs 0-3 are held by run ...; GPU 5 is busy`: those with the same reason together."""
    together: dict[str, list[Slot]] = {}
    for slot, reason in reasons:
        together.setdefault(reason, []).append(slot)
    return "; ".join(
        f"{gpus_in_words(slots)} {'are' if len(slots) > 1 else 'is'} {reason}"
        for reason, slots in together.items()
    )


def lock_names(slot: Slot, devices: Sequence[Device]) -> tuple[str, ...]:
    """Return what stands for a slot: a whole GPU is also each of the MIG devices in it.

    Empty for an index that no device has; an identifier that none has stands for itself.
    """
    if isinstance(slot, int):
        return next((_all(device) for device in devices if device.index == slot), ())
    wanted = slot.lower()
    for device in devices:
        if device.uuid.lower().startswith(wanted):
            return _all(device)
        for part in device.mig:
            if part.lower().startswith(wanted):
                return (_plain(part),)
    return (_plain(slot),)


def idle_first(
    pool: Sequence[Slot], devices: Sequence[Device], taken: Collection[str]
) -> tuple[Slot, ...]:
    """Return the slots of which no lock is `taken`; where there is none, the first of all."""
    idle = tuple(s for s in pool if set(lock_names(s, devices)).isdisjoint(taken))
    return idle or tuple(pool[:1])


def _all(device: Device) -> tuple[str, ...]:
    return tuple(_plain(name) for name in (device.uuid, *device.mig))


def _plain(name: str) -> str:
    """Make a name fit for a file, the same for every spelling."""
    return "".join(c if c.isalnum() or c == "-" else "_" for c in name.lower())


@frozen
class Claim:
    """Who holds a device, or waits for `need` of those that `names` stand for, and `why`.

    `since` in seconds since the epoch. Others may have written it: it is shown, never trusted.
    """

    run: str
    user: str = ""
    pid: int = 0
    since: float = 0.0
    names: tuple[str, ...] = ()
    need: int = 0
    why: str = ""

    def encode(self) -> bytes:
        """Return one line; what follows it in the file is older."""
        return json.dumps(vars(self)).encode("ascii") + b"\n"


def decode_claim(data: bytes) -> Claim:
    """Read what `encode` gave, or something else: then as much of it as can be shown."""
    try:
        fields = json.loads(data.partition(b"\n")[0])
        return Claim(
            run=_shown(fields["run"]) or "?",
            user=_shown(fields["user"]),
            pid=int(fields["pid"]),
            since=min(max(0.0, float(fields["since"])), 1e10),
            names=tuple(str(name) for name in fields["names"]),
            need=int(fields["need"]),
            why=_shown(fields["why"], 4 * _LONGEST),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Claim("?")


def _shown(text: object, longest: int = _LONGEST) -> str:
    """Nothing in it may move a terminal's cursor."""
    return "".join(c if c.isprintable() else "?" for c in str(text)[:longest])
