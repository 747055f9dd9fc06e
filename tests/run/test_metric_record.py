"""Lines of metrics.jsonl."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.run.metrics import Metric, decode, encode

COUNTS = ("step", "total", "skipped", "gpu_memory", "gpu_memory_total", "rss")
OTHERS = (
    "epoch", "loss", "lr", "grad_norm", "loss_scale", "samples_per_second", "tokens_per_second",
    "step_seconds", "eval_loss", "gpu_utilization", "cpu",
)  # fmt: skip

metrics = st.builds(
    Metric,
    at=st.floats(0, 4e9),
    attempt=st.integers(0, 9),
    rank=st.integers(0, 9999),
    source=st.sampled_from(("deepspeed", "trainer", "accelerate", "print", "system")),
    overflow=st.none() | st.booleans(),
    **{name: st.none() | st.integers(0, 2**63 - 1) for name in COUNTS},
    **{name: st.none() | st.floats() for name in OTHERS},
)


@given(metrics)
def test_what_is_written_is_read(metric: Metric) -> None:
    line = encode(metric)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert repr(decode(line)) == repr(metric)  # nan is not equal to itself
    json.loads(line, parse_constant=pytest.fail)  # no NaN, no Infinity


def test_what_is_not_known_is_absent() -> None:
    line = encode(Metric(1.5, 0, 3, "print", step=7, loss=math.nan))
    assert line == b'{"at":1.5,"attempt":0,"rank":3,"source":"print","step":7,"loss":"nan"}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b'{"at":1.5,"attempt":0,"rank":3,"source":"pri',
        b'{"at":1.5,"attempt":0,"rank":3}',
        b'{"at":1.5,"attempt":0,"rank":"3","source":"print"}',
        b'{"at":1.5,"attempt":0,"rank":true,"source":"print"}',
        b'{"at":1.5,"attempt":0,"rank":3,"source":4}',
        b'{"at":1.5,"attempt":0,"rank":3,"source":"print","loss":"low"}',
        b'{"at":1.5,"attempt":0,"rank":3,"source":"print","step":1.5}',
        b'{"at":1e300,"attempt":0,"rank":3,"source":"print","step":1}',
        b'{"at":1.5,"attempt":0,"rank":3,"source":"print","step":99999999999999999999}',
        b'{"at":1.5,"attempt":0,"rank":3,"source":"print","overflow":1}',
        b'{"at":1.5,"attempt":0,"rank":3,"source":"print","loss":null}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_line_is_told(line: bytes) -> None:
    assert decode(line) is None


def test_later_fields_do_no_harm() -> None:
    line = b'{"at":1,"attempt":0,"rank":3,"source":"moon","phase":[1],"loss":"inf","lr":1}'
    assert decode(line) == Metric(1.0, 0, 3, "moon", loss=math.inf, lr=1.0)
