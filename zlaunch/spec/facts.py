"""What is asked of a host before a run, and what it answers.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from zlaunch.frozen import frozen


@frozen
class Question:
    """What a host is asked, beside what holds for any: clock, /dev/shm, directory, interpreter.

    `script` is looked for as the workers would, `module` likewise; `packages` are those whose
    versions are wanted; `gpus` asks for the devices and `links` for the ways between them,
    with `nvml` as the source of pynvml, which hosts do not have. `leases` is the directory of
    leases ("" for the user's own) where it is wanted which GPUs are taken by now.
    """

    python: bool = True
    script: str = ""
    module: str = ""
    packages: tuple[str, ...] = ()
    gpus: bool = False
    links: bool = False
    nvml: str = ""
    leases: str | None = None


@frozen
class Gpu:
    """One GPU; `memory` and `used` in bytes, `users` such as `pid 812 (python)`."""

    index: int
    uuid: str
    name: str
    memory: int
    used: int | None = None
    users: tuple[str, ...] = ()
    mig: tuple[str, ...] = ()

    def is_slot(self, slot: int | str) -> bool:
        """Whether a slot names this GPU, or a MIG device of it."""
        if isinstance(slot, int):
            return slot == self.index
        return self.uuid.startswith(slot) or any(uuid.startswith(slot) for uuid in self.mig)


@frozen
class Facts:
    """What a host said of itself.

    `at` is its wall clock, in seconds, when it was asked; `shm` the bytes free in /dev/shm.
    `directory` and `program` say why the workers' directory and interpreter cannot be used, as
    far as that is so. `script` is the SHA-256 of the script there, None where there is none.
    `packages` maps a name to its version, None where it is missing. `cuda` is the version that
    torch was built for ("" for none, "rocm" for AMD), `driver_cuda` the latest that the driver
    can do. `gpus` None: there is no driver. `links` is what `GpuLinks.to_json` gives.
    `taken` are names of locks (`spec/leases.py`), None where that cannot be told or was not asked.
    `visible` is CUDA_VISIBLE_DEVICES there before a run sets it. `trouble` is what went wrong
    while looking.
    """

    at: float = 0.0
    directory: str = ""
    program: str = ""
    script: str | None = None
    module: bool = True
    python: str = ""
    executable: str = ""
    packages: Mapping[str, str | None] = field(default_factory=dict)
    cuda: str = ""
    driver: str = ""
    driver_cuda: str = ""
    gpus: tuple[Gpu, ...] | None = None
    links: Mapping[str, Any] | None = None
    taken: tuple[str, ...] | None = None
    shm: int | None = None
    locks: tuple[str, ...] = ()
    arch_list: str = ""
    visible: str | None = None
    trouble: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Facts:
        """Build it from what `dataclasses.asdict` gave, passed through JSON."""
        lists: dict[str, Any] = {name: tuple(fields[name]) for name in ("locks", "trouble")}
        gpus, taken = fields["gpus"], fields["taken"]
        lists["taken"] = None if taken is None else tuple(taken)
        found = None if gpus is None else tuple(map(_gpu, gpus))
        return cls(**{**fields, **lists, "gpus": found})


def _gpu(fields: Mapping[str, Any]) -> Gpu:
    return Gpu(**{**fields, "users": tuple(fields["users"]), "mig": tuple(fields["mig"])})
