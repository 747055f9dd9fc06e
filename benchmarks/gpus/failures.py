"""Fails on GPUs in the way that its first argument names; two ranks.

What these print is what `zlaunch diagnose` reads: see failures.sh beside this file.
"""

import ctypes
import datetime as dt
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

RANK, LOCAL = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])


def meet(seconds: float = 600.0) -> None:
    torch.cuda.set_device(LOCAL)
    limit = dt.timedelta(seconds=seconds)
    dist.init_process_group("nccl", timeout=limit, device_id=torch.device("cuda", LOCAL))


def add(count: int = 1, size: int = 1024) -> None:
    values = torch.ones(size, device="cuda")
    for _ in range(count):
        dist.all_reduce(values)
    torch.cuda.synchronize()


def out_of_memory() -> None:
    """Rank 1 takes more and more, the other waits for it."""
    meet()
    held = []
    while RANK == 1:
        held.append(torch.empty(4 << 30, dtype=torch.uint8, device="cuda"))
    add()


def fragmented() -> None:
    """Much is reserved and nothing of it in one piece."""
    meet()
    torch.cuda.set_per_process_memory_fraction(0.1)
    if RANK == 1:
        # Two of these share a segment, which is held as long as one of them lives.
        blocks = [torch.empty(8 << 20, dtype=torch.uint8, device="cuda") for _ in range(1300)]
        del blocks[::2]
        torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    add()


def device_assert() -> None:
    meet()
    table = torch.nn.Embedding(10, 4).cuda()
    if RANK == 1:
        table(torch.tensor([3, 12], device="cuda")).sum().item()
    add()


def duplicate_gpu() -> None:
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    add()


def timeout() -> None:
    """Rank 1 never comes to the third all-reduce."""
    meet(10)
    add(2)
    if RANK == 1:
        time.sleep(40)
    add()


def mismatch() -> None:
    """The ranks call different collectives."""
    meet(10)
    add(2)
    values = torch.ones(1024, device="cuda")
    if RANK == 1:
        gathered = [torch.empty_like(values) for _ in range(2)]
        dist.all_gather(gathered, values)
    else:
        dist.all_reduce(values)
    torch.cuda.synchronize()
    add(3)


def peer_killed() -> None:
    meet(15)
    add(2)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    add(1000)
    time.sleep(60)


def segfault() -> None:
    meet()
    add()
    if RANK == 1:
        ctypes.string_at(0)
    add()


def no_gpu() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.ones(1).cuda()


def two_devices() -> None:
    meet()
    if RANK == 1:
        torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4))
    add()


def dtypes() -> None:
    meet()
    if RANK == 1:
        torch.nn.Linear(4, 4).cuda().half()(torch.ones(1, 4, device="cuda"))
    add()


def nan_loss() -> None:
    meet()
    for step in range(5):
        loss = float("nan") if step > 2 else 1.0 / (step + 1)
        print(f"step {step} loss {loss}", flush=True)
    if RANK == 0:
        raise RuntimeError("the loss is nan")
    add()


def ordinal() -> None:
    torch.cuda.set_device(LOCAL + 7)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
