"""What `zlaunch doctor` found, for a person and as data."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from zlaunch.cli.bandwidth import Measurement
from zlaunch.cli.doctor_operators import Built
from zlaunch.cli.place import Place
from zlaunch.insight.slow_hosts import judge
from zlaunch.launcher.examination import Examined
from zlaunch.run.findings import Finding
from zlaunch.spec.facts import Facts, Gpu
from zlaunch.spec.links import GpuLinks

_WIDE = 250  # columns where nobody says how many there are


def as_json(
    place: Place,
    found: Examined,
    measured: Measurement | None,
    allowed: Collection[str],
    built: Built | None = None,
) -> str:
    """One object: each host with what it said and what is wrong with it; operators, bandwidths."""
    hosts = []
    for node_rank, host in enumerate(place.hosts):
        facts = _facts(found, node_rank)
        ready = found.ready.get(node_rank)
        hosts.append(
            {
                "host": host.name,
                "address": host.address or (ready.address if ready else "") or None,
                "slots": list(host.slots),
                "facts": None if facts is None else asdict(facts),
                "clock": _clock(found, node_rank),
                "findings": [_as_data(finding) for finding in _of(host.name, found.findings)],
            }
        )
    met = found.fitness.rendezvous if found.fitness else None
    return json.dumps(
        {
            "ok": all(f.warning or f.code in allowed for f in found.findings),
            "hosts": hosts,
            "rendezvous": None if met is None else asdict(met),
            "operators": None if built is None else built.to_json(),
            "bandwidth": None if measured is None else _measured(found, measured),
        },
        indent=2,
    )


def _measured(found: Examined, measured: Measurement) -> dict[str, Any]:
    verdicts = judge(measured.bandwidth, _links(found))
    return {
        **measured.bandwidth.to_json(),
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "failure": None if measured.failure is None else asdict(measured.failure),
    }


def _links(found: Examined) -> dict[str, GpuLinks]:
    """The links of each host that has GPUs, by its name."""
    facts = found.fitness.facts if found.fitness else {}
    return {
        found.hosts[node_rank]: GpuLinks.from_json(one.links)
        for node_rank, one in facts.items()
        if one.links is not None
    }


def print_measured(found: Examined, measured: Measurement | None) -> None:
    """What came of --bandwidth."""
    from zlaunch.cli.bandwidth_table import print_bandwidth

    if measured is None:
        print("all-reduce was not measured: first mend what is wrong")  # noqa: T201
        return
    if measured.bandwidth.hosts:
        print_bandwidth(measured.bandwidth, _links(found))
    failure = measured.failure
    if failure is not None:
        hint = (f"  hint: {failure.hint}",) if failure.hint else ()
        for line in (failure.message, *(f"  {word}" for word in failure.words), *hint):
            print(line)  # noqa: T201


def print_built(built: Built | None) -> None:
    """What came of --build-ops."""
    if built is None:
        print("operators were not built: first mend what is wrong")  # noqa: T201
        return
    for line in built.lines:
        print(line)  # noqa: T201


def _facts(found: Examined, node_rank: int) -> Facts | None:
    return found.fitness.facts.get(node_rank) if found.fitness else None


def _clock(found: Examined, node_rank: int) -> dict[str, float] | None:
    bounds = found.fitness.clocks.get(node_rank) if found.fitness else None
    return None if bounds is None else dict(zip(("ahead_least", "ahead_most"), bounds, strict=True))


def _of(host: str, findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.host == host]


def _as_data(finding: Finding) -> dict[str, Any]:
    about = {"code": finding.code, "text": finding.text, "warning": finding.warning}
    return {**about, "hint": finding.hint or None}


def print_table(place: Place, found: Examined, allowed: Collection[str]) -> None:
    """A row a host; below, everything that is wrong with the way out."""
    from rich.console import Console
    from rich.table import Table

    headings = ("host", "Python", "torch", "CUDA", "deepspeed", "driver", "GPUs", "shm", "")
    gpus = place.devices.kind == "cuda"
    shown = [name for name in headings if gpus or name not in {"CUDA", "driver", "GPUs"}]
    table = Table(title=None)
    for name in shown:
        table.add_column(name, overflow="fold")  # a version cut short would say another one
    for node_rank, host in enumerate(place.hosts):
        cells = dict(zip(headings, _cells(_facts(found, node_rank)), strict=False))
        wrong = [finding for finding in _of(host.name, found.findings) if not finding.warning]
        bad = [finding for finding in wrong if finding.code not in allowed]
        verdict = f"{len(bad)} wrong" if bad else "allowed" if wrong else "fine"
        cells |= {"host": host.name, "": verdict}
        table.add_row(*(cells.get(name, "") for name in shown))
    width = None if sys.stdout.isatty() else _WIDE
    console = Console(markup=False, highlight=False, soft_wrap=True, width=width)
    console.print(table)
    for finding in found.findings:
        console.print(f"{finding.host}: [{finding.code}] {finding.text}")
        if finding.hint:
            console.print(f"  hint: {finding.hint}")
    if not place.remote and not gpus:
        console.print("no GPU was found here; --device cuda insists that there are some")
    if len(place.hosts) > 1 and found.fitness and not found.findings:
        met = found.fitness.rendezvous
        console.print(f"every host reaches {met.address}:{met.port} of {place.hosts[0].name}")


def _cells(facts: Facts | None) -> tuple[str, ...]:
    if facts is None:
        return ("", "", "", "", "", "", "", "")
    versions = [facts.packages.get(name) or "-" for name in ("torch", "deepspeed")]
    shm = "-" if facts.shm is None else f"{facts.shm / 2**30:.1f} GiB"
    gpus = "-" if facts.gpus is None else _describe(facts.gpus)
    return (
        "",
        facts.python,
        versions[0],
        facts.cuda or "-",
        versions[1],
        _driver(facts),
        gpus,
        shm,
    )


def _driver(facts: Facts) -> str:
    return f"{facts.driver} (CUDA {facts.driver_cuda})" if facts.driver else "-"


def _describe(gpus: Sequence[Gpu]) -> str:
    """`8 x NVIDIA H200 (140 GiB)`."""
    kinds: dict[str, int] = {}
    for gpu in gpus:
        kind = f"{gpu.name} ({gpu.memory / 2**30:.0f} GiB)"
        kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "none"
