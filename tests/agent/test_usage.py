"""What ranks use: of real processes, and of GPUs by a small NVML library."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from test_node import WAIT, Link, Witness, link, py, sh

from zlaunch.run.messages import Signal, Stop, TakeUsage, Used
from zlaunch.spec.worker import WorkerSpec

__all__ = ["link"]

MIB = 1 << 20
HOLDS = """
import os, time
held = bytearray(os.urandom(1)) * (200 << 20)
print("up", flush=True)
time.sleep(1000)
"""
# Its child is at work, and not the main process.
WORKS = """
import os
if os.fork() == 0:
    print("up", flush=True)
    while True: pass
os.wait()
"""
NVML = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } rates_t;
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } user_t;
int nvmlInit_v2(void) { if (getenv("HANG")) sleep(600); return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetUUID(void *d, char *t, unsigned n) {
    snprintf(t, n, "GPU-%ld-aa", (long)d - 1); return 0; }
int nvmlDeviceGetHandleByUUID(const char *t, void **d) { (void)t; *d = (void *)9L; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *d, memory_t *m) {
    m->total = 80ULL << 30; m->used = (unsigned long long)(long)d << 30; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, rates_t *r) {
    r->gpu = 90 + (long)d; return (long)d == 9 ? 3 : 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, user_t *u) {
    FILE *f = fopen(getenv("USERS"), "r"); unsigned count = 0, gpu; user_t one = {0, 0, 0, 0};
    while (f && fscanf(f, "%u %u %llu", &gpu, &one.pid, &one.memory) == 3)
        if (gpu == (long)d - 1) u[count++] = one;
    if (f) fclose(f);
    *n = count; return 0; }
"""


def ask(link: Link) -> dict[str, Any]:
    """What each rank uses now."""
    count = len(answers(link))
    link.send(TakeUsage())
    link.until(lambda: len(answers(link)) > count)
    return dict(answers(link)[-1].ranks)


def answers(link: Link) -> list[Used]:
    return [event for event in link.events if isinstance(event, Used)]


def test_memory_and_processor_of_all_processes_of_a_rank(link: Link) -> None:
    link.start(py(0, HOLDS), py(1, WORKS), sh(2, "exit 0"))
    for rank in (0, 1):
        link.until_written(rank, b"up\n")
    link.until_closed(2)
    before = ask(link)["1"]["cpu"]
    begun = time.monotonic()
    while (used := ask(link))["1"]["cpu"] < before + 1.0:
        assert time.monotonic() < begun + WAIT
        time.sleep(0.1)
    assert set(used) == {"0", "1"}
    assert used["0"]["rss"] > 200 * MIB > used["1"]["rss"] > MIB
    assert used["1"]["cpu"] - before < 2 * (time.monotonic() - begun)
    assert "gpu_memory" not in used["0"]


def test_there_is_nothing_to_tell_without_ranks(link: Link) -> None:
    assert ask(link) == {}


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML)
    command = [compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", folder / "nvml.c"]
    subprocess.run(command, check=True, timeout=WAIT)
    return folder


@pytest.fixture
def on_gpus(nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> Any:
    """A link to an agent whose machine has two GPUs; who uses them stands in a file."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml))
    monkeypatch.setenv("USERS", str(tmp_path / "users"))
    for name in getattr(request, "param", ()):
        monkeypatch.setenv(name, "1")
    link = Link()
    yield link
    link.send(Stop(0.0))
    link.local.close(WAIT)
    for stream in (link.local._process.stdout, link.local._process.stderr):
        stream.close()


def rank(number: int, tokens: str) -> WorkerSpec:
    env = {"CUDA_VISIBLE_DEVICES": tokens, "LOCAL_RANK": str(number)}
    return WorkerSpec(
        number,
        ("/bin/sh", "-c", "trap 'echo told' USR1; echo up; while :; do sleep 0.2; done"),
        env,
    )


GIB = 1 << 30


def test_the_memory_of_a_rank_is_that_of_its_own_processes(on_gpus: Link, tmp_path: Path) -> None:
    on_gpus.start(rank(0, "1,GPU-0"), rank(1, "1,GPU-0"))
    pid = on_gpus.pid(0)
    users = tmp_path / "users"
    users.write_text(f"1 {pid} {5 * GIB}\n1 {os.getpid()} {7 * GIB}\n0 999999999 {9 * GIB}\n")
    used = ask(on_gpus)
    assert used["0"]["gpu_memory"] == 5 * GIB
    assert used["0"]["gpu_memory_total"] == 80 * GIB
    assert used["0"]["gpu_utilization"] == 92
    # Nothing is told of its own: what the GPU has taken counts.
    assert (used["1"]["gpu_memory"], used["1"]["gpu_utilization"]) == (1 * GIB, 91)
    users.write_text(f"1 {pid} {6 * GIB}\n")
    assert ask(on_gpus)["0"]["gpu_memory"] == 6 * GIB


def test_a_part_of_a_gpu_has_memory_and_no_utilization(on_gpus: Link) -> None:
    on_gpus.start(rank(0, "MIG-1"))
    on_gpus.pid(0)
    (used,) = ask(on_gpus).values()
    assert used["gpu_memory"] == 9 * GIB
    assert "gpu_utilization" not in used


def children(link: Link) -> set[int]:
    """The children of the agent."""
    return set(map(int, Path(f"/proc/{link.agent}/task/{link.agent}/children").read_text().split()))


def gpu_child(link: Link, worker: int) -> int:
    """The child of the agent that is no rank."""
    (child,) = children(link) - {worker}
    return child


def test_one_child_asks_the_driver_and_ends_with_the_last_rank(on_gpus: Link) -> None:
    on_gpus.start(rank(0, "0"))
    worker = on_gpus.pid(0)
    ask(on_gpus)
    child = gpu_child(on_gpus, worker)
    ask(on_gpus)
    assert gpu_child(on_gpus, worker) == child
    # It keeps nothing open that was the agent's.
    links = {str(entry.readlink()) for entry in Path(f"/proc/{child}/fd").iterdir()}
    assert sum(link.startswith("socket:") for link in links) == 1
    assert not any("pidfd" in link or "eventpoll" in link for link in links)
    witness = Witness(child)
    on_gpus.send(Stop(0.0))
    on_gpus.until_closed(0)
    assert witness.sees_the_end()


@pytest.mark.parametrize("on_gpus", [("HANG",)], indirect=True)
def test_a_driver_that_hangs_is_asked_no_more(on_gpus: Link) -> None:
    on_gpus.start(rank(0, "0"))
    worker = on_gpus.pid(0)
    on_gpus.until_written(0, b"up\n")
    on_gpus.send(TakeUsage())
    # The agent goes on meanwhile.
    on_gpus.send(Signal(signal.SIGUSR1))
    on_gpus.until_written(0, b"told\n")
    assert not answers(on_gpus)
    child = Witness(gpu_child(on_gpus, worker))
    on_gpus.until(lambda: bool(answers(on_gpus)))
    (used,) = answers(on_gpus)
    assert used.ranks["0"]["rss"] > 0
    assert "gpu_memory" not in used.ranks["0"]
    assert child.sees_the_end()
    ask(on_gpus)
    assert children(on_gpus) - {worker} <= {gone for gone in children(on_gpus) if dead(gone)}


def dead(pid: int) -> bool:
    """Whether only its exit is left of a process."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
