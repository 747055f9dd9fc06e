"""Says that this rank runs, and again when it has taken two ZeRO-2 steps with the others."""

import os
import sys

import deepspeed
import torch

RANK = os.environ.get("RANK", "0")
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "zero_optimization": {"stage": 2},
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},  # not compiled
}


def say(what):
    sys.stdout.write(f"{what} of rank {RANK}\n")  # in one piece, so that no other gets into it
    sys.stdout.flush()


def main():
    say("first line")
    if "RANKS_SHARE_A_GPU" in os.environ:  # NCCL takes two ranks on one GPU for different hosts'
        os.environ |= {"LOCAL_RANK": "0", "NCCL_HOSTID": RANK, "NCCL_SOCKET_IFNAME": "lo"}
    deepspeed.init_distributed()
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 1))
    engine, *_ = deepspeed.initialize(model=model, config=CONFIG)
    for _ in range(2):
        inputs = torch.ones(8, 256, device=engine.device, dtype=torch.bfloat16)
        engine.backward(engine(inputs).float().mean())
        engine.step()
    say("last step")
    torch.distributed.destroy_process_group()


main()
