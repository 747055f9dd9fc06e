"""A GPU as its driver describes it.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from zlaunch.frozen import frozen


@frozen
class Device:
    """One GPU as its driver describes it; `memory` in bytes, `mig` its MIG devices' UUIDs."""

    index: int
    uuid: str
    name: str = ""
    memory: int = 0
    bf16: bool = True
    mig: tuple[str, ...] = ()
