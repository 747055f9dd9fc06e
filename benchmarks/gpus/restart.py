"""Two ranks that meet over NCCL; rank 1 fails in the first attempt, and none in the second."""

import os
import time

import torch
import torch.distributed as dist

rank, attempt = int(os.environ["LOCAL_RANK"]), int(os.environ["ZLAUNCH_RESTART_COUNT"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
values = torch.ones(1 << 28, device="cuda")  # 1 GiB, which has to be free again
dist.all_reduce(values)
torch.cuda.synchronize()
free, _ = torch.cuda.mem_get_info()
print(f"attempt {attempt}: sum {values[0].item():g}, {free / 2**30:.1f} GiB free", flush=True)
if attempt == 0 and rank == 1:
    time.sleep(1)
    raise RuntimeError("the first attempt")
dist.all_reduce(values)
torch.cuda.synchronize()
dist.destroy_process_group()
