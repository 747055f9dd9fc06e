"""What a script does with a GPU: run warm and cold, it has to print the same.

Imports, then CUDA, NCCL, Triton, torch.compile, data loaders by fork and by spawn, gradients.
"""

import os

import torch
import torch.distributed as dist
import triton
import triton.language as tl
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    """What the loaders load."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor(index * index)


@triton.jit
def doubled(source, target, size: tl.constexpr):
    places = tl.arange(0, size)
    tl.store(target + places, tl.load(source + places) * 2)


def say(*words):
    print(f"rank {os.environ['RANK']}:", *words, flush=True)


def main():
    say("bad fork", torch.cuda._is_in_bad_fork(), "initialized", torch.cuda.is_initialized())
    say(
        "GPUs",
        torch.cuda.device_count(),
        "NVML check",
        os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"),
    )
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    one = torch.full((1 << 20,), float(local + 1), device="cuda")
    dist.all_reduce(one)
    say("all-reduce", one[0].item(), "of", dist.get_world_size())
    given = torch.arange(16.0, device="cuda")
    got = torch.empty_like(given)
    doubled[1,](given, got, 16)
    say("triton", got.sum().item())
    compiled = torch.compile(lambda x: torch.nn.functional.gelu(x).mul(3).sum())
    say("compiled", round(compiled(given).item(), 2))
    for method in ("fork", "spawn"):
        loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=method)
        say("loader by", method, [batch.tolist() for batch in loader])
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1).cuda())
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    say("gradient", model.module.weight.grad.tolist())
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.ones(4, device="cuda").mul(2)
    say("graph captured")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
