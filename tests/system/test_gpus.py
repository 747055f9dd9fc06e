"""GPU discovery, asked of small nvidia-smi programs and of a small NVML library."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from zlaunch.errors import BackendError
from zlaunch.spec.device import Device
from zlaunch.system.gpus import discover

GIB = 1024**3


def _has_nvml() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


without_nvml = pytest.mark.skipif(_has_nvml(), reason="this machine's NVML answers first")


class Shim:
    """An nvidia-smi that answers the query and -L with what it is given."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "nvidia-smi"

    def script(self, body: str, shebang: str = "#!/bin/sh") -> None:
        self.path.write_text(f"{shebang}\n{body}\n")
        self.path.chmod(0o755)

    def answers(self, query: str, listing: str = "", codes: tuple[int, int] = (0, 0)) -> None:
        (self.path.parent / "query").write_text(query)
        (self.path.parent / "listing").write_text(listing)
        self.script(
            'cd "$(dirname "$0")"\n'
            f'case "$1" in -L) cat listing; exit {codes[1]};; *) cat query; exit {codes[0]};; esac'
        )


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shim:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Shim(tmp_path)


TWO = dedent("""\
    0, GPU-5c89-aa, NVIDIA H200, 143771, 9.0
    1, GPU-17d2-bb, Tesla V100, PCIe, rev 2, 16384, 7.0
    """)
LISTED = dedent("""\
    GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5c89-aa)
      MIG 3g.20gb     Device  0: (UUID: MIG-c6d4-01)
      MIG 1g.5gb      Device  1: (UUID: MIG-GPU-5c89-aa/1/0)
    GPU 1: Graphics Device (rev 2) (UUID: GPU-17d2-bb)
    """)
PARTS = ("MIG-c6d4-01", "MIG-GPU-5c89-aa/1/0")


@without_nvml
def test_reads_the_query(smi: Shim) -> None:
    smi.answers(TWO)
    assert discover() == (
        Device(0, "GPU-5c89-aa", "NVIDIA H200", 143771 * 1024**2, True),
        Device(1, "GPU-17d2-bb", "Tesla V100, PCIe, rev 2", 16 * GIB, False),
    )


@without_nvml
def test_reads_mig_devices_beside_the_query(smi: Shim) -> None:
    smi.answers(TWO, LISTED)
    assert [device.mig for device in discover() or ()] == [PARTS, ()]


@without_nvml
def test_what_an_soc_does_not_tell_is_left_open(smi: Shim) -> None:
    smi.answers("0, GPU-a, GB10, [N/A], [N/A]\n")
    assert discover() == (Device(0, "GPU-a", "GB10", 0, True),)


@without_nvml
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ('Field "compute_cap" is not a valid field to query.\n', 2),
        (LISTED, 0),  # a stand-in that prints its list whatever it is asked
        ("", 0),
    ],
)
def test_reads_the_list_where_the_query_is_not_known(smi: Shim, query: str, code: int) -> None:
    smi.answers(query, LISTED, (code, 0))
    assert discover() == (
        Device(0, "GPU-5c89-aa", "NVIDIA A100-SXM4-40GB", mig=PARTS),
        Device(1, "GPU-17d2-bb", "Graphics Device (rev 2)"),
    )


@without_nvml
def test_no_program_is_none(smi: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(smi.path.parent))
    assert discover() is None


@without_nvml
@pytest.mark.parametrize(
    ("text", "codes", "expected"),
    [
        ("No devices were found\n", (6, 6), ()),
        ("No devices found.\n", (0, 0), ()),
        ("", (0, 0), ()),
        ("NVIDIA-SMI has failed because it couldn't communicate with the driver.\n", (9, 9), None),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", (12, 12), None),
    ],
)
def test_no_device_and_no_driver(
    smi: Shim, text: str, codes: tuple[int, int], expected: tuple[Device, ...] | None
) -> None:
    smi.answers(text, text, codes)
    assert discover() == expected


@without_nvml
@pytest.mark.parametrize(
    ("query", "listing", "codes", "quoted"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n",) * 2
        + ((18, 18), "18) printed no list of GPUs: 'Failed to initialize NVML: Driver/library"),
        ("what?\n", "unknown option\n", (0, 1), "'what?'"),
        ("unknown option\n", "GPU zero\n", (1, 0), "'GPU zero'"),
        ("unknown option\n", "", (1, 1), "'unknown option'"),
        ("0, GPU-a, H200\n", "", (0, 1), "0, GPU-a, H200"),
        ("x" * 9000, "x" * 9000, (0, 0), "xxx..."),
        ("GPU 0: A (UUID: GPU-a)\nUnable to determine the handle: GPU is lost\n",) * 2
        + ((0, 0), "GPU is lost"),
    ],
)
def test_quotes_what_cannot_be_read(
    smi: Shim, query: str, listing: str, codes: tuple[int, int], quoted: str
) -> None:
    smi.answers(query, listing, codes)
    with pytest.raises(BackendError) as caught:
        discover()
    assert quoted in caught.value.message
    assert len(caught.value.message) < 400


@without_nvml
def test_output_that_is_no_text(smi: Shim) -> None:
    smi.script(r"printf '\377\376'")
    with pytest.raises(BackendError, match="printed no list"):
        discover()


@without_nvml
def test_a_program_that_cannot_start(smi: Shim) -> None:
    smi.script("", shebang="#!/no/such/interpreter")
    with pytest.raises(BackendError, match="could not be started"):
        discover()


