#!/usr/bin/env bash
# Everything of zlaunch that touches GPUs, seen once on a machine with two of them.
# Usage: benchmarks/gpus/check.sh RESULTS_DIR     (python3 with torch, DeepSpeed and zlaunch)
set -u
out=$1; mkdir -p "$out"
here=$(cd "$(dirname "$0")/../.." && pwd); cd "$here"
export PYTHONPATH=$here:${PYTHONPATH-}
export ZLAUNCH_HOME; ZLAUNCH_HOME=$(mktemp -d)
z() { timeout "${LIMIT:-120}" python3 -m zlaunch "$@"; }
step() { printf '\n=== %s\n' "$1"; }
probe=$(mktemp --suffix .py)
cat > "$probe" <<'P'
import os, torch
r = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(r)
p = torch.cuda.get_device_properties(r)
print("rank", os.environ["RANK"], "sees", os.environ["CUDA_VISIBLE_DEVICES"], "cuda:%d" % r, p.uuid)
P
{
nvidia-smi -L; python3 -c 'import torch, deepspeed; print("torch", torch.__version__, "deepspeed", deepspeed.__version__)'
uuid1=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | sed -n 2p)
step "selection: all, first, order of CUDA_VISIBLE_DEVICES, --gpus, UUID, include, exclude"
z run -q --recipe ddp "$probe"
z run -q --recipe ddp --num-gpus 1 "$probe"
CUDA_VISIBLE_DEVICES=1,0 z run -q --recipe ddp "$probe"
CUDA_VISIBLE_DEVICES=1,0 z run -q --recipe ddp --num_gpus 1 "$probe"
z run -q --recipe ddp --gpus 1,0 "$probe"
CUDA_VISIBLE_DEVICES=$uuid1 z run -q --recipe ddp "$probe"
z run -q --recipe ddp --gpus "${uuid1:0:12}" "$probe"
z run -q --recipe ddp --include localhost:1 "$probe"
z run -q --recipe ddp --exclude localhost:1 "$probe"
step "too many: exit 2 at once"
( time z run --num-gpus 8 "$probe"; echo "exit $?" ) 2>&1
CUDA_VISIBLE_DEVICES=1 z run --num-gpus 2 "$probe"; echo "exit $?"
CUDA_VISIBLE_DEVICES= z run "$probe"; echo "exit $?"
step "dry run"
z run --dry-run --gpus 1,0 examples/train_gpt.py | head -12
} > "$out/selection.txt" 2>&1
{
step "ZeRO-2 bf16 (default)"
LIMIT=180 python3 examples/demo.py --steps 200
for recipe in zero1 zero3 zero2-offload zero3-offload; do step "$recipe"; LIMIT=150 z run --recipe $recipe examples/train_gpt.py --steps 30; echo "exit $?"; done
} > "$out/train.txt" 2>&1
{
step "fp16, scale found from 2^24: flood folded"
z run --precision fp16 --set fp16.initial_scale_power=24 --set fp16.loss_scale_window=40 --set steps_per_print=10 \
  --set optimizer.params.lr=1e-3 --set scheduler.params.warmup_max_lr=1e-3 --set scheduler.params.warmup_num_steps=20 \
  examples/train_gpt.py --steps 150; echo "exit $?"
cp "$ZLAUNCH_HOME/latest/logs/rank-0.log" "$out/fp16-rank-0.log"
step "fp16, diverging: minimum of the scale"
z run --precision fp16 --set fp16.initial_scale_power=4 --set optimizer.params.lr=1e4 --set scheduler.params.warmup_max_lr=1e4 \
  --set scheduler.params.warmup_num_steps=2 --set gradient_clipping=0 --set steps_per_print=10 examples/train_gpt.py --steps 60; echo "exit $?"
} > "$out/overflow.txt" 2>&1
{
step "Accelerate, unchanged, turned to ZeRO-2"; z run --recipe zero2 examples/accelerate_gpt.py; echo "exit $?"
step "Accelerate without DeepSpeed"; z run examples/accelerate_gpt.py; echo "exit $?"
step "Trainer, unchanged, turned to ZeRO-3"; z run --recipe zero3 examples/hf_trainer.py; echo "exit $?"
step "two runs at once, one GPU each"
z run -q --gpus 0 examples/train_gpt.py --steps 40 > "$out/a" 2>&1 & a=$!
z run -q --gpus 1 examples/train_gpt.py --steps 40 > "$out/b" 2>&1; echo "exit b $?"; wait $a; echo "exit a $?"
tail -n 2 "$out/a" "$out/b"; rm "$out/a" "$out/b"
step "left behind"; pgrep -af train_gpt || echo nothing; nvidia-smi --query-compute-apps=pid,name --format=csv
z ps
} > "$out/frameworks.txt" 2>&1
