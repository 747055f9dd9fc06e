"""The links between GPUs, asked of a small NVML library through the real bindings, and of a
small nvidia-smi.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zlaunch.spec.links import Card, GpuLinks, Link

# What it answers comes from variables, of which each may hold one value a device:
# LINKS that are up of 6 that are there, REMOTE the type of their other ends, WIDTH.
# Straight links lead from each device to the next one. Built with -DOLD, or -DOLDEST, it lacks
# what the drivers of their time lacked.
NVML = r"""
#include <stdlib.h>
#include <string.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } pci_t;
typedef struct { unsigned field, scope; long long at, latency; int type, result;
    union { double d; unsigned u; unsigned long long l; } value; } field_t;
static int value(const char *name, long device) {
    const char *text = getenv(name);
    while (text && device-- > 0 && strchr(text, ',')) text = strchr(text, ',') + 1;
    return text ? atoi(text) : 0; }
#define DEVICE(d) ((long)(d) - 1)
#ifdef ABSENT
int nvmlInitWithFlags(unsigned f) { (void)f; return 9; }  // no driver
#else
int nvmlInitWithFlags(unsigned f) { (void)f; return 0; }
#endif
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "the library's own words"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = value("COUNT", 0); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
    *d = (void *)(long)(i + 1); return value("HANDLE", i); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, unsigned *n) { (void)d; *n = 1; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *n) { (void)d; *n = 5; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *n) {
    *n = value("WIDTH", DEVICE(d)); return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *n) { (void)d; *n = 16; return 0; }
int nvmlDeviceGetPciInfo_v3(void *d, pci_t *p) {
    memset(p, 0, sizeof *p); p->bus = 0x10 + DEVICE(d); return 0; }
#ifndef OLDEST
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level) {
    (void)a; (void)b; *level = value("LEVEL", 0); return value("LEVEL", 0) < 0 ? 999 : 0; }
int nvmlDeviceGetNvLinkState(void *d, unsigned link, unsigned *up) {
    if (value("LINKS", DEVICE(d)) < 0) return 3;
    *up = link < (unsigned)value("LINKS", DEVICE(d)); return link < 6 ? 0 : 2; }
int nvmlDeviceGetNvLinkVersion(void *d, unsigned link, unsigned *n) {
    (void)d; (void)link; *n = 6; return 0; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned link, pci_t *p) {
    (void)link; memset(p, 0, sizeof *p);
    p->bus = value("HIDDEN", 0) ? 0xf0 : 0x11 + DEVICE(d); return value("NO_PCI", 0); }
#endif
#if !defined(OLD) && !defined(OLDEST)
int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, unsigned link, int *type) {
    (void)link; *type = value("REMOTE", DEVICE(d)); return *type < 0 ? 3 : 0; }
int nvmlDeviceGetP2PStatus(void *a, void *b, int which, int *status) {
    (void)a; (void)b; *status = which == 2 ? value("P2P", 0) : 5; return 0; }
int nvmlDeviceGetFieldValues(void *d, int n, field_t *f) {
    (void)d; (void)n; f->result = f->field == 164 ? 3 : 0; f->value.u = 26562; return 0; }
