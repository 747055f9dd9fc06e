#!/usr/bin/env bash
# Hangs of NCCL on two GPUs: who is elsewhere is named, and the flight recorder says at which
# collective. And training that is silent for longer than the limit: it is no hang.
# Usage: benchmarks/gpus/hang.sh RESULTS_DIR     (python3 with torch and zlaunch; some 4 minutes)
set -u
out=$1; mkdir -p "$out"
here=$(cd "$(dirname "$0")/../.." && pwd); cd "$here"
export PYTHONPATH=$here:${PYTHONPATH-}
export ZLAUNCH_HOME; ZLAUNCH_HOME=$(mktemp -d)
z() { timeout "${LIMIT:-100}" python3 -m zlaunch "$@"; }
step() { printf '\n=== %s\n' "$1"; }
work=$(mktemp -d)
cat > "$work/job.py" <<'P'
import os, sys, time
import torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
x = torch.ones(1 << 20, device="cuda")
def sleep_elsewhere():
    while True: time.sleep(1)
def spin_elsewhere():
    n = 0
    while True:
        n += 1
def train(matmuls):
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    while True:
        for _ in range(matmuls):
            b = a @ a
        dist.all_reduce(x)
        b.sum().item()
for _ in range(5): dist.all_reduce(x)
torch.cuda.synchronize()
print("up", flush=True)
how = sys.argv[1]
if how == "train": train(int(sys.argv[2]))
if rank == 1 and how == "sleep": sleep_elsewhere()
if rank == 1 and how == "spin": spin_elsewhere()
if rank == 1 and how == "other": dist.broadcast(x, 0)
else: dist.all_reduce(x)
torch.cuda.synchronize() if how != "item" else x.sum().item()
if rank == 1: spin_elsewhere()
P
cat > "$work/watch.py" <<'P'
# What the rule is made from: of each GPU, percent of time with a kernel, and with memory in use.
import time
from zlaunch.system.gpu_work import gpu_work
for _ in range(8):
    print({name: (work.kernels, work.memory) for name, work in gpu_work(["0", "1"]).items()}, flush=True)
    time.sleep(1)
P
hang() { z run --num-gpus 2 --recipe ddp --grace 5 --hang-timeout 0.25 --on-hang stop "$work/job.py" "$@"; echo "exit $?"; }
watched() { (sleep 14; python3 "$work/watch.py") & hang "$@"; wait; }
{
nvidia-smi -L; python3 -c 'import torch; print("torch", torch.__version__, "nccl", torch.cuda.nccl.version())'
for how in ${HOWS:-sleep spin other}; do
  step "rank 1: $how; rank 0 waits in all_reduce"; watched $how
  cat "$ZLAUNCH_HOME"/latest/stacks-1.txt; ls -l "$ZLAUNCH_HOME/latest/flight"
done
} > "$out/hang.txt" 2>&1
{
step "asked for from another shell"
(sleep 20; z stacks; z stacks --json | head -c 3000) &
LIMIT=40 z run --num-gpus 2 --recipe ddp --grace 5 "$work/job.py" spin; wait
} > "$out/asked.txt" 2>&1
{
for matmuls in ${SILENT:-5 200 2000}; do
  step "silent training, $matmuls products a step: no hang within 45 s, with a limit of 15 s"
  (sleep 20; python3 "$work/watch.py") &
  LIMIT=45 z run --num-gpus 2 --recipe ddp --grace 5 --hang-timeout 0.25 "$work/job.py" train $matmuls; wait
  grep -c . "$ZLAUNCH_HOME"/latest/stacks-*.txt 2>/dev/null || echo "no roll-call"
done
} > "$out/silent.txt" 2>&1
rm -r "$work"
step "left behind" >> "$out/hang.txt"; { pgrep -af job.py || echo nothing; ls -d /tmp/zlaunch-* 2>/dev/null || echo "no directory"; } >> "$out/hang.txt"
