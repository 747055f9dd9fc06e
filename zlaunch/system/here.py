"""Which of a run's hosts is this machine: it needs no SSH."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from zlaunch.errors import BackendError
from zlaunch.spec.hostfile import Host
from zlaunch.system.bounded import within
from zlaunch.system.routes import is_this_machine
from zlaunch.system.ssh_config import is_direct, resolve


def which_are_here(hosts: Sequence[Host], home: Path, timeout: float) -> list[bool]:
    """Say of each host whether it is this machine: by name or address, no port or user given.

    All are looked up at once: where a name server loses one answer, that takes seconds. One
    that is not found in `timeout` seconds is not here.
    """
    calls = [partial(_is_here, host, home) for host in hosts]
    return [bool(answer) for answer in within(timeout, calls)]


def _is_here(host: Host, home: Path) -> bool:
    """Of an alias of the SSH configuration no name server knows; what it stands for counts."""
    if host.port is not None or host.user is not None:
        return False
    try:
        target = resolve(host.name, home=home)
    except BackendError:  # told once the host is to be reached that way
        return is_this_machine(host.name)
    if target.hostname == host.name.lower():
        return is_this_machine(host.name)
    return is_direct(target) and is_this_machine(target.hostname)
