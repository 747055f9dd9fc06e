#!/usr/bin/env bash
# Peaks of real training steps, to be set beside what `zlaunch plan` says.
# Usage: benchmarks/gpus/memory.sh RESULTS_DIR    (1 or 2 GPUs; torch, DeepSpeed, transformers)
# Then:  python benchmarks/memory.py RESULTS_DIR/memory.jsonl
# Models are built from benchmarks/measured/*.json, with random weights; nothing is downloaded.
set -u
out=$1; mkdir -p "$out"
here=$(cd "$(dirname "$0")/../.." && pwd); cd "$here"
export PYTHONPATH=$here:${PYTHONPATH-}
export ZLAUNCH_HOME; ZLAUNCH_HOME=$(mktemp -d)
export MEMORY_RESULTS; MEMORY_RESULTS=$(cd "$out" && pwd)/memory.jsonl
# DeepSpeed cannot read an architecture that ends in a letter.
case "${TORCH_CUDA_ARCH_LIST-}" in *a) export TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST%a} ;; esac
: > "$MEMORY_RESULTS"
gpus=$(nvidia-smi -L | grep -c '^GPU'); [ "$gpus" -gt 2 ] && gpus=2
# step RECIPE MODEL TOKENS BATCHES [accumulate] [more options of the worker]
step() {
  local recipe=$1 model=$2 tokens=$3 batches=$4 accumulate=${5:-1}; shift 4; [ $# -gt 0 ] && shift
  local options=(--recipe "$recipe" --num-gpus "$gpus")
  [ "$recipe" = ddp ] || options+=(--precision bf16 --micro-batch 1 --accumulate "$accumulate")
  printf '=== %s %s %s tokens, batches %s, accumulate %s %s\n' "$recipe" "$model" "$tokens" "$batches" "$accumulate" "$*"
  timeout "${LIMIT:-90}" python3 -m zlaunch run -q "${options[@]}" benchmarks/gpus/memory_step.py \
    --recipe "$recipe" --model "$model" --sequence "$tokens" --batches "$batches" "$@" 2>&1 | tail -n 6
  echo "exit ${PIPESTATUS[0]}"
}
{
nvidia-smi -L; python3 -c 'import torch, deepspeed, transformers; print("torch", torch.__version__, "deepspeed", deepspeed.__version__, "transformers", transformers.__version__)'
LIMIT=150 step zero1 llama-1b 1024 1,2,4
step zero2 llama-1b 1024 1,2,4
step zero3 llama-1b 1024 1,2,4
step ddp llama-1b 1024 1,2
step zero2 llama-1b 1024 2,8 1 --checkpointing
step zero1 llama-1b 1024 1 4
LIMIT=120 step zero2-offload llama-1b 1024 1,4
step zero3-offload llama-1b 1024 1,4
step zero2 bert-large 512 8,32
step zero2 gpt2-xl 512 1,4
} 2>&1 | tee "$out/memory.txt"
echo "=== predicted beside measured"
python3 benchmarks/memory.py "$MEMORY_RESULTS" | tee "$out/memory.md"
