"""Causes: memory of the GPU and the host, /dev/shm, disks, file descriptors."""

from __future__ import annotations

from zlaunch.insight.cause_table import Case, Row, Told
from zlaunch.insight.memory_ladder import gib, ladder

_SHM = (
    (
        "give /dev/shm room: docker run --shm-size=16g or --ipc=host; Kubernetes: an emptyDir with "
        "medium Memory on /dev/shm"
    ),
    (
        "or fewer workers of the DataLoader (num_workers), or "
        "torch.multiprocessing.set_sharing_strategy('file_system')"
    ),
)
HOST_MEMORY = (
    "fewer ranks on a host, or a host with more memory",
    (
        "less in host memory: fewer DataLoader workers, no offload to the CPU (--recipe zero3), "
        "or offload to NVMe (--recipe zero3-nvme)"
    ),
    "load the model on one rank or under deepspeed.zero.Init, not whole on each",
)
_FREE_ENOUGH = 0.25  # of the card: what others hold of it is then worth a word
_MUCH_UNALLOCATED = 0.1


def _cuda(case: Case) -> Told:
    asked, free, total = case.group("asked"), case.group("free"), case.group("total")
    gpu, reserved = case.group("gpu"), case.group("reserved") or _unallocated(case)
    title = f"CUDA out of memory: {asked} asked for" if asked else "CUDA out of memory"
    if case.group("cap"):
        title += f", {case.group('cap')} allowed to this process"
    elif free and total:
        title += f", {free} of {total} free" + (f" on GPU {gpu}" if gpu else "")
    details, mends = [], list(ladder(case.evidence))
    if case.group("allocated"):
        details.append(f"PyTorch held {case.group('allocated')}, and {reserved or '0 bytes'} more "
                       "that was reserved but not in use")  # fmt: skip
    much = max(gib(asked), _MUCH_UNALLOCATED * gib(total))
    if reserved and gib(reserved) >= much > 0:
        name = (
            "PYTORCH_CUDA_ALLOC_CONF"
            if "_CUDA_ALLOC_CONF" in case.found.string
            else ("PYTORCH_ALLOC_CONF")
        )
        mends.insert(0, f"the memory is in pieces: {name}=expandable_segments:True")
    if case.group("cap"):
        details.append("the script sets this limit: set_per_process_memory_fraction")
    used, whole = gib(case.group("process")), gib(total)
    others = whole - gib(free) - used
    if used and not case.group("cap") and others > _FREE_ENOUGH * whole:
        details.append(f"other processes hold about {others:.1f} GiB of this GPU")
        mends.insert(0, "choose GPUs that nobody uses (`nvidia-smi`, --gpus), or end what holds it")
    return Told(title, tuple(details), tuple(mends))


def _unallocated(case: Case) -> str:
    """What is reserved beyond what is allocated, where only the sum is printed."""
    if not case.group("held"):
        return ""
    return f"{max(0.0, gib(case.group('held')) - gib(case.group('allocated'))):.2f} GiB"


_SIZE = r"[\d.]+ (?:bytes|B|[KMGT]iB)"
_CUDA = (
    r"(?:CUDA|HIP|XPU) out of memory\.(?: Tried to allocate (?P<asked>" + _SIZE + r"))?"
    r"(?:[. (]*GPU (?P<gpu>\d+)(?: has a total capaci?ty of|;) (?P<total>" + _SIZE + r"))?"
    r"(?: of which (?P<free>" + _SIZE + r") is free)?"
    r"(?:.{0,400}?this process has (?P<process>" + _SIZE + r") memory in use)?"
    r"(?:.{0,200}?(?P<cap>" + _SIZE + r") allowed)?"
    r"(?:.{0,200}?Of the allocated memory (?P<allocated>" + _SIZE + r") is allocated by PyTorch)?"
    r"(?:.{0,200}?(?P<reserved>" + _SIZE + r") is reserved by PyTorch but unallocated)?"
)
# torch up to 2.0.
_OLD_CUDA = (
    r"CUDA out of memory\. Tried to allocate (?P<asked>" + _SIZE + r") \(GPU (?P<gpu>\d+); "
    r"(?P<total>" + _SIZE + r") total capacity; (?P<allocated>" + _SIZE + r") already allocated; "
    r"(?P<free>" + _SIZE + r") free; (?P<held>" + _SIZE + r") reserved in total"
)

