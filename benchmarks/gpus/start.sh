#!/usr/bin/env bash
# Start-up on GPUs, and what forked ranks do with them, on two of them if RANKS says no other number.
# Usage: benchmarks/gpus/start.sh RESULTS_DIR [RANKS]     (python3 with torch, triton, deepspeed)
set -u
out=$1; mkdir -p "$out"; ranks=${2:-2}
here=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONPATH=$here:${PYTHONPATH-}
export ZLAUNCH_HOME TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR
ZLAUNCH_HOME=$(mktemp -d); TORCHINDUCTOR_CACHE_DIR=$(mktemp -d); TRITON_CACHE_DIR=$(mktemp -d)
cd "$(mktemp -d)"
for how in warm cold; do  # warm first: with nothing in the caches of compilers
    timeout 75 python3 -m zlaunch run --start $how --num-gpus "$ranks" "$here/benchmarks/gpus/forked.py" \
        >"$out/forked-$how.out" 2>"$out/forked-$how.err"
    echo "forked.py, $how: exit code $?" | tee -a "$out/forked.txt"
    sort "$out/forked-$how.out" >"$out/forked-$how.sorted"
done
diff "$out/forked-warm.sorted" "$out/forked-cold.sorted" >"$out/forked.diff" &&
    echo "both printed the same" | tee -a "$out/forked.txt"
for check in 0 1 0 1; do  # torch asks NVML whether there is a GPU: what the warm server wants
    start=$(date +%s.%N)
    PYTORCH_NVML_BASED_CUDA_CHECK=$check timeout 40 python3 -c "import torch, deepspeed" 2>/dev/null
    python3 -c "import time; print(f'imports alone, NVML check $check: {time.time() - $start:.2f} s')"
done | tee "$out/imports.txt"
timeout 150 python3 "$here/benchmarks/gpus/start.py" "$ranks" --seconds 45 2>&1 | tee "$out/start.txt"
