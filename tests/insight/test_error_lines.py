"""Which lines tell of something wrong, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from zlaunch.insight.error_lines import ErrorLines

RECORDINGS = Path(__file__).parents[1] / "recordings"

ORDINARY = """\
step 10/100 loss 4.340 lr 7.7e-04 tokens/s 9375
{'loss': 2.31, 'grad_norm': 0.8, 'learning_rate': 1e-4, 'epoch': 1.25}
errors: 0, warnings: 3
[2026-11-30 01:48:45,578] [INFO] [engine.py:1:f] [Rank 0] step=10, skipped=0, lr=[0.001], mom=[0.9]
info: nanmean of 3.2, loss infinity norm 2.0
Loading extension module cpu_adam...
100%|##########| 10/10 [00:00<00:00, 31.2it/s]
  File "x.py", line 3, in <module>
"""


def told(text: str) -> list[str]:
    lines = ErrorLines()
    return [line for line in text.split("\n") if lines.tells(line)]


def test_ordinary_lines_tell_of_nothing() -> None:
    assert told(ORDINARY) == []


@pytest.mark.parametrize(
    "line",
    [
        "ERROR:root:it broke",
        "2026-11-30 14:00:00,123 - trainer - CRITICAL - no disk",
        "[2026-11-30 01:49:22,095] [ERROR] [launch.py:1:f] exits with return code = 1",
        (
            "[2026-11-30 01:49:22,095] [INFO] [loss_scaler.py:273:update_scale] [deepspeed] "
            "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768"
        ),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "E1130 15:22:20.980000 1217 torch/distributed/elastic/api.py:986] failed (exitcode: 1)",
        "node1:71:99 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by peer",
        (
            "[rank1]:[E1130 15:22:20.1 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)"
        ),
        "/usr/bin/run.sh: line 3:  4711 Killed                  python train.py",
        "Killed",
        "train.sh: line 2: 77 Segmentation fault (core dumped) python train.py",
        "Fatal Python error: Segmentation fault",
        "double free or corruption (out)",
        "python3: can't open file '/srv/x.py': [Errno 2] No such file or directory",
        "bash: deepspeed: command not found",
        "loss: nan",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
)
def test_a_line_alone(line: str) -> None:
    assert told(ORDINARY + line + "\n" + ORDINARY) == [line]
    assert told("\x1b[31m" + line + "\x1b[0m") == ["\x1b[31m" + line + "\x1b[0m"]


TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/train.py", line 9, in main
    step(batch)
    ~~~~^^^^^^^
  File "/srv/train.py", line 4, in step
    raise KeyError(batch)
KeyError: 'x'
"""


def test_a_traceback_is_whole_and_what_follows_is_not_part_of_it() -> None:
    chained = (
        TRACEBACK
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + TRACEBACK
    )
    for text in (TRACEBACK, chained):
        wanted = [line for line in text.split("\n") if line]
        assert [line for line in told(ORDINARY + text + ORDINARY) if line] == wanted


def test_lines_of_another_process_within_a_traceback_that_torch_tags_are_left_out() -> None:
    tagged = [f"[rank0]: {line}" for line in TRACEBACK.splitlines()]
    mixed = [*tagged[:3], "step 11 loss 4.1", *tagged[3:], "[rank0]: and more of it", "step 12"]
    assert told("\n".join(mixed)) == [*tagged, "[rank0]: and more of it"]


@pytest.mark.parametrize(
    "name", ["cause_exception_group.log", "cause_chained.log", "cause_data_worker_error.log"]
)
def test_recorded_tracebacks_are_whole(name: str) -> None:
    text = (RECORDINGS / name).read_text(errors="backslashreplace")
    lines = [line for line in text.splitlines() if line.strip()]
    first = next(n for n, line in enumerate(lines) if "Traceback" in line)
    frames = [line for line in lines[first:] if line.lstrip(" |+").startswith('File "')]
    assert frames
    assert set(frames) <= set(told(text))


def test_overflow_lines_of_a_recorded_run() -> None:
    text = (RECORDINGS / "overflow_stage2.log").read_text()
    assert [line for line in told(text) if "OVERFLOW!" in line] == [
        line for line in text.splitlines() if "OVERFLOW!" in line
    ]
    assert len(told(text)) < text.count("\n") / 10