ROWS = (
    Row("cuda-out-of-memory", _OLD_CUDA, tell=_cuda),
    Row("cuda-out-of-memory", r"^\w+: " + _CUDA, tell=_cuda),
    Row(
        "cuda-out-of-memory",
        r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation",
        tell=lambda case: Told(
            "CUDA out of memory, outside of PyTorch's own allocator",
            ("often another process holds the GPU: `nvidia-smi`",),
            ladder(case.evidence),
        ),
    ),
    Row(
        "shared-memory-full",
        r"unable to (?:allocate|open) shared memory|out of shared memory|"
        r"DataLoader worker \(pid\S* \d+\) is killed by signal: Bus error|/torch_\d+_\d+.{0,60}"
        r"(?:No space left|Bus error)",
        "the shared memory /dev/shm is full: the DataLoader's workers hand batches over through it",
        _SHM,
    ),
    Row(
        "data-worker-killed",
        r"DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) is killed by signal: "
        r"(?P<signal>Killed|Terminated|Aborted|Segmentation fault)",
        "a worker of the DataLoader (pid {pid}) was killed: {signal}",
        (
            (
                "Killed: most often the host's memory was full; fewer workers (num_workers), or "
                "less "
                "that each of them loads"
            ),
            "num_workers=0 shows an error of the data set itself",
        ),
    ),
    Row(
        "data-worker-killed",
        r"DataLoader worker \(pid\(s\) (?P<pid>[\d, ]+)\) exited unexpectedly",
        "a worker of the DataLoader (pid {pid}) ended without a word",
        ("num_workers=0 shows an error of the data set itself",),
    ),
    Row(
        "host-out-of-memory",
        r"^MemoryError|^ArrayMemoryError|can't allocate memory|"
        r"Errno 12\] Cannot allocate memory|not enough memory: you tried to allocate|bad_alloc",
        "the host's memory is full, or a limit on it was reached",
        HOST_MEMORY,
    ),
    Row(
        "pinned-memory-refused",
        r"(?:pin_memory|cudaHostAlloc|cudaHostRegister).{0,200}(?:failed|error)",
        "pinned host memory was refused",
        ("raise `ulimit -l`, or --set zero_optimization.offload_optimizer.pin_memory=false",),
    ),
    Row(
        "disk-full",
        r"Errno 28\] No space left on device(?:: '?(?P<path>[^'\n]+))?|Errno 122\] Disk quota|"
        r"No space left on device",
        "the disk is full {path}",
        (
            (
                "free space there, or write checkpoints and caches elsewhere (HF_HOME, TMPDIR, "
                "TORCH_EXTENSIONS_DIR)"
            ),
        ),
    ),
    Row(
        "write-failed",
        r"basic_ios::clear: iostream error|inline_container\.cc:\d+\] \. unexpected pos",
        "a checkpoint could not be written whole: most often the disk is full",
        ("`df -h` of the directory of the checkpoints; a quota counts too",),
    ),
    Row(
        "too-many-files",
        r"Errno 24\] Too many open files|received 0 items of ancdata|^OSError: Too many open",
        "too many open files",
        (
            "raise `ulimit -n`",
            (
                "torch.multiprocessing.set_sharing_strategy('file_system') where the DataLoader's "
                "batches hold them"
            ),
        ),
    ),
    Row(
        "too-many-processes",
        r"can't start new thread|Errno 11\] Resource temporarily unavailable|"
        r"libgomp: Thread creation failed",
        "no more threads or processes may be started",
        ("raise `ulimit -u` or the cgroup's pids limit; fewer DataLoader workers",),
    ),
)
