"""What imports may do with the libraries of a GPU's driver, by two that behave like them.

Of driver 580 it was measured that NVML opens nvidia-uvm, events and pipes and starts a thread, and
that forked processes can use CUDA after that; after cuInit they cannot, nor after
cudaGetDeviceCount.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest
from journeys import Journey
from test_warm_start import TELL, how, library

NVML = """
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>
int ends[2];
static void *handle(void *name) { prctl(PR_SET_NAME, name); for (;;) pause(); }
static int thread(void *name) { pthread_t id; return pthread_create(&id, 0, handle, name); }
int nvmlInit_v2(void) {
    return pipe(ends) || eventfd(0, 0) < 0 || eventfd(0, 0) < 0 || thread("cuda00001800007"); }
int other(void) { return thread("other"); }
"""
CUDA = """
static int begun;
int cuInit(unsigned flags) { begun = 1; return (int)flags; }
int cuDeviceGetCount(int *n) { *n = 1; return begun ? 0 : 3; }
"""
LOAD = "import ctypes, os\npath = os.path.join(os.path.dirname(__file__), {name!r})\n"
INIT = "loaded = ctypes.CDLL(path)\nassert loaded.{function}(0) == 0\n"


@pytest.fixture
def driver(journey: Journey) -> Journey:
    """A journey with both in a folder of its PYTHONPATH."""
    library(journey, "")
    compiler = shutil.which("cc")
    assert compiler
    for name, source in (("libnvidia-ml.so.1", NVML), ("libcuda.so.1", CUDA)):
        target = journey.folder / "path" / name
        command = [compiler, "-shared", "-fPIC", "-pthread", "-x", "c", "-", "-o", str(target)]
        subprocess.run(command, input=source.encode(), check=True)
    journey.script(TELL)
    return journey


def loads(name: str, function: str = "") -> str:
    init = INIT.format(function=function) if function else "loaded = ctypes.CDLL(path)\n"
    return LOAD.format(name=name) + init


@pytest.mark.parametrize(
    "text",
    [
        loads("libnvidia-ml.so.1", "nvmlInit_v2"),
        loads("libcuda.so.1"),
        loads("libcuda.so.1") + loads("libnvidia-ml.so.1", "nvmlInit_v2"),
    ],
    ids=["NVML", "CUDA loaded", "both"],
)
def test_ranks_are_forked(driver: Journey, text: str) -> None:
    library(driver, text)
    done, ranks = how(driver, "--preload", "lib")
    assert "cold start" not in done.err
    assert ranks == [b"warm", b"warm"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (loads("libcuda.so.1", "cuInit"), "an import initializes CUDA"),
        (
            loads("libnvidia-ml.so.1", "nvmlInit_v2") + "os.close(os.pipe()[0])",
            "an import opens pipe:",
        ),
        (
            loads("libnvidia-ml.so.1", "nvmlInit_v2") + "import socket\ns = socket.socket()",
            "an import opens socket:",
        ),
        (loads("libnvidia-ml.so.1", "other"), "an import starts a thread of its own"),
        ("import os\nevent = os.eventfd(0)", "an import opens anon_inode:[eventfd]"),
    ],
    ids=["CUDA", "half a pipe", "a socket", "another thread", "an event without NVML"],
)
def test_in_doubt_ranks_start_cold(driver: Journey, text: str, why: str) -> None:
    library(driver, text)
    done, ranks = how(driver, "--preload", "lib")
    assert f"cold start: {why}" in done.err
    assert ranks == [b"cold", b"cold"]
    assert done.code == 0
