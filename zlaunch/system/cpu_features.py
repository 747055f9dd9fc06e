"""What the CPUs here can compute in."""

from __future__ import annotations

import platform
from pathlib import Path


def fp16_on_cpus(path: str = "/proc/cpuinfo") -> bool | None:
    """Return whether torch computes in fp16 on these CPUs; None where that cannot be seen.

    DeepSpeed asks `torch.ops.mkldnn._is_mkldnn_fp16_supported()`, which is oneDNN's: AVX-512
    with FP16, or AVX2 with conversions (oneDNN's `avx2_vnni_2`). No torch is imported here.
    """
    if platform.machine() not in {"x86_64", "AMD64"}:
        return None
    try:
        with Path(path).open(encoding="ascii", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), None)
    except OSError:
        return None
    if flags is None:
        return None
    have = {*flags.split()}
    return "avx512_fp16" in have or have >= {"avx_vnni_int8", "avx_ne_convert"}
