"""Which host, or which link between two, is slow: the verdict on what was measured.

A host is compared with the other hosts, since nobody here knows what it should reach; but for
NVLink, whose driver says what it carries, and for what no training can use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal

from zlaunch.frozen import frozen
from zlaunch.insight.bandwidth import Bandwidth, Measured
from zlaunch.spec.links import GpuLinks

SLOW = 0.6
"""Of what the others reach. Equal hosts differ by a tenth or so, while what goes wrong costs
half at least: a PCIe link at half its width, one of two rails down, TCP in place of RDMA."""

FAR = 0.3
"""Of the best pair, for where half of the pairs are slow and the median tells nothing. Less than
SLOW, since two hosts on one switch may do better than the rest, and nothing is wrong then."""

UNUSABLE = 0.1e9
"""Bytes per second between hosts, a little less than Gigabit Ethernet carries. Below it, the
gradients of a billion parameters in 16 bits take 20 s a step and more."""

NVLINK_UNUSED = 0.25
"""Of what the NVLinks carry. With large messages NCCL reaches well over half of it; where it
goes over PCIe or the CPU's memory instead, about a tenth."""


@frozen
class Verdict:
    """What is slow: a host within or to its neighbours, or a link between two; in a sentence."""

    kind: Literal["within", "pair"]
    hosts: tuple[str, ...]
    text: str


def judge(bandwidth: Bandwidth, links: Mapping[str, GpuLinks] | None = None) -> tuple[Verdict, ...]:
    """Name what is slow; nothing where all is even. `links` are those of the GPUs, by host."""
    results = bandwidth.of("within")
    slow = _within(results)
    if bandwidth.backend == "nccl":
        named = {verdict.hosts for verdict in slow}
        others = [one for one in results if one.hosts not in named]
        slow += [v for one in others if (v := _beside_nvlink(one, (links or {}).get(one.hosts[0])))]
    return (*slow, *_between(bandwidth.of("pair")))


def speed(bytes_per_second: float) -> str:
    """`391 GB/s`, `9.8 GB/s`, `0.024 GB/s`: a GB is 1e9 bytes."""
    value = bytes_per_second / 1e9
    digits = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"
    return f"{digits} GB/s"


def _within(results: Sequence[Measured]) -> list[Verdict]:
    found = []
    for one in results:
        others = [o for o in results if o is not one and o.ranks == one.ranks]
        if others and one.bus_bytes_per_second < SLOW * _median(others):
            host, count = one.hosts[0], len(others)
            reached = f"{speed(_median(others))} within the other{'s' if count > 1 else ''}"
            here = speed(one.bus_bytes_per_second)
            found.append(Verdict("within", (host,), f"{host} is slow: {here} within it, {reached}"))
    return found


def _beside_nvlink(one: Measured, links: GpuLinks | None) -> Verdict | None:
    carried = links.nvlink_bytes_per_second() if links is not None else None
    if carried is None or one.bus_bytes_per_second >= NVLINK_UNUSED * carried:
        return None
    host, here = one.hosts[0], speed(one.bus_bytes_per_second)
    text = f"{host} is slow: {here} within it, while its NVLinks carry {speed(carried)}"
    return Verdict("within", (host,), f"{text}; NCCL_DEBUG=INFO shows which way NCCL goes")


def _between(pairs: Sequence[Measured]) -> list[Verdict]:
    """Hosts whose every pair is slow, then slow pairs that no such host explains."""
    hosts = dict.fromkeys(host for pair in pairs for host in pair.hosts)
    slow_hosts = {host: verdict for host in hosts if (verdict := _slow_host(host, pairs))}
    unexplained = [pair for pair in pairs if not slow_hosts.keys() & set(pair.hosts)]
    links = [verdict for pair in unexplained if (verdict := _slow_link(pair, pairs))]
    return [*slow_hosts.values(), *links]


def _slow_host(host: str, pairs: Sequence[Measured]) -> Verdict | None:
    own = [pair for pair in pairs if host in pair.hosts]
    others = [pair for pair in pairs if host not in pair.hosts]
    if not others or any(p.bus_bytes_per_second >= SLOW * _median(others) for p in own):
        return None
    here, there = speed(_median(own)), speed(_median(others))
    text = f"{host} is slow: {here} to its neighbours, {there} between the others"
    return Verdict("pair", (host,), text)


def _slow_link(pair: Measured, pairs: Sequence[Measured]) -> Verdict | None:
    others = [other for other in pairs if other is not pair]
    reached, (a, b) = pair.bus_bytes_per_second, pair.hosts
    link = f"the link between {a} and {b} is slow: {speed(reached)}"
    if others and reached < SLOW * _median(others):
        return Verdict("pair", pair.hosts, f"{link}, {speed(_median(others))} between the others")
    best = max(pairs, key=lambda one: one.bus_bytes_per_second)
    if reached < FAR * best.bus_bytes_per_second:
        there = f"{speed(best.bus_bytes_per_second)} between {' and '.join(best.hosts)}"
        return Verdict("pair", pair.hosts, f"{link}, {there}")
    if reached >= UNUSABLE:
        return None
    doubt = "" if others else "; with two hosts nothing tells which of them it is"
    return Verdict("pair", pair.hosts, f"{link}, less than Gigabit Ethernet carries{doubt}")


def _median(results: Sequence[Measured]) -> float:
    return median(one.bus_bytes_per_second for one in results)
