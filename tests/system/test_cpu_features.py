"""Which CPUs compute in fp16, from what the kernel says of them."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from zlaunch.system.cpu_features import fp16_on_cpus

HEAD = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some CPU\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 flags")
@pytest.mark.parametrize(
    ("flags", "has"),
    [
        ("fpu sse2 avx2 avx512f avx512bw avx512_bf16", False),
        ("fpu sse2 avx512f avx512_bf16 avx512_fp16 amx_tile", True),
        ("fpu avx2 avx_vnni avx_vnni_int8 avx_ne_convert", True),
        ("fpu avx2 avx_vnni avx_ne_convert", False),
        ("fpu my_avx512_fp16", False),
    ],
)
def test_the_flags_decide(tmp_path: Path, flags: str, has: bool) -> None:
    (tmp_path / "cpuinfo").write_text(f"{HEAD}flags\t\t: {flags}\nbugs\t\t: spectre_v1\n" * 2)
    assert fp16_on_cpus(str(tmp_path / "cpuinfo")) is has


def test_what_cannot_be_seen_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(HEAD)
    assert fp16_on_cpus(str(tmp_path / "cpuinfo")) is None
    assert fp16_on_cpus(str(tmp_path / "none")) is None


def test_torch_is_of_the_same_opinion() -> None:
    torch = pytest.importorskip("torch")
    known = fp16_on_cpus()
    assert known is None or known is torch.ops.mkldnn._is_mkldnn_fp16_supported()
