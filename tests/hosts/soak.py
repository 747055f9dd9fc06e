"""Every fault on every way, many times; counts who survives.

python tests/hosts/soak.py [--runs N] [--only FAULT] [--way WAY]

Prints a Markdown table and exits with 1 where anything survived, an exit code was another one,
or the end came late. Needs what the tests beside it need: root, iproute2, sshd.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from faults import BOUND, BY_NAME, FAULTS, WAYS, Fault, Struck, play
from hosts import Lab, missing


@dataclass
class Row:
    """What came of one fault on one way."""

    fault: Fault
    way: str
    struck: list[Struck] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, struck: Struck) -> None:
        self.struck.append(struck)
        fault = self.fault
        if struck.survivors:
            self.wrong.append(f"left alive: {struck.survivors}")
        if struck.code not in fault.codes:
            self.wrong.append(f"exit code {struck.code}: {struck.words[-500:]}")
        if struck.seconds > fault.grace + BOUND:
            self.wrong.append(f"took {struck.seconds:.1f} s")
        if "Traceback (most recent call last)" in struck.words:
            self.wrong.append(struck.words[-2000:])

    @property
    def cells(self) -> tuple[str, ...]:
        left = sum(len(struck.survivors) for struck in self.struck)
        codes = " ".join(map(str, sorted({struck.code or 0 for struck in self.struck})))
        slowest = max(struck.seconds for struck in self.struck)
        grace = f"{self.fault.grace:g} s" if self.fault.mode == "ignores" else ""
        runs, late = str(len(self.struck)), f"{slowest:.2f} s"
        return self.fault.name, self.way, runs, str(left), codes, late, grace


HEAD = ("fault", "way", "runs", "survivors", "exit codes", "slowest end", "grace that was needed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", action="append", choices=BY_NAME, metavar="FAULT")
    parser.add_argument("--way", action="append", choices=WAYS)
    asked = parser.parse_args()
    reason = missing()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    begun, rows = time.monotonic(), []
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}", flush=True)
    with Lab(2) as lab, tempfile.TemporaryDirectory(prefix="zlaunch-soak-") as folder:
        for fault, way in _cases(asked.only, asked.way):
            row = Row(fault, way)
            rows.append(row)
            for number in range(asked.runs):
                place = Path(folder) / f"{len(rows)}-{number}"
                place.mkdir()
                row.add(play(fault, way, lab, place))
            print(f"| {' | '.join(row.cells)} |", flush=True)
    runs = sum(len(row.struck) for row in rows)
    left = sum(len(struck.survivors) for row in rows for struck in row.struck)
    print(f"\n{runs} runs in {time.monotonic() - begun:.0f} s, {left} survivors")
    wrong = [f"{row.fault.name}, {row.way}: {what}" for row in rows for what in row.wrong]
    print(*wrong, sep="\n")
    return 1 if wrong else 0


def _cases(only: list[str] | None, ways: list[str] | None) -> Iterator[tuple[Fault, str]]:
    for fault in FAULTS:
        for way in WAYS:
            chosen = (not only or fault.name in only) and (not ways or way in ways)
            if chosen and way in fault.ways:
                yield fault, way


if __name__ == "__main__":
    sys.exit(main())
