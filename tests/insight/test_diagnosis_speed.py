"""What a rank printed is read in a time that grows as its length does, whatever it is."""

from __future__ import annotations

import time

import pytest
from logs import evidence, raised

from zlaunch.insight.diagnosis import diagnose

SIZE = 1 << 20
TEXTS = {
    "steps": "{'loss': 0.8987, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.37}\n",
    "deepspeed": "[2026-11-30 01:48:57,473] [INFO] [logging.py:123:log_dist] [Rank 0] step=4\n",
    "a bar": " 12%|####      | 123/1000 [00:12<01:22, 9.8it/s]\r",
    "one line": "x",
    "errors": "ERROR: something Error: x not found module corrupt (): *** nan loss\n",
    "groups": "  + Exception Group Traceback (most recent call last):\n  +-+---- 1 ----\n",
    "NCCL": raised("RuntimeError: " + "NCCL " * 800),
    "ZeRO": raised("AssertionError: " + "ZeRO " * 800),
    "tracebacks": raised("ValueError: x"),
    "dots": "a." * 2000 + ": x\n",
    "escapes": "\x1b]" * 2000 + "\n",
    "watchdog": "[rank0]:[E1130 01:52:51.5 X.cpp:689] [Rank 0] Watchdog caught collective "
    "operation "
    "timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=20000) ran\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_megabyte(name: str) -> None:
    """Four times as much takes four times as long, not sixteen times."""
    whole, quarter = (_seconds(TEXTS[name], size) for size in (SIZE, SIZE // 4))
    assert whole < 9 * quarter + 0.1


def _seconds(unit: str, size: int) -> float:
    """Of the processor's time, the best of three: the machine may be busy."""
    made = evidence({0: (unit * (size // len(unit) + 1))[:size]}, {0: 1})
    took = []
    for _ in range(3):
        start = time.thread_time()
        diagnose(made)
        took.append(time.thread_time() - start)
    return min(took)
