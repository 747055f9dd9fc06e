"""The table of what was measured, as a person sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zlaunch.cli.bandwidth_table import describe_links, print_bandwidth, remarks
from zlaunch.insight.bandwidth import Bandwidth, Kind, Measured
from zlaunch.spec.links import Card, GpuLinks, Link

CARDS = tuple(Card(i, 1, 5, 16, 16, 18, 0, "4.0", 26_562_000_000) for i in range(3))
PAIRS = ((0, 1), (0, 2), (1, 2))
EVEN = GpuLinks(CARDS, tuple(Link(a, b, 18, True, "SYS") for a, b in PAIRS))


def result(kind: Kind, *hosts: str, gb: float, ranks: int = 2) -> Measured:
    return Measured(kind, hosts, ranks, 1 << 28, 9, 0.1, gb * 1e9)


MEASURED = Bandwidth(
    hosts=("h0", "h1", "h2"),
    backend="nccl",
    torch="2.11.0",
    measured=(
        result("within", "h0", gb=391, ranks=3),
        result("within", "h1", gb=180, ranks=3),
        result("world", "h0", "h1", "h2", gb=1.5, ranks=7),
        result("pair", "h0", "h1", gb=9.8),
        result("pair", "h1", "h2", gb=0.9),
        result("pair", "h2", "h0", gb=0.9),
    ),
    complete=True,
)


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    links = {"h0": EVEN, "h1": replace(EVEN, cards=(replace(CARDS[0], pcie_width=8), *CARDS[1:]))}
    print_bandwidth(MEASURED, links)
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    assert rows == [
        ["within h0", "3", "NV18 of 26.6 GB/s", "391 GB/s", ""],
        ["within h1", "3", "NV18 of 26.6 GB/s", "180 GB/s", "slow"],
        ["h0 - h1", "2", "", "9.8 GB/s", ""],
        ["h1 - h2", "2", "", "0.9 GB/s", "slow"],
        ["h2 - h0", "2", "", "0.9 GB/s", "slow"],
        ["all 3 hosts", "7", "", "1.5 GB/s", ""],
    ]
    assert lines[-4:] == [
        "h1 is slow: 180 GB/s within it, 391 GB/s within the other",
        "h2 is slow: 0.9 GB/s to its neighbours, 9.8 GB/s between the others",
        "h1: GPU 0 has 8 of its 16 PCIe lanes",
        "measured with nccl, torch 2.11.0; 1 GB/s is 1e9 bytes a second, as nccl-tests counts",
    ]


def test_links_where_nothing_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    print_bandwidth(Bandwidth(("h0", "h1")), {"h0": EVEN})
    out = capsys.readouterr().out
    assert "not measured" in out
    assert "within h1" not in out


def test_links_in_short() -> None:
    mixed = GpuLinks(CARDS, (Link(0, 1, 4), Link(0, 2, ancestor="SYS"), Link(1, 2, ancestor="SYS")))
    assert describe_links(mixed) == "SYS x 2, NV4 x 1"
    assert describe_links(GpuLinks(CARDS[:2], (Link(0, 1, ancestor="PHB"),))) == "PHB"
    assert describe_links(GpuLinks(CARDS[:1], ())) == describe_links(None) == ""


def test_hosts_without_gpus_and_nothing_to_measure_are_said() -> None:
    assert remarks(Bandwidth(("h0",), "gloo", "2", complete=True), {}) == (
        "there is nothing to measure with one rank",
    )
    (first, _) = remarks(replace(MEASURED, measured=MEASURED.measured[:1], without_gpus=("b",)), {})
    assert first == "torch cannot use the GPUs of b, so all was measured on the CPUs"
