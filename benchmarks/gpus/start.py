"""Start-up on real GPUs, warm and cold, beside torchrun and deepspeed; a Markdown table.

python benchmarks/gpus/start.py RANKS [--device cpu] [--rounds N] [--seconds LIMIT] [--only NAME]
                                [--shared]

From the command until every rank has printed its first line, having imported torch and deepspeed,
and until every rank has taken a ZeRO-2 step over the devices' collectives. The contenders take
turns. What has not ended after `--seconds` is killed, with all that it started. With `--shared`
all ranks use one GPU: zlaunch is told of as many, NCCL of a host for each rank.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "benchmarks/workers/zero_step.py")
SHARED = """
import zlaunch.system.gpus as gpus
from dataclasses import replace
from zlaunch.cli.main import main
first = gpus.discover()[0]
gpus._nvml_devices = lambda _: tuple(
    replace(first, index=index, uuid=f"{first.uuid}-{index}") for index in range(RANKS))
main()
"""
DEEPSPEED = "from deepspeed.launcher.runner import main; main()"
MARKS = ("first line", "last step")


def main() -> None:
    options = _options()
    contenders = _contenders(options)
    samples: dict[str, list[tuple[float, ...]]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(options.rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seen, code = _timed(contenders[name], options)
            print(f"{name}: {seen} exit code {code}", file=sys.stderr, flush=True)
            if len(seen) == len(MARKS) and code == 0:
                samples[name].append(tuple(seen[mark] for mark in MARKS))
    print(f"| {options.ranks} ranks | {' | '.join(MARKS)} |\n| --- | ---: | ---: |")
    for name, taken in samples.items():
        cells = [f"{statistics.median(column):.2f} s" for column in zip(*taken, strict=True)]
        print(f"| {name} | {' | '.join(cells or ['failed'] * len(MARKS))} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ranks", type=int)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", action="append")
    parser.add_argument("--shared", action="store_true")
    return parser.parse_args()


def _contenders(options: argparse.Namespace) -> dict[str, list[str]]:
    python, ranks = sys.executable, str(options.ranks)
    how = ["-c", SHARED.replace("RANKS", ranks)] if options.shared else ["-m", "zlaunch"]
    counted = "--cpu" if options.device == "cpu" else "--num-gpus"
    zlaunch = [python, *how, "run", *(["--share-gpus"] if options.shared else []), counted]
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
    all_of_them = {
        "zlaunch --start warm": [*zlaunch, ranks, "--start", "warm", SCRIPT],
        "zlaunch --start cold": [*zlaunch, ranks, "--start", "cold", SCRIPT],
        "torchrun": [*torchrun, SCRIPT],
        "deepspeed": [python, "-c", DEEPSPEED, "--num_gpus", ranks, SCRIPT],
    }
    return {k: v for k, v in all_of_them.items() if not options.only or k in options.only}


def _timed(command: list[str], options: argparse.Namespace) -> tuple[dict[str, float], int]:
    """When, in seconds from the command, all ranks had said each of the marks; its exit code."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    if options.shared:
        env["RANKS_SHARE_A_GPU"] = "1"
    begun, text, seen = time.monotonic(), "", {}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, start_new_session=True
    )
    limit = threading.Timer(options.seconds, os.killpg, (process.pid, signal.SIGKILL))
    limit.start()
    assert process.stdout is not None
    while data := os.read(process.stdout.fileno(), 1 << 16):
        text += data.decode(errors="replace")
        for mark in MARKS:
            ranks = set(re.findall(rf"{mark} of rank (\d+)\n", text))
            if mark not in seen and len(ranks) == options.ranks:
                seen[mark] = time.monotonic() - begun
    code = process.wait()
    limit.cancel()
    told = text[-2000:] if code else "\n".join(re.findall(r"zlaunch: cold start.*", text))
    print(told, file=sys.stderr)
    return seen, code


if __name__ == "__main__":
    main()
