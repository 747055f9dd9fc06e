"""The shared memory through which DeepSpeed's ranks on CPUs reduce, and which it leaves behind.

Each rank makes a file of 66 MiB in /dev/shm, and DeepSpeed (0.19.8, csrc/cpu/comm/shm.cpp) takes
none away, however the rank ends. Beyond the memory, ranks of a later run that meet at the same
address would open what is there, in whatever state it is.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

_FOLDER = "/dev/shm"  # noqa: S108  # where shm_open makes its files


def remove_buffers(env: Mapping[str, str]) -> None:
    """Remove what a rank with this environment made; who still has it mapped keeps it so long."""
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK")
    name = "_".join([str(os.getuid()), *(env.get(one, "") for one in names)])
    if "/" not in name:
        with suppress(OSError):  # most ranks made none
            os.unlink(f"{_FOLDER}/deepspeed_allreduce_buffer_{name}")
