"""One rank: trains a model of a config.json for three steps a batch, and writes down the peaks.

Appends a line of JSON a batch to MEMORY_RESULTS, in the form that benchmarks/memory.py reads:
GiB as torch.cuda.max_memory_allocated has it, what the allocator reserved, and what lies on the
GPU beside that (CUDA's context, NCCL).
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch

MEASURED = Path(__file__).parents[1] / "measured"
GIB = 2**30
STEPS = 3


def main() -> None:
    options = parse()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model, vocab, labelled = build(options)
    path = os.environ.get("ZLAUNCH_DS_CONFIG")
    config = json.loads(Path(path).read_text("utf-8")) if path else None
    before = torch.cuda.memory_allocated()
    train = with_deepspeed(model, config) if config is not None else with_ddp(model)
    del model
    initial = torch.cuda.memory_allocated()
    for batch in map(int, options.batches.split(",")):
        ids = torch.randint(0, vocab, (batch, options.sequence), device="cuda")
        labels = ids if labelled else ids[:, 0] % 2
        passes = STEPS * (config or {}).get("gradient_accumulation_steps", 1)
        torch.cuda.empty_cache()
        train(ids, labels, passes)  # the first step makes the optimizer's states
        torch.cuda.reset_peak_memory_stats()
        train(ids, labels, passes)
        if os.environ["RANK"] == "0":
            write(options, config, batch, initial - before)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--sequence", type=int, required=True)
    parser.add_argument("--batches", required=True)
    parser.add_argument("--checkpointing", action="store_true")
    return parser.parse_args()


def build(options: argparse.Namespace) -> tuple[Any, int, bool]:
    """The model on the CPU, its vocabulary, and whether its labels are words."""
    import transformers

    table = json.loads((MEASURED / f"{options.model}.json").read_text("utf-8"))
    name = table["architectures"][0]
    config = transformers.AutoConfig.for_model(**table)
    config.use_cache = False
    model = getattr(transformers, name)(config)
    if options.checkpointing:
        model.gradient_checkpointing_enable()
    model.train()
    return model, config.vocab_size, not name.endswith("ForSequenceClassification")


def with_deepspeed(model: Any, config: dict[str, Any]) -> Any:
    import deepspeed

    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )

    def train(ids: Any, labels: Any, passes: int) -> None:
        for _ in range(passes):
            loss = engine(input_ids=ids, labels=labels).loss
            engine.backward(loss)
            engine.step()

    return train


def with_ddp(model: Any) -> Any:
    rank = int(os.environ["LOCAL_RANK"])
    model = model.cuda()
    if int(os.environ["WORLD_SIZE"]) > 1:
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def train(ids: Any, labels: Any, passes: int) -> None:
        for _ in range(passes):
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(input_ids=ids, labels=labels).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return train


def write(
    options: argparse.Namespace, config: dict[str, Any] | None, batch: int, initial: int
) -> None:
    free, total = torch.cuda.mem_get_info()
    reserved = torch.cuda.memory_reserved()
    row = {
        "name": options.recipe,
        "model": options.model,
        "gpus": int(os.environ["WORLD_SIZE"]),
        "sequence": options.sequence,
        "micro_batch": batch,
        "checkpointing": options.checkpointing,
        "peak_gib": round(torch.cuda.max_memory_allocated() / GIB, 3),
        "reserved_gib": round(torch.cuda.max_memory_reserved() / GIB, 3),
        "beside_gib": round((total - free - reserved) / GIB, 3),
        "initial_gib": round(initial / GIB, 3),
        "config": config,
    }
    print(json.dumps({key: value for key, value in row.items() if key != "config"}), flush=True)
    with Path(os.environ["MEMORY_RESULTS"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
