"""The lines of the ranks that measure all-reduce, and the verdict on them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from zlaunch.insight.bandwidth import Bandwidth, Measured, read_bandwidth
from zlaunch.insight.slow_hosts import judge, speed
from zlaunch.spec.links import Card, GpuLinks, Link

GB = 1e9
SETUP = (
    'ZLAUNCH-BANDWIDTH {"kind": "setup", "backend": "gloo", "torch": "2.13.0+cpu", "nodes": '
    '[{"ranks": 1, "gpus_wanted": true, "device": null}, '
    '{"ranks": 3, "gpus_wanted": true, "device": "NVIDIA H200"}]}'
)
PAIR = (
    'ZLAUNCH-BANDWIDTH {"kind": "pair", "nodes": [0, 1], "ranks": 2, "bytes": 8388608, '
    '"iterations": 12, "seconds": 0.5, "bus_bytes_per_second": 16777216.0}'
)


def within(**speeds: float) -> Bandwidth:
    return Bandwidth(
        tuple(speeds),
        measured=tuple(
            Measured("within", (host,), 8, 1 << 28, 9, 0.1, speed * GB)
            for host, speed in speeds.items()
        ),
    )


def ring(*speeds: float) -> Bandwidth:
    """Pairs h0-h1, h1-h2, ..., and the last with the first where there are more than two."""
    count = max(len(speeds), 2)
    pairs = [(f"h{i}", f"h{(i + 1) % count}") for i in range(len(speeds))]
    measured = [
        Measured("pair", pair, 2, 1 << 28, 9, 0.1, speed * GB)
        for pair, speed in zip(pairs, speeds, strict=True)
    ]
    return Bandwidth(tuple(f"h{i}" for i in range(count)), measured=tuple(measured))


def said(bandwidth: Bandwidth) -> list[str]:
    return [verdict.text for verdict in judge(bandwidth)]


def test_lines_are_read_among_others() -> None:
    lines = [
        "[W socket.cpp] a warning of torch",
        SETUP,
        "NCCL version 2.27.5",
        PAIR,
        'ZLAUNCH-BANDWIDTH {"kind": "end"}',
    ]
    bandwidth = read_bandwidth(lines, ["a", "b"])
    assert bandwidth == Bandwidth(
        hosts=("a", "b"),
        backend="gloo",
        torch="2.13.0+cpu",
        measured=(Measured("pair", ("a", "b"), 2, 8388608, 12, 0.5, 16777216.0),),
        without_gpus=("a",),
        complete=True,
    )
    assert json.loads(json.dumps(bandwidth.to_json()))["measured"][0]["hosts"] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ZLAUNCH-BANDWIDTH",
        "ZLAUNCH-BANDWIDTH {",
        "ZLAUNCH-BANDWIDTH [1]",
        "ZLAUNCH-BANDWIDTH null",
        'ZLAUNCH-BANDWIDTH {"kind": "other"}',
        'ZLAUNCH-BANDWIDTH {"kind": "setup", "backend": "nccl", "torch": "2", "nodes": [3]}',
        PAIR.replace("[0, 1]", "[0, 7]"),
        PAIR.replace("12", '"many"'),
        PAIR.replace('"seconds"', '"minutes"'),
        PAIR[: len(PAIR) // 2],
    ],
)
def test_what_cannot_be_read_is_passed_over(line: str) -> None:
    bandwidth = read_bandwidth([line, PAIR], ["a", "b"])
    assert len(bandwidth.measured) == 1
    assert not bandwidth.complete


C = "c is slow: 180 GB/s within it, 390 GB/s within the others"


@pytest.mark.parametrize(
    ("bandwidth", "sentences"),
    [
        (
            within(a=391, b=388, c=180),
            ["c is slow: 180 GB/s within it, 390 GB/s within the others"],
        ),
        (within(a=391, b=20.0), ["b is slow: 20.0 GB/s within it, 391 GB/s within the other"]),
        (within(a=391, b=250), []),
        (within(a=3), []),
        (Bandwidth(()), []),
    ],
)
def test_a_slow_host_by_itself(bandwidth: Bandwidth, sentences: list[str]) -> None:
    assert said(bandwidth) == sentences


def test_hosts_of_other_sizes_are_not_compared() -> None:
    one, other = within(a=391, b=20).measured
    alone = Measured("within", ("b",), 2, other.bytes, 9, 0.1, other.bus_bytes_per_second)
    assert said(Bandwidth(("a", "b"), measured=(one, alone))) == []


UNUSABLE = (
    "the link between h0 and h1 is slow: 0.024 GB/s, less than Gigabit Ethernet carries; "
    "with two hosts nothing tells which of them it is"
)
H2 = "h2 is slow: 0.9 GB/s to its neighbours, 9.8 GB/s between the others"
H2_ALONE = "h2 is slow: 0.025 GB/s to its neighbours, 9.8 GB/s between the others"


@pytest.mark.parametrize(
    ("speeds", "sentences"),
    [
        ([9.8, 0.9, 0.9, 9.8], [H2]),
        ([9.8, 0.025, 0.025], [H2_ALONE]),
        ([9.8, 9.5, 9.9, 7.0], []),
        (  # two slow neighbours
            [9.8, 0.9, 0.5, 0.9, 9.8, 9.8],
            [H2.replace("0.9", "0.7"), H2.replace("0.9", "0.7").replace("h2", "h3")],
        ),
        (  # one link only, so neither of its hosts
            [9.8, 0.9, 9.8, 9.8],
            ["the link between h1 and h2 is slow: 0.9 GB/s, 9.8 GB/s between the others"],
        ),
        (  # h0 and h2: the one between them looks slow as well, so the links are named
            [0.9, 0.9, 0.9, 9.8, 0.9],
            [
                f"the link between {a} and {b} is slow: 0.9 GB/s, 9.8 GB/s between h3 and h4"
                for a, b in (("h0", "h1"), ("h1", "h2"), ("h2", "h3"), ("h4", "h0"))
            ],
        ),
        ([0.9], []),
        (
            [0.024],
            [UNUSABLE],
        ),
        ([9.8, 9.8, 9.8], []),
    ],
)
def test_a_slow_host_among_others(speeds: list[float], sentences: list[str]) -> None:
    assert said(ring(*speeds)) == sentences


def test_the_verdict_names_the_hosts() -> None:
    assert [verdict.hosts for verdict in judge(ring(9.8, 0.9, 0.9, 9.8))] == [("h2",)]
    assert [verdict.hosts for verdict in judge(ring(0.01))] == [("h0", "h1")]


def test_speeds_in_few_digits() -> None:
    assert [speed(x) for x in (391.4e9, 99.96e9, 1e9, 0.9e9, 0.0241e9, 0)] == [
        "391 GB/s", "100.0 GB/s", "1.0 GB/s", "0.9 GB/s", "0.024 GB/s", "0 GB/s"
    ]  # fmt: skip


BESIDE = (
    "a is slow: 20.0 GB/s within it, while its NVLinks carry 478 GB/s; "
    "NCCL_DEBUG=INFO shows which way NCCL goes"
)


def nvlink(count: int, each: int | None = 26_562_000_000) -> GpuLinks:
    cards = tuple(Card(i, nvlinks=count, nvlink_bytes_per_second=each) for i in range(2))
    return GpuLinks(cards, (Link(0, 1, nvlinks=count, switched=True, ancestor="SYS"),))


@pytest.mark.parametrize(
    ("measured", "links", "slow"),
    [
        (20, nvlink(18), True),
        (360, nvlink(18), False),
        (20, nvlink(0), False),
        (20, nvlink(18, None), False),
        (20, None, False),
    ],
)
def test_nvlink_that_is_not_used(measured: float, links: GpuLinks | None, slow: bool) -> None:
    bandwidth = replace(within(a=measured), backend="nccl")
    found = judge(bandwidth, {} if links is None else {"a": links})
    assert [verdict.text for verdict in found] == [BESIDE] * slow
    assert not judge(replace(bandwidth, backend="gloo"), {"a": nvlink(18)})
