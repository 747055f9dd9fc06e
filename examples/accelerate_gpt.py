"""Train the byte-level GPT in plain Accelerate style: how it is spread is the launcher's choice.

zlaunch run --num-gpus 2 --recipe zero2 examples/accelerate_gpt.py
"""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from bytegpt import ByteGPT, Windows, library_text
from torch.utils.data import DataLoader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120, help="batches for each worker")
    parser.add_argument("--batch", type=int, default=8, help="sequences for each worker")
    parser.add_argument("--block", type=int, default=128, help="sequence length in bytes")
    parser.add_argument("--log-every", type=int, default=10, help="steps between two log lines")
    arguments = parser.parse_args()

    accelerator = Accelerator()
    set_seed(0)
    model = ByteGPT(block=arguments.block)
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        DataLoader(
            Windows(library_text(), arguments.block), batch_size=arguments.batch, shuffle=True
        ),
    )

    last = float("nan")
    for step, (tokens, targets) in zip(range(1, arguments.steps + 1), loader, strict=False):
        with accelerator.accumulate(model):
            loss = model(tokens, targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if step in (1, arguments.steps) or step % arguments.log_every == 0:
            last = accelerator.reduce(loss.detach(), reduction="mean").item()
            accelerator.print(f"step {step}/{arguments.steps} loss {last:.3f}")

    accelerator.print(
        f"trained with {accelerator.distributed_type} in {type(model).__name__} "
        f"on {accelerator.num_processes} workers, last loss {last:.3f}"
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