@without_nvml
@pytest.mark.parametrize("body", ["sleep 600", "sleep 600 & echo $! > grandchild; wait"])
def test_a_program_that_hangs_is_given_up_and_ended(smi: Shim, body: str) -> None:
    smi.script(f'cd "$(dirname "$0")"; echo $$ > child; {body}')
    begun = time.monotonic()
    with pytest.raises(BackendError, match=r"did not answer within 0\.5 s"):
        discover(timeout=0.5)
    assert time.monotonic() - begun < 5
    for name in ("child", "grandchild"):
        record = smi.path.parent / name
        if record.exists():
            _wait_gone(int(record.read_text()))


def _wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
    pytest.fail(f"{pid} is still there")


INITIALISES_NOTHING = """
import ctypes, os, sys
from zlaunch.system.gpus import discover
found = discover()
assert not [name for name in sys.modules if name.startswith(("torch", "cuda"))]
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit()
if os.fork() == 0:  # cuInit fails in a fork of a process that has called it
    os._exit(cuda.cuInit(0) if found else 0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_initialises_no_cuda() -> None:
    subprocess.run([sys.executable, "-c", INITIALISES_NOTHING], check=True, timeout=60)


# A library with NVML's names, so that the real bindings are run. What it answers comes from
# variables: COUNT devices, the result codes of INIT, HANDLE, MEMORY and MIG.
NVML = r"""
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
typedef struct { unsigned long long total, free, used; } memory_t;
static int value(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
int nvmlInitWithFlags(unsigned f) { (void)f; if (value("HANG")) sleep(600); return value("INIT"); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "the library's own words"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = value("COUNT"); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
    *d = (void *)(long)(i + 1); return i == 0 ? value("HANDLE") : 0; }
int nvmlDeviceGetUUID(void *d, char *text, unsigned n) {
    long i = (long)d; snprintf(text, n, i > 100 ? "MIG-%ld" : "GPU-%ld", i - 1); return 0; }
int nvmlDeviceGetName(void *d, char *text, unsigned n) {
    (void)d; snprintf(text, n, "NVIDIA T"); return 0; }
int nvmlDeviceGetMemoryInfo(void *d, memory_t *m) {
    (void)d; m->total = 1ULL << 34; return value("MEMORY"); }
int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor) {
    *major = (long)d == 1 ? 8 : 7; *minor = (long)d == 1 ? 0 : 5; return value("MEMORY"); }
int nvmlDeviceGetMigMode(void *d, unsigned *current, unsigned *pending) {
    *current = (long)d == 2; *pending = 1; return value("MIG"); }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { (void)d; *n = 3; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **part) {
    *part = (void *)(long)((long)d * 100 + i + 1); return i == 1 ? 6 : 0; }
"""
ASK = """
import json, sys, time
from dataclasses import asdict
from zlaunch.errors import BackendError
from zlaunch.system.gpus import discover
try:
    found = discover(timeout=float(sys.argv[1]))
    print(json.dumps(found if found is None else [asdict(device) for device in found]))
except BackendError as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML)
    command = [compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", folder / "nvml.c"]
    subprocess.run(command, check=True, timeout=60)
    return folder


def ask(nvml: Path, *, timeout: float = 30.0, **answers: int) -> Any:
    env = {name: str(value) for name, value in answers.items()}
    env |= {
        "LD_LIBRARY_PATH": str(nvml),
        "PATH": str(nvml),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(timeout)],
        env=env, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_nvml_describes_each_device(nvml: Path) -> None:
    first, second = ask(nvml, COUNT=2)
    assert first == {
        "index": 0, "uuid": "GPU-0", "name": "NVIDIA T", "memory": 16 * GIB, "bf16": True, "mig": []
    }  # fmt: skip
    assert (second["index"], second["uuid"], second["bf16"]) == (1, "GPU-1", False)
    assert second["mig"] == ["MIG-200", "MIG-202"]


def test_nvml_without_devices(nvml: Path) -> None:
    assert ask(nvml, COUNT=0) == []


NOT_SUPPORTED, NO_PERMISSION, NOT_LOADED, GPU_IS_LOST = 3, 4, 9, 15
MISMATCH = 18


def test_nvml_that_does_not_know_everything(nvml: Path) -> None:
    found = ask(nvml, COUNT=2, MEMORY=NOT_SUPPORTED, MIG=NOT_SUPPORTED)
    assert [(d["memory"], d["bf16"], d["mig"]) for d in found] == [(0, True, [])] * 2


def test_nvml_withholds_a_device(nvml: Path) -> None:
    found = ask(nvml, COUNT=3, HANDLE=NO_PERMISSION)
    assert [(d["index"], d["uuid"]) for d in found] == [(0, "GPU-1"), (1, "GPU-2")]


@pytest.mark.parametrize("code", [NO_PERMISSION, NOT_LOADED])
def test_nvml_without_a_driver_is_none(nvml: Path, code: int) -> None:
    assert ask(nvml, INIT=code) is None


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"INIT": MISMATCH}, "version mismatch"),
        ({"COUNT": 1, "HANDLE": GPU_IS_LOST}, "GPU is lost"),
        ({"INIT": 77}, "the library's own words"),
    ],
)
def test_nvml_errors_in_its_own_words(nvml: Path, answers: dict[str, int], words: str) -> None:
    said = ask(nvml, **answers)
    assert "NVML says" in said
    assert words in said


def test_nvml_that_hangs_is_given_up(nvml: Path) -> None:
    begun = time.monotonic()
    assert "NVML did not answer within 0.5 s" in ask(nvml, timeout=0.5, HANG=1)
    assert time.monotonic() - begun < 20
