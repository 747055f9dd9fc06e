"""Train a byte-level GPT on Python's own sources with DeepSpeed.

zlaunch run --cpu 2 examples/train_gpt.py --steps 120
"""

import argparse
import os
import time
from collections.abc import Iterator

import deepspeed
import torch
from bytegpt import ByteGPT, library_text
from deepspeed import comm
from deepspeed.accelerator import get_accelerator
from torch import Tensor


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ds-config",
        default=os.environ.get("ZLAUNCH_DS_CONFIG"),
        help="DeepSpeed's configuration (default: the file that zlaunch wrote)",
    )
    parser.add_argument("--steps", type=int, default=120, help="optimizer steps")
    parser.add_argument("--block", type=int, default=128, help="sequence length in bytes")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log-every", type=int, default=10, help="steps between two log lines")
    arguments = parser.parse_args()
    if not arguments.ds_config:
        parser.error("no DeepSpeed configuration: start me with zlaunch, or give --ds-config")
    return arguments


def batches(text: Tensor, block: int, batch: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield for ever: random pieces of the text, and the same moved on by one byte."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(block + 1)
    while True:
        starts = torch.randint(len(text) - block, (batch, 1), generator=generator)
        pieces = text[starts + offsets].long()
        yield pieces[:, :-1], pieces[:, 1:]


def mean_over_ranks(value: Tensor) -> float:
    total = value.detach().float().clone()
    comm.all_reduce(total)
    return total.item() / comm.get_world_size()


def main() -> None:
    arguments = parse_arguments()
    get_accelerator().set_device(int(os.environ["LOCAL_RANK"]))
    deepspeed.init_distributed()
    rank, world_size = comm.get_rank(), comm.get_world_size()

    torch.manual_seed(arguments.seed)  # the same model on every rank
    model = ByteGPT(
        layers=arguments.layers,
        width=arguments.width,
        heads=arguments.heads,
        block=arguments.block,
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=arguments.ds_config
    )
    micro_batch = engine.train_micro_batch_size_per_gpu()
    accumulation = engine.gradient_accumulation_steps()
    print(f"rank {rank} of {world_size} on {engine.device}: {parameters:,} parameters")

    seed = arguments.seed * world_size + rank  # other data on every rank
    data = batches(library_text(), arguments.block, micro_batch, seed)
    losses: list[float] = []
    logged, since = 0, time.perf_counter()
    for step in range(1, arguments.steps + 1):
        loss = torch.zeros((), device=engine.device)
        for _ in range(accumulation):
            tokens, targets = (part.to(engine.device) for part in next(data))
            micro_loss = engine(tokens, targets)
            engine.backward(micro_loss)
            engine.step()  # the optimizer moves when the last micro batch is in
            loss += micro_loss.detach() / accumulation

        if step in (1, arguments.steps) or step % arguments.log_every == 0:
            losses.append(mean_over_ranks(loss))
            now = time.perf_counter()
            sequences = (step - logged) * accumulation * micro_batch * world_size
            speed = sequences * arguments.block / (now - since)
            logged, since = step, now
            if rank == 0:
                print(
                    f"step {step}/{arguments.steps} loss {losses[-1]:.3f} "
                    f"lr {engine.get_lr()[0]:.1e} tokens/s {speed:.0f}"
                )

    print(f"rank {rank} done after {engine.global_steps} steps")
    if rank == 0 and losses:
        print(f"loss {losses[0]:.3f} at the first step, {losses[-1]:.3f} at the last")
    comm.barrier()  # nobody leaves while another still talks to it
    comm.destroy_process_group()


if __name__ == "__main__":
    main()
