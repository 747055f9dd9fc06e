"""What was measured of all-reduce, and the GPUs' links, as a table for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from zlaunch.insight.bandwidth import Bandwidth, Measured
from zlaunch.insight.slow_hosts import Verdict, judge, speed
from zlaunch.spec.links import GpuLinks, Link


def print_bandwidth(bandwidth: Bandwidth, links: Mapping[str, GpuLinks]) -> None:
    """Print a row for each group of ranks, then what is slow or wrong; `links` by host."""
    console = Console(markup=False, highlight=False, soft_wrap=True)
    console.print(bandwidth_table(bandwidth, links))
    for line in remarks(bandwidth, links):
        console.print(line)


def bandwidth_table(bandwidth: Bandwidth, links: Mapping[str, GpuLinks]) -> Table:
    """Hosts by themselves, neighbours in turn, all together."""
    verdicts = judge(bandwidth, links)
    table = Table("all-reduce", "ranks", "links", "bus bandwidth", "", title=None)
    within = {one.hosts[0]: one for one in bandwidth.of("within")}
    for host in bandwidth.hosts:
        one, ways = within.get(host), describe_links(links.get(host))
        if one is not None or ways:
            table.add_row(f"within {host}", *_cells(one, ways), _slow("within", (host,), verdicts))
    for pair in bandwidth.of("pair"):
        slow = _slow("pair", pair.hosts, verdicts)
        table.add_row(" - ".join(pair.hosts), *_cells(pair, ""), slow)
    for world in bandwidth.of("world"):
        table.add_row(f"all {len(world.hosts)} hosts", *_cells(world, ""), "")
    return table


def _cells(one: Measured | None, ways: str) -> tuple[str, str, str]:
    if one is None:
        return "", ways, "not measured"
    return str(one.ranks), ways, speed(one.bus_bytes_per_second)


def _slow(kind: str, hosts: Sequence[str], verdicts: Sequence[Verdict]) -> str:
    blamed = [set(verdict.hosts) for verdict in verdicts if verdict.kind == kind]
    return "slow" if any(culprits <= set(hosts) for culprits in blamed) else ""


def describe_links(links: GpuLinks | None) -> str:
    """`NV18 of 26.6 GB/s`; `NV4 x 2, SYS x 4` where pairs differ; empty for one GPU or none."""
    if links is None or not links.links:
        return ""
    kinds = Counter(link.kind for link in links.links)
    if len(kinds) > 1:
        return ", ".join(f"{kind} x {count}" for kind, count in kinds.most_common())
    each = _speed_of(links, links.links[0])
    return f"{links.links[0].kind}{f' of {speed(each)}' if each else ''}"


def _speed_of(links: GpuLinks, link: Link) -> int | None:
    """Of one NVLink, each way."""
    card = next(card for card in links.cards if card.index == link.first)
    return card.nvlink_bytes_per_second if link.nvlinks else None


def remarks(bandwidth: Bandwidth, links: Mapping[str, GpuLinks]) -> tuple[str, ...]:
    """What is slow, what is wrong with links, and how it was measured; a sentence each."""
    lines = [verdict.text for verdict in judge(bandwidth, links)]
    for host, found in links.items():
        lines += [f"{host}: {finding}" for finding in found.findings()]
    if bandwidth.without_gpus:
        named = ", ".join(bandwidth.without_gpus)
        lines.append(f"torch cannot use the GPUs of {named}, so all was measured on the CPUs")
    if bandwidth.measured:
        how = f"{bandwidth.backend}, torch {bandwidth.torch}"
        lines.append(f"measured with {how}; 1 GB/s is 1e9 bytes a second, as nccl-tests counts")
    elif bandwidth.complete:
        lines.append("there is nothing to measure with one rank")
    return tuple(lines)
