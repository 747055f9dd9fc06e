"""What the ranks measured of all-reduce (zlaunch/workers/all_reduce.py), read from their lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from zlaunch.frozen import frozen

MARK = "ZLAUNCH-BANDWIDTH"

Kind = Literal["within", "world", "pair"]


@frozen
class Measured:
    """All-reduce over one group of ranks.

    `within` is one host, `world` all ranks of all hosts, `pair` one rank each of two hosts.
    Seconds are the median of `iterations` messages; bus bandwidth is as in nccl-tests.
    """

    kind: Kind
    hosts: tuple[str, ...]
    ranks: int
    bytes: int
    iterations: int
    seconds: float
    bus_bytes_per_second: float


@frozen
class Bandwidth:
    """All that was measured; `complete` is false where the ranks did not come to the end.

    `backend` is nccl or gloo; `without_gpus` are hosts whose torch cannot use the GPUs that
    were meant for it.
    """

    hosts: tuple[str, ...]
    backend: str = ""
    torch: str = ""
    measured: tuple[Measured, ...] = ()
    without_gpus: tuple[str, ...] = ()
    complete: bool = False

    def of(self, kind: Kind) -> tuple[Measured, ...]:
        """The results of one kind, in the order of the hosts."""
        return tuple(one for one in self.measured if one.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "backend": self.backend,
            "torch": self.torch,
            "hosts": list(self.hosts),
            "measured": [{**vars(one), "hosts": list(one.hosts)} for one in self.measured],
            "without_gpus": list(self.without_gpus),
            "complete": self.complete,
        }


def read_bandwidth(lines: Iterable[str], hosts: Sequence[str]) -> Bandwidth:
    """Read the results among the lines of rank 0; `hosts` are the names by node rank.

    A line that is not of this kind, or not whole, is passed over.
    """
    backend = torch = ""
    without: tuple[str, ...] = ()
    measured: list[Measured] = []
    complete = False
    for fields in filter(None, map(_fields, lines)):
        try:
            if fields["kind"] == "setup":
                backend, torch = str(fields["backend"]), str(fields["torch"])
                without = _without_gpus(fields["nodes"], hosts)
            elif fields["kind"] in ("within", "world", "pair"):
                measured.append(_measured(fields, hosts))
            elif fields["kind"] == "end":
                complete = True
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    return Bandwidth(tuple(hosts), backend, torch, tuple(measured), without, complete)


def _fields(line: str) -> dict[str, Any] | None:
    _, mark, rest = line.partition(f"{MARK} ")
    if not mark:
        return None
    try:
        fields = json.loads(rest)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _measured(fields: dict[str, Any], hosts: Sequence[str]) -> Measured:
    return Measured(
        kind=fields["kind"],
        hosts=tuple(hosts[node] for node in fields["nodes"]),
        ranks=int(fields["ranks"]),
        bytes=int(fields["bytes"]),
        iterations=int(fields["iterations"]),
        seconds=float(fields["seconds"]),
        bus_bytes_per_second=float(fields["bus_bytes_per_second"]),
    )


def _without_gpus(nodes: Sequence[dict[str, Any]], hosts: Sequence[str]) -> tuple[str, ...]:
    lacking = [node["gpus_wanted"] and not node["device"] for node in nodes]
    return tuple(host for host, lacks in zip(hosts, lacking, strict=False) if lacks)
