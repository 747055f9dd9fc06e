"""What only speaks of failures is none."""

from __future__ import annotations

import pytest
from logs import evidence, raised, reading

from zlaunch.insight.diagnosis import diagnose

TALK = """\
we handle CUDA out of memory by halving the batch
INFO: retry on torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
  --on-oom {retry,raise}   what to do when CUDA out of memory. Tried to allocate
note: ValueError: is what this raises where a row is empty
see https://example.org/errors#ModuleNotFoundError for No module named 'x'
NCCL WARN is shown with NCCL_DEBUG=WARN; Connection closed by peer would follow
the watchdog would say: collective operation timeout
loss: nanmean of 3.2, info: loss infinity norm 2.0
print("Traceback")
usage: this tool prints usage: lines
error: 0 of 100 samples were skipped
Address already in use? no, port 29500 is free
No space left on device is what we guard against (12% used)
Segmentation fault tolerance: on
double free lunch; corrupted rows: 0
address of Fatal Python error handlers: none
terminate called after 3 epochs
killed by signal: none
loading module transformers
file not found: skipped, 3 of them
Permission denied counters: 0
wandb: Tracking run with wandb version 0.17
[2026-11-30 01:48:45,578] [WARNING] [x.py:1:f] FileNotFoundError: cache, will be made
"""
HANDLED = (
    raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    + "\n".join(f"step {n} loss 3.2" for n in range(60))
    + "\n"
)


@pytest.mark.parametrize("line", [*TALK.splitlines(), TALK])
def test_talk_is_no_cause(line: str) -> None:
    stopped = diagnose(evidence({0: line}, {0: {"signal": 15, "stopped": True}}))
    assert (stopped.causes, stopped.noticed) == ((), ())
    failed = diagnose(evidence({0: line}, {0: 3}))
    assert [cause.code for cause in failed.causes] == ["exit-code"]
    assert diagnose(reading(line).evidence).causes == ()


def test_what_was_handled_is_no_cause_of_what_came_later() -> None:
    later = HANDLED + raised("ValueError: row 17 is empty")
    assert [c.code for c in diagnose(evidence({0: later}, {0: 1})).causes] == ["exception"]
    killed = diagnose(evidence({0: HANDLED}, {0: {"signal": 9}}))
    assert [c.code for c in killed.causes] == ["killed"]
    assert diagnose(reading(HANDLED).evidence).causes == ()
    assert diagnose(evidence({0: HANDLED}, {0: 0})).causes == ()


def test_what_python_ignores_at_exit_is_no_cause() -> None:
    words = (
        raised("ValueError: row 17 is empty")
        + "Exception ignored in: <function Pool.__del__ at 0x7f>\n"
        + raised("AttributeError: 'NoneType' object has no attribute 'dumps'")
        + "[rank0]:[W1130 15:18:53.5 ProcessGroupNCCL.cpp:1575] Warning: WARNING: "
        "destroy_process_group() was not called before program exit\n"
    )
    found = diagnose(evidence({0: words}, {0: 1}))
    assert [cause.title for cause in found.causes] == ["ValueError: row 17 is empty"]


def test_a_usage_that_was_asked_for_is_no_error() -> None:
    words = "usage: train.py [-h] [--lr LR]\n\noptions:\n  --lr LR  learning rate\n"
    assert diagnose(evidence({0: words}, {0: 0})).causes == ()
    assert diagnose(reading(words).evidence).causes == ()


def test_numbers_that_are_not_ranks_are_no_tags() -> None:
    text = "\n".join(f"{n}: epoch" for n in range(3)) + "\nWarning: x\nINFO: y\n" * 10
    assert list(reading(text).evidence.words) == [0]


@pytest.mark.parametrize(
    "message",
    [
        "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://api.example/x",
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://x.example",
        "socket.gaierror: [Errno -2] Name or service not known",
        "IndexError: list index out of range",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "TypeError: '>' not supported between instances of 'str' and 'int'",
        "ValueError: invalid literal for int() with base 10: '0a'",
        "subprocess.CalledProcessError: Command '['make']' returned non-zero exit status 2.",
        "TimeoutError: Socket Timeout",
    ],
)
def test_an_error_of_the_users_own_is_not_taken_for_a_librarys(message: str) -> None:
    cause = diagnose(evidence({0: raised(message), 1: ""}, {0: 1, 1: 0})).causes[0]
    assert cause.code == "exception"
    assert cause.ranks == (0,)
