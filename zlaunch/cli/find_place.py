"""Finds the place of a run, and keeps what belongs to it while the run lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from zlaunch.cli.place import Place, this_machine
from zlaunch.cli.request import Request
from zlaunch.system.busy_port import reserve

Gather = Callable[[str], None]


@contextmanager
def find_place(
    request: Request, env: Mapping[str, str], *, gather: Gather | None
) -> Iterator[Place]:
    """Give the place of a run; without `gather`, one where nodes that have to join are supposed.

    It is called with what is waited for, before others are asked or waited for and as it changes.
    Raises InputError for hosts, devices or a port that cannot be had.
    """
    if request.join is not None:
        from zlaunch.cli.join_place import joined_place, supposed_place

        if gather is not None:
            with joined_place(request, request.join, env, gather) as place:
                yield place
        else:
            yield supposed_place(request, request.join, env)
        return
    if request.many is not None and request.many.allocation is not None:
        from zlaunch.cli.slurm_place import slurm_place

        allocation = request.many.allocation
        yield slurm_place(request, request.many, allocation, env, gather)
        return
    if request.many is not None:
        from zlaunch.cli.many_hosts import many_hosts

        yield many_hosts(request, request.many, env, gather)
        return
    port = reserve(request.master_port)
    try:
        yield this_machine(request, env, port.port)
    finally:
        port.release()