#endif
"""
ASK = """
import json, sys
from zlaunch.system.gpu_links import gpu_links
found = gpu_links(json.loads(sys.argv[1]))
print(json.dumps(None if found is None else found.to_json()))
"""
SWITCH, UNKNOWN = 2, -1
NO_PERMISSION = 4


def build(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "nvml.c").write_text(NVML)
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", *flags, "-o", library, folder / "nvml.c"]
    subprocess.run(command, check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def ask(nvml: Path, indices: list[int], **answers: int | str) -> GpuLinks:
    return GpuLinks.from_json(answer(nvml, indices, **answers))


def answer(nvml: Path, indices: list[int], **answers: int | str) -> Any:
    env = {"LD_LIBRARY_PATH": str(nvml), "PYTHONPATH": os.pathsep.join(sys.path)}
    env |= {name: str(value) for name, value in {"COUNT": 4, "WIDTH": 16, **answers}.items()}
    command = [sys.executable, "-c", ASK, json.dumps(indices)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return json.loads(done.stdout)


def kinds(found: GpuLinks) -> dict[tuple[int, int], str]:
    return {(link.first, link.second): link.kind for link in found.links}


def test_through_switches(nvml: Path) -> None:
    found = ask(nvml, [0, 1], LINKS=6, REMOTE=SWITCH, LEVEL=50)
    card = Card(0, 1, 5, 16, 16, 6, 0, "4.0", 26_562_000_000)
    assert found.cards[0] == card
    assert found.links == (Link(0, 1, nvlinks=6, switched=True, ancestor="SYS"),)
    assert kinds(found) == {(0, 1): "NV6"}
    assert found.findings() == ()


def test_switches_that_do_not_join_them(nvml: Path) -> None:
    assert kinds(ask(nvml, [0, 1], LINKS=6, REMOTE=SWITCH, LEVEL=50, P2P=5)) == {(0, 1): "SYS"}


@pytest.mark.parametrize("told", [{"HIDDEN": 1}, {"NO_PCI": 3}])
def test_a_switch_that_is_hidden(nvml: Path, told: dict[str, int]) -> None:
    assert kinds(ask(nvml, [0, 1], LINKS=4, REMOTE=UNKNOWN, **told)) == {(0, 1): "NV4"}


def test_straight_from_one_to_the_next(nvml: Path) -> None:
    found = ask(nvml, [0, 1, 2], LINKS=4, P2P=5, LEVEL=40)
    assert kinds(found) == {(0, 1): "NV4", (0, 2): "NODE", (1, 2): "NV4"}
    assert not found.links[0].switched
    assert [card.nvlinks_down for card in found.cards] == [2, 2, 2]


def test_indices_are_those_of_the_list_of_gpus(nvml: Path) -> None:
    """The first one is withheld, so that what NVML counts as 3 is the third here."""
    found = ask(nvml, [2, 0, 9], HANDLE=f"{NO_PERMISSION},0", LINKS="0,0,0,4", WIDTH="16,8,16,4")
    assert [(card.index, card.pcie_width, card.nvlinks) for card in found.cards] == [
        (2, 4, 4),
        (0, 8, 0),
    ]


@pytest.mark.parametrize(
    ("level", "kind"),
    [(0, "PIX"), (10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS"), (-1, "?")],
)
def test_pcie_in_the_words_of_nvidia_smi(nvml: Path, level: int, kind: str) -> None:
    found = ask(nvml, [0, 1], LINKS=-1, LEVEL=level)
    assert kinds(found) == {(0, 1): kind}
    assert found.cards[0] == Card(0, 1, 5, 16, 16)


def test_what_is_wrong_is_said(nvml: Path) -> None:
    found = ask(nvml, [0, 1, 2], LINKS="6,5,6", REMOTE=SWITCH, WIDTH="16,16,8")
    assert found.findings() == (
        "GPU 1 has 5 NVLinks up, another one here 6",
        "GPU 2 has 8 of its 16 PCIe lanes",
    )
    assert kinds(found) == {(0, 1): "NV5", (0, 2): "NV6", (1, 2): "NV5"}


def test_a_driver_that_knows_less(tmp_path: Path) -> None:
    found = ask(build(tmp_path, "-DOLD"), [0, 1, 2], LINKS=4, LEVEL=30)
    assert kinds(found) == {(0, 1): "NV4", (0, 2): "PHB", (1, 2): "NV4"}
    assert found.cards[0].nvlink_bytes_per_second is None


def test_a_driver_that_knows_hardly_anything(tmp_path: Path) -> None:
    found = ask(build(tmp_path, "-DOLDEST"), [0, 1])
    assert kinds(found) == {(0, 1): "?"}
    assert found.cards[0] == Card(0, 1, 5, 16, 16)


def test_one_gpu_has_no_links(nvml: Path) -> None:
    assert ask(nvml, [3], LINKS=6, REMOTE=SWITCH).links == ()


# What nvidia-smi prints; the heading is underlined, and a NIC stands among the columns.
MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tSYS\tPXB\t0-31\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNODE\tSYS\t0-31\t0\t\tN/A\n"
    "GPU2\tSYS\tNODE\t X \tSYS\t0-31\t0\t\tN/A\n"
    "NIC0\tPXB\tSYS\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n"
)
SLOTS = "0, 1, 5, 16, 16\n1, 5, 5, 8, 16\n2, [N/A], 4, [N/A], 16\n"


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    """A machine whose NVML answers nothing, with an nvidia-smi."""
    (tmp_path / "matrix").write_text(MATRIX)
    (tmp_path / "slots").write_text(SLOTS)
    program = tmp_path / "nvidia-smi"
    script = 'cd "${0%/*}"\ncase "$1" in topo) cat matrix;; *) cat slots;; esac\n'
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    return tmp_path


def test_nvidia_smi_where_nvml_cannot_be_asked(smi: Path) -> None:
    found = ask(build(smi, "-DABSENT"), [0, 1, 2], PATH=f"{smi}:/usr/bin:/bin")
    assert kinds(found) == {(0, 1): "NV18", (0, 2): "SYS", (1, 2): "NODE"}
    assert found.cards == (Card(0, 1, 5, 16, 16), Card(1, 5, 5, 8, 16), Card(2, None, 4, None, 16))
    assert found.findings() == ("GPU 1 has 8 of its 16 PCIe lanes",)


def test_nvidia_smi_that_has_no_matrix(smi: Path) -> None:
    (smi / "matrix").write_text("ERROR: Option topo is not recognized.\n")
    found = ask(build(smi, "-DABSENT"), [1, 0], PATH=f"{smi}:/usr/bin:/bin")
    assert kinds(found) == {(1, 0): "?"}


def test_nobody_to_ask(smi: Path) -> None:
    (smi / "nvidia-smi").unlink()
    assert answer(build(smi, "-DABSENT"), [0], PATH=str(smi)) is None
