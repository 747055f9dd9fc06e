"""Causes in forms that could not be made here: other versions, other hardware.

The forms are those of public reports (named beside each), the numbers and names are ours.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from logs import evidence, in_torch, raised

from zlaunch.insight.diagnosis import Cause, diagnose
from zlaunch.insight.endings import TABLES
from zlaunch.insight.printed import FATAL

FORMS = [
    (  # DeepSpeed#3869: torch up to 2.0
        raised(
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 978.00 MiB (GPU 0; "
            "4.00 GiB total capacity; 1.68 GiB already allocated; 0 bytes free; 2.72 GiB reserved "
            "in total by PyTorch) If reserved memory is >> allocated memory try setting "
            "max_split_size_mb to avoid fragmentation.  See documentation for Memory Management"
        ),
        "cuda-out-of-memory",
        "978.00 MiB asked for, 0 bytes of 4.00 GiB free on GPU 0",
    ),
    (  # MGFN#35: torch 2.1 spells capacity otherwise
        raised(
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.70 GiB. GPU 0 "
            "has a total capacty of 6.00 GiB of which 0 bytes is free. Of the allocated memory "
            "2.93 GiB is allocated by PyTorch, and 2.30 GiB is reserved by PyTorch but "
            "unallocated. If reserved but unallocated memory is large try setting "
            "max_split_size_mb to avoid fragmentation."
        ),
        "cuda-out-of-memory",
        "the memory is in pieces: PYTORCH_ALLOC_CONF=expandable_segments:True",
    ),
    (  # LlamaFactory#7532
        raised(
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.39 GiB. GPU 1 "
            "has a total capacity of 79.32 GiB of which 2.40 GiB is free. Process 4711 has 76.92 "
            "GiB memory in use. Of the allocated memory 73.28 GiB is allocated by PyTorch, and "
            "1.59 GiB is reserved by PyTorch but unallocated."
        ),
        "cuda-out-of-memory",
        "3.39 GiB asked for, 2.40 GiB of 79.32 GiB free on GPU 1",
    ),
    (  # Fooocus#1313 and ten alike
        raised(
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). "
            "Please update your GPU driver by downloading and installing a new version"
        ),
        "driver-too-old",
        "the NVIDIA driver is too old",
    ),
    (  # NVIDIA/nccl#1515, #975
        in_torch(
            "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
            "NCCLUtils.hpp:268, unhandled system error (run with NCCL_DEBUG=INFO for details), "
            "NCCL version 2.21.5\n"
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or "
            "device error.\n"
            "Last error:\n"
            "socketStartConnect: Connect to 10.0.0.7<43369> failed : Software caused connection "
            "abort"
        ),
        "nccl-system-error",
        "socketStartConnect: Connect to 10.0.0.7<43369> failed",
    ),
    (  # NVIDIA/nccl#2076, #934
        in_torch(
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/"
            "c10d/NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL "
            "version 2.21.5\n"
            "ncclRemoteError: A call failed possibly due to a network error or a remote process "
            "exiting prematurely.\n"
            "Last error:\n"
            "socketProgressOpt: Call to recv from 10.0.0.9<33759> failed : Connection reset by peer"
        ),
        "nccl-peer-lost",
        "NCCL lost the connection to a peer",
    ),
    (
        raised("ValueError: invalid literal for int() with base 10: '0a'",
               "/opt/venv/lib/python3.12/site-packages/deepspeed/ops/op_builder/builder.py"),
        "arch-list",
        "TORCH_CUDA_ARCH_LIST=9.0",
    ),
    (  # pytorch#...: the DataLoader in a container with 64 MB of /dev/shm
        raised(
            "RuntimeError: DataLoader worker (pid 1234) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory. Please try to raise "
            "your shared memory limit."
        ),
        "shared-memory-full",
        "docker run --shm-size=16g",
    ),
    (
        raised("RuntimeError: unable to open shared memory object </torch_77_1> in read-write "
        "mode"),
        "shared-memory-full",
        "/dev/shm",
    ),
    (
        "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --local-rank=1\n",
        "script-arguments",
        "--no-local-rank",
    ),
    (
        raised("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
        "cuda-out-of-memory",
        "outside of PyTorch's own allocator",
    ),
    (
        raised("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
               "multiprocessing, you must use the 'spawn' start method"),
        "cuda-in-forked-process",
        "spawn",
    ),
]  # fmt: skip


def cause_of(text: str, code: int = 1) -> Cause:
    causes = diagnose(evidence({0: text}, {0: code})).causes
    assert len(causes) == 1
    return causes[0]


@pytest.mark.parametrize(("text", "code", "words"), FORMS, ids=[form[1] for form in FORMS])
def test_a_form_is_read(text: str, code: str, words: str) -> None:
    cause = cause_of(text, 2 if code == "script-arguments" else 1)
    assert cause.code == code
    assert words in "\n".join((cause.title, *cause.details, *cause.mends))


@pytest.mark.parametrize(
    ("text", "code", "cause"),
    [
        ("bash: line 1: nosuch: command not found", 127, "program-not-found"),
        ("sh: 1: nosuch: not found", 127, "program-not-found"),
        ("env: 'pyhton': No such file or directory", 127, "program-not-found"),
        ("bash: ./train.sh: Permission denied", 126, "permission-denied"),
    ],
)
def test_what_a_shell_says(text: str, code: int, cause: str) -> None:
    assert cause_of(text, code).code == cause


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ({"signal": 9, "signs": {"oom_kills": 2}}, "host-out-of-memory", "killed 2 processes"),
        ({"signal": 9, "signs": {"oom_kills": 0}}, "killed", "no kill for memory was counted"),
        ({"signal": 9}, "killed", "killed by somebody"),
        ({"code": 137}, "killed", "told by exit code 137 of a shell"),
        (
            {"signal": 7, "signs": {"shm_size": 64 << 20, "shm_free": 1 << 20}},
            "shared-memory-full",
            "has 64 MiB, 1 MiB of it free at the end",
        ),
        ({"signal": 7}, "shared-memory-full", "most often /dev/shm is full"),
        ({"signal": 11}, "segmentation-fault", "SIGSEGV"),
        ({"signal": 6}, "aborted", "SIGABRT"),
        ({"signal": 4}, "illegal-instruction", "SIGILL"),
        ({"signal": 8}, "floating-point-exception", "SIGFPE"),
        ({"signal": 2}, "interrupted", "SIGINT"),
        ({"signal": 15}, "terminated", "SIGTERM"),
        ({"signal": 31}, "signalled", "SIGSYS"),
        ({"code": 3}, "exit-code", "exit code 3"),
    ],
)
def test_an_exit_alone_says_something(end: dict[str, object], code: str, words: str) -> None:
    cause = diagnose(evidence({0: "step 1\nstep 2"}, {0: end})).causes[0]
    assert cause.code == code
    assert words in "\n".join((cause.title, *cause.details, *cause.mends))


def test_what_record_of_torch_wrote_is_read_where_the_log_says_nothing() -> None:
    error = (
        '{"message": {"message": "ValueError: row 17 is empty", "extraInfo": {"py_callstack": '
        '"Traceback (most recent call last):\\n  File \\"/srv/job/train.py\\", line 4, in main\\n'
        '    raise ValueError(x)\\nValueError: row 17 is empty\\n", "timestamp": "1796052977"}}}'
    )
    found = diagnose(evidence({0: ""}, {0: {"code": 1, "error": error}}))
    assert found.causes[0].title == "ValueError: row 17 is empty"
    assert found.causes[0].details == ("at /srv/job/train.py:4, in main",)
    assert found.tracebacks[0].lines[-1] == "ValueError: row 17 is empty"
    assert diagnose(evidence({0: ""}, {0: {"code": 1, "error": "{"}})).causes[0].code == "exit-code"
    plain = evidence({0: ""}, {0: {"code": 1, "error": '{"message": "ValueError: x"}'}})
    assert diagnose(plain).causes[0].title == "ValueError: x"


def test_a_module_that_one_host_lacks() -> None:
    missing = raised("ModuleNotFoundError: No module named 'cv2'")
    found = diagnose(
        evidence(
            {0: "", 1: missing},
            {0: {"signal": 15, "stopped": True}, 1: 1},
            hosts={0: "node-a", 1: "node-b"},
        )
    )
    assert "on node-b only, not on node-a" in found.causes[0].details
    assert "pip install opencv-python-headless" in found.causes[0].mends[0]
    both = diagnose(
        evidence({0: missing, 1: missing}, {0: 1, 1: 1}, hosts={0: "node-a", 1: "node-b"})
    )
    assert "on every host" in both.causes[0].details
    assert both.causes[0].ranks == (0, 1)


def test_the_docs_name_every_cause() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "causes.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([a-z-]+)` \|", docs, re.M))
    codes = {row.code for table in TABLES for row in table} | set(FATAL.values())
    assert codes <= named
    sources = (Path(__file__).parents[2] / "zlaunch").rglob("*.py")
    written = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert {code for code in named if f'"{code}"' not in written} == set()


@pytest.mark.parametrize(
    "words",
    [
        "Using /home/me/.cache/torch_extensions/py312_cu130 as PyTorch extensions root...",
        (
            "Thread 0x00007f54 (most recent call first):\n"
            '  File "/opt/venv/site-packages/torch/utils/file_baton.py", line 51 in wait\n'
            '  File "/srv/job/train.py", line 18 in <module>'
        ),
    ],
)
def test_ranks_that_waited_for_a_build_to_the_end_are_noticed(words: str) -> None:
    stopped = {"signal": 15, "stopped": True}
    (one,) = diagnose(evidence({0: words, 1: words}, {0: stopped, 1: stopped})).noticed
    assert (one.code, one.ranks) == ("extension-lock", (0, 1))
    assert "-name lock -delete" in one.mends[0]
    assert diagnose(evidence({0: words + "\n" + "step 1\n" * 300}, {0: 0})).noticed == ()
