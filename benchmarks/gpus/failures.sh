#!/usr/bin/env bash
# Failures on two real GPUs: what the ranks print, and what zlaunch says about it.
# Usage: benchmarks/gpus/failures.sh RESULTS_DIR [NAME...]   (python3 with torch, DeepSpeed, zlaunch)
set -u
out=$1; shift; mkdir -p "$out"
here=$(cd "$(dirname "$0")/../.." && pwd); cd "$here"
export PYTHONPATH=$here:${PYTHONPATH-}
export ZLAUNCH_HOME; ZLAUNCH_HOME=$(mktemp -d)
names=${*:-out_of_memory fragmented device_assert duplicate_gpu timeout mismatch peer_killed segfault
  no_gpu two_devices dtypes nan_loss ordinal}
for name in $names; do
  timeout 90 python3 -m zlaunch run --grace 3 benchmarks/gpus/failures.py "$name" > "$out/$name.log" 2>&1
  echo "$name: exit $?" | tee -a "$out/exits.txt"
done
# DeepSpeed itself out of memory
timeout 120 python3 -m zlaunch run --grace 3 --micro-batch 4000 examples/train_gpt.py --width 2048 --layers 16 --steps 3 > "$out/deepspeed_oom.log" 2>&1
echo "deepspeed_oom: exit $?" | tee -a "$out/exits.txt"
timeout 60 torchrun --nproc-per-node 2 benchmarks/gpus/failures.py device_assert > "$out/torchrun_device_assert.log" 2>&1
echo "torchrun_device_assert: exit $?" | tee -a "$out/exits.txt"
