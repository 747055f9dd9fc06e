"""Lint: the disks that NVMe offload writes to, judged by what was found there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.finding import Disk, Finding, Look

_SECTIONS = ("offload_optimizer", "offload_param")
# Nothing that is worth offloading is smaller.
_LEAST = 2**30
# fp32 parameter, its gradient and two moments; the parameter itself in half precision.
_BYTES = {"offload_optimizer": 16, "offload_param": 2}


def nvme_paths(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths of a config that offload will write to."""
    return tuple(dict.fromkeys(path for _, path in _offloads(config)))


def _offloads(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    zero = config.get("zero_optimization")
    for name in _SECTIONS if isinstance(zero, Mapping) else ():
        section = zero.get(name) if isinstance(zero, Mapping) else None
        if isinstance(section, Mapping) and section.get("device") == "nvme":
            path = section.get("nvme_path")
            if isinstance(path, str) and path not in ("", "auto"):
                yield name, path


def check_disks(look: Look) -> Iterator[Finding]:
    """Paths that are not there, cannot be written to, or have too little room."""
    for name, path in _offloads(look.config):
        disk = look.around.disks.get(path)
        where = ("zero_optimization", name, "nvme_path")
        if disk is None:
            continue
        if not disk.exists and disk.makeable:
            text = f"{path} is not there; DeepSpeed will make it"
            yield look.finds("note", "nvme-missing", where, text, f"mkdir {path}")
        elif not disk.exists:
            text = f"{path} is not there: is the disk mounted?"
            yield look.finds("error", "nvme-missing", where, text, f"mkdir -p {path}, on the disk")
        elif not disk.directory:
            text = f"{path} is no directory"
            yield look.finds("error", "nvme-missing", where, text, "name a directory")
        elif not disk.writable:
            text = f"{path} cannot be written to"
            mend = "have its owner give you a directory there"
            yield look.finds("error", "nvme-not-writable", where, text, mend)
        else:
            yield from _room(look, name, path, disk)


def _room(look: Look, name: str, path: str, disk: Disk) -> Iterator[Finding]:
    if disk.free is None:
        return
    parameters = look.around.parameters
    needed = parameters * _BYTES[name] if parameters else _LEAST
    if disk.free < needed:
        what = f"{name} of {parameters} parameters" if parameters else f"any {name}"
        text = f"{path} has {_gib(disk.free)} free; {what} needs {_gib(needed)} at least"
        where = ("zero_optimization", name, "nvme_path")
        yield look.finds("error", "nvme-too-small", where, text, "name a larger disk")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
