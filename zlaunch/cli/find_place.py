"""Finds the place of a run, and keeps what belongs to it while the run lasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from zlaunch.cli.place import Place, this_machine
from zlaunch.cli.request import Request
from zlaunch.system.busy_port import reserve


@contextmanager
def find_place(request: Request, env: Mapping[str, str]) -> Iterator[Place]:
    """Give the place of a run.

    Raises InputError for hosts, devices or a port that cannot be had.
    """
    if request.many is not None:
        from zlaunch.cli.many_hosts import many_hosts

        yield many_hosts(request, request.many, env)
        return
    port = reserve(request.master_port)
    try:
        yield this_machine(request, env, port.port)
    finally:
        port.release()
