"""A small NVML with four GPUs whose use stands in a file: `UUID BYTES PID PERCENT` a line.

FAKE_NVML names the folder of the file, and its last part ends the UUIDs. Those that have no line
are idle. The last GPU is in MIG mode and has two devices, where the file `mig` is there. The real
bindings and all of zlaunch are run with it.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

COUNT = 4

_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/types.h>
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_t;
typedef struct { unsigned long long total, free, used; } old_memory_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_t;
typedef struct { unsigned gpu, memory; } rates_t;
static const char *folder(void) { return getenv("FAKE_NVML"); }
static int with_mig(void) {
    char path[4096]; snprintf(path, sizeof path, "%s/mig", folder()); return !access(path, F_OK); }
static void name(void *d, char *text, unsigned n) {
    long i = (long)d - 1;
    const char *end = strrchr(folder(), '/') + 1;
    snprintf(text, n, "%s-%ld0000000-%s", i < 4 ? "GPU" : "MIG", i % 4, end); }
static void use(void *d, unsigned long long *used, unsigned *pid, unsigned *percent) {
    char path[4096], mine[96], uuid[96]; unsigned long long bytes; unsigned p, q;
    *used = 0; *pid = 0; *percent = 0;
    name(d, mine, sizeof mine);
    snprintf(path, sizeof path, "%s/use", folder());
    FILE *file = fopen(path, "r");
    if (!file) return;
    while (fscanf(file, "%90s %llu %u %u", uuid, &bytes, &p, &q) == 4)
        if (!strcmp(uuid, mine)) { *used = bytes; *pid = p; *percent = q; }
    fclose(file); }
int nvmlInitWithFlags(unsigned f) { (void)f; return folder() ? 0 : 9; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "an error"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **d) {
    char mine[96];
    for (long i = 1; i <= 6; i++) {
        name((void *)i, mine, sizeof mine);
        if (!strcmp(uuid, mine)) { *d = (void *)i; return 0; } }
    return 6; }
int nvmlDeviceGetUUID(void *d, char *text, unsigned n) { name(d, text, n); return 0; }
int nvmlDeviceGetName(void *d, char *text, unsigned n) {
    (void)d; snprintf(text, n, "Fake GPU"); return 0; }
int nvmlDeviceGetMemoryInfo(void *d, old_memory_t *m) {
    unsigned pid, percent; m->total = 1ULL << 36; use(d, &m->used, &pid, &percent); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *d, memory_t *m) {
    unsigned pid, percent; m->total = 1ULL << 36; use(d, &m->used, &pid, &percent); return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process_t *found) {
    unsigned long long used; unsigned pid, percent, room = *n;
    use(d, &used, &pid, &percent);
    *n = pid ? 1 : 0;
    if (!pid) return 0;
    if (!room) return 7;
    found[0].pid = pid; found[0].used = used; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, rates_t *rates) {
    unsigned long long used; unsigned pid;
    if ((long)d > 4) return 3;
    use(d, &used, &pid, &rates->gpu); rates->memory = 0; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor) {
    (void)d; *major = 9; *minor = 0; return 0; }
int nvmlDeviceGetMigMode(void *d, unsigned *current, unsigned *pending) {
    *current = *pending = (long)d == 4 && with_mig(); return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { (void)d; *n = 2; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **part) {
    (void)d; *part = (void *)(long)(5 + i); return 0; }
"""


def _has_one() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


class Gpus:
    """The four of them, and their use."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.uuids = tuple(f"GPU-{i}0000000-{folder.name}" for i in range(COUNT))
        self.migs = tuple(f"MIG-{i}0000000-{folder.name}" for i in range(2))
        self._use: dict[str, str] = {}

    def used(self, uuid: str, *, memory: int = 0, pid: int = 0, percent: int = 0) -> None:
        """From now on this one is in use, or idle again; by a process where `pid` is not 0."""
        self._use[uuid] = f"{uuid} {memory} {pid} {percent}\n"
        beside = self.folder / "use.new"
        beside.write_text("".join(self._use.values()))
        beside.rename(self.folder / "use")

    def with_mig(self) -> None:
        (self.folder / "mig").touch()


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed"
    if _has_one():
        pytest.skip("this machine's own GPUs would answer others")
    folder = tmp_path_factory.mktemp("nvml")
    folder.chmod(0o755)  # for other users, too
    (folder / "nvml.c").write_text(_SOURCE)
    command = [compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", folder / "nvml.c"]
    subprocess.run(command, check=True, timeout=60)
    return folder
