"""What is wrong with a run that is to be submitted, found before it waits in a queue for hours."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from zlaunch.backends.several import SeveralBackends
from zlaunch.cli.many_hosts import environment, is_on_cpu
from zlaunch.cli.place import Devices, Place
from zlaunch.cli.prepare import prepare
from zlaunch.cli.request import Request, check
from zlaunch.errors import BatchError
from zlaunch.launcher.agents import Patience
from zlaunch.spec.allocation import Allocation
from zlaunch.spec.environment import Rendezvous
from zlaunch.spec.hostfile import Host
from zlaunch.system.run_store import RunStore, home_directory, new_run_id


def rehearse(request: Request, nodes: int | None, slots: int | None) -> None:
    """Go through the plan as if there were `nodes` with so many `slots` each; None: not known.

    Raises InputError (or another of it) for what cannot be done as asked, wherever it runs.
    """
    assert request.many is not None
    names = tuple(f"node-{number}" for number in range(nodes or 1))
    allocation = Allocation("0", names, (1,) * len(names))
    many = replace(request.many, allocation=allocation)
    request = replace(request, many=many)
    check(request)
    environment(many, os.environ)
    place = Place(
        hosts=tuple(Host(name, slots=tuple(range(slots or 1))) for name in names),
        devices=Devices("cpu" if is_on_cpu(request) else "cuda", tuple(range(slots or 1))),
        backend=SeveralBackends({}),
        patience=Patience(),
        rendezvous=Rendezvous("", request.master_port),
        env={},
        cores={},
        remote=True,
        allocation=allocation,
    )
    run = RunStore(home_directory(os.environ)).run(new_run_id())
    if nodes is not None and slots is not None:
        prepare(request, os.environ, run, place)
        return
    with suppress(BatchError):  # what depends on the number of ranks is not known yet
        prepare(replace(request, console_ranks="all"), os.environ, run, place)
