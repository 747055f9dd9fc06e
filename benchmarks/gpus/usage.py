"""On one or two GPUs: what `zlaunch top` shows, and what torch and nvidia-smi say, of one moment.

Usage: python3 benchmarks/gpus/usage.py [RANKS]     (python3 with torch and zlaunch; a minute)

Rank 0 holds 4 GiB and multiplies matrices all the time; rank 1 holds 9 GiB and waits. Ends with 1
where memory is off by more than 1 GiB (a CUDA context has a few hundred MiB of its own, which
torch does not count), or where utilisation is not above 50 % on rank 0 and below 20 % on rank 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
JOB = """
import os, time
import torch
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
held = torch.zeros((4, 9)[rank] << 28, device="cuda")  # of four bytes each
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
print("reserved", torch.cuda.memory_reserved(), flush=True)
while True:
    if rank == 0:
        for _ in range(50):
            b = a @ a
        torch.cuda.synchronize()
    else:
        time.sleep(1)
"""


def zlaunch(*words: str, check: bool = True) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "zlaunch", *words]
    return subprocess.run(command, capture_output=True, text=True, check=check).stdout


def reserved(run_id: str, rank: int) -> int | None:
    """What torch says of a rank, once it does."""
    text = zlaunch("logs", "show", run_id, "--rank", str(rank))
    for line in text.splitlines():
        if "reserved " in line:
            return int(line.rpartition(" ")[2])
    return None


def nvidia_smi() -> list[tuple[int, int]]:
    """Bytes in use, and percent, of each GPU."""
    query = "--query-gpu=memory.used,utilization.gpu"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = (line.split(",") for line in lines)
    return [(int(memory) << 20, int(busy)) for memory, busy in pairs]


def main() -> int:
    """Compare, and say what differs."""
    folder = Path(tempfile.mkdtemp())
    os.environ |= {
        "ZLAUNCH_HOME": str(folder / "home"),
        "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
    }
    (folder / "job.py").write_text(JOB)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    how = ("--num-gpus", str(count), "--recipe", "ddp", "-d")
    run_id = zlaunch("run", *how, f"{folder}/job.py").strip()
    try:
        while None in (told := [reserved(run_id, rank) for rank in range(count)]):
            time.sleep(1)
        time.sleep(5)
        ranks: list[dict[str, Any]] = json.loads(zlaunch("top", run_id, "--once", "--json"))[
            "ranks"
        ]
        smi = nvidia_smi()
    finally:
        zlaunch("stop", run_id, "--now", check=False)
    wrong = []
    for rank, torch_bytes in zip(ranks, told, strict=True):
        number = rank["rank"]
        shown, busy = rank.get("gpu_memory", 0), rank.get("gpu_utilization", -1)
        smi_bytes, smi_busy = smi[number]
        total = rank.get("gpu_memory_total", 0)
        print(
            f"rank {number}: shown {shown / GIB:.2f} of {total / GIB:.1f} "
            f"GiB, {busy} %; torch has reserved {(torch_bytes or 0) / GIB:.2f} GiB; "
            f"nvidia-smi says {smi_bytes / GIB:.2f} GiB, {smi_busy} %"
        )
        if abs(shown - (torch_bytes or 0)) > GIB or abs(shown - smi_bytes) > GIB:
            wrong.append(f"the memory of rank {number}")
        if busy < 50 if number == 0 else busy > 20:
            wrong.append(f"the utilisation of rank {number}")
    print("wrong: " + ", ".join(wrong) if wrong else "all as torch and nvidia-smi say")
    return 1 if wrong else 0


sys.exit(main())
