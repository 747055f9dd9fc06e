#!/usr/bin/env bash
# What the look before a start finds of GPUs, and doctor, on a machine with two of them.
# Usage: benchmarks/gpus/hosts.sh RESULTS_DIR     (python3 with torch and what zlaunch needs)
set -u
out=$1; mkdir -p "$out"
here=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONPATH=$here:${PYTHONPATH-}
export ZLAUNCH_HOME; ZLAUNCH_HOME=$(mktemp -d)
cd "$(mktemp -d)"
cat > job.py <<'P'
import os
import torch
torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
one = torch.ones(1, device="cuda:" + os.environ["LOCAL_RANK"])
torch.distributed.all_reduce(one)
print("rank", os.environ["RANK"], "sum", one.item(), "of", torch.distributed.get_world_size())
torch.distributed.destroy_process_group()
P
cat > hold.py <<'P'
import sys, time, torch
held = torch.empty(20 << 30, dtype=torch.uint8, device="cuda:1")
print("held", flush=True)
time.sleep(600)
P
z() { timeout 240 python3 -m zlaunch "$@"; echo "exit $?"; }
step() { printf '\n=== %s\n' "$1"; }
{
step "doctor"; time z doctor
step "doctor --json"; z doctor --json
step "doctor --bandwidth"; time z doctor --bandwidth
step "two GPUs, by the code that goes to hosts"; time z multinode --hosts localhost:2 job.py
step "three slots"; time z multinode --hosts localhost:3 job.py
step "an architecture that DeepSpeed cannot read"
TORCH_CUDA_ARCH_LIST=9.0a z doctor
step "a GPU in use"
python3 hold.py > held & holder=$!
until grep -q held held; do sleep 0.2; done
time z multinode --hosts localhost:2 job.py
z multinode --hosts localhost:2 --include localhost:0 job.py
z multinode --hosts localhost:2 --allow gpu-in-use job.py
kill "$holder"; wait "$holder"
} > "$out/hosts.txt" 2>&1
