"""Measures zlaunch against its peers installed beside this Python; prints a Markdown table.

python benchmarks/run.py [--only NAME] [--rounds N] [--quick] [-o results.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from harness import machine, report
from harness.case import Bench, Outcome
from harness.contender import ZLAUNCH, Launchers
from harness.process import adopt_orphans, to_the_end
from harness.rounds import alternate

# In the order of the table; each is a module of `suite`.
BENCHMARKS = (
    "help",
    "bad_input",
    "first_line",
    "operators",
    "death",
    "stubborn",
    "faults",
    "logs",
    "stalled_reader",
    "follow",
    "memory",
    "idle",
    "many_hosts",
    "slurm",
)


def main() -> int:
    options = _options()
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="zlaunch-bench-") as scratch:
        launchers = Launchers(Path(scratch) / "home")
        if launchers.contender(ZLAUNCH).cannot:
            print(f"zlaunch is not installed beside {sys.executable}", file=sys.stderr)
            return 2
        bench = Bench(launchers, Path(scratch), options.quick)
        before = machine.load()
        _warm_up(bench)
        outcomes = [
            alternate(case, options.rounds or (1 if options.quick else case.rounds))
            for name in BENCHMARKS
            if not options.only or name in options.only
            for case in import_module(f"suite.{name}").cases(bench)
        ]
    about = {**machine.describe(), "load before": before, "load after": machine.load()}
    print(", ".join(f"{name} {value}" for name, value in about.items()), end="\n\n")
    print(report.markdown(outcomes), end="")
    if options.output:
        results = {"machine": about, "results": report.as_json(outcomes)}
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    return _exit_code(outcomes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="this one; repeatable")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of every case")
    parser.add_argument("--quick", action="store_true", help="one round, small: does it work?")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="all samples, as JSON")
    return parser.parse_args()


def _warm_up(bench: Bench) -> None:
    """Have the files of all contenders read and compiled before the first one is timed."""
    for contender in bench.launchers.all(2, bench.script("import_torch.py")):
        if contender.cannot is None:
            to_the_end(contender)


def _exit_code(outcomes: list[Outcome]) -> int:
    """1 where a contender did not do what the table says that it was measured at."""
    return 1 if any(outcome.failures for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
