"""Whether a rank has made progress between two looks at it.

Output is progress, and is seen without a look. Beyond that no single sign can be relied on: a
rank that hangs in NCCL keeps a core and its GPU at 100 %, one that waits for a file that never
comes moves between two lines, and rank 0 writes a checkpoint without a word while all others
wait. So of a rank that was silent

- data that flows, work of its child processes or of many threads, and a GPU that uses its memory
  are progress: NCCL waits in a kernel that touches none;
- a main process that uses next to no CPU makes none, wherever its stack is;
- one that does, makes progress if its stack has moved. Training is often at the same place, and
  not always: before it is said to hang it is looked at some thirty times.

A run makes progress while any of its ranks does: it is never the rank that waits who is to blame.
"""

from __future__ import annotations

from zlaunch.frozen import frozen
from zlaunch.insight.stacks import Thread, moved
from zlaunch.run.events import IDLE, Usage

_MANY_CORES = 3.0  # nobody waits with so many; CUDA and NCCL spin with one or two
_OTHERS_WORK = 0.2  # of a core: above, children do more than to wait for work
_DATA_FLOWS = 256 << 10  # bytes a second
_MEMORY_WORKS = 3  # percent of the time in which a GPU's memory is used


@frozen
class Seen:
    """One look at a rank, at `at` seconds; `dumps` has its threads for each time it was asked."""

    at: float
    dumps: tuple[tuple[Thread, ...], ...]
    usage: Usage


def progressed(before: Seen, after: Seen) -> bool:
    """Whether a rank that wrote nothing in between has made progress all the same."""
    seconds = max(after.at - before.at, 0.001)
    was, now = before.usage, after.usage
    if (now.memory or 0) >= _MEMORY_WORKS:
        return True
    if now.others - was.others >= _OTHERS_WORK * seconds:
        return True
    if now.traffic - was.traffic >= _DATA_FLOWS * seconds:
        return True
    cores = (now.cpu - was.cpu) / seconds
    if not IDLE <= cores < _MANY_CORES:
        return cores >= _MANY_CORES
    if not after.dumps:
        return True  # it works, and what at cannot be seen
    # Who waited until just now was not asked then, and the next look will tell.
    first, *others = (*before.dumps, *after.dumps)
    return any(moved(first, other) for other in others)
