"""What ranks print of their training, line by line and in recordings, and what is none of it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.insight.deepspeed_lines import parse_line
from zlaunch.insight.loss_scale import LossScaleState, observe
from zlaunch.insight.metric_lines import MetricLines
from zlaunch.insight.metrics import ReaderState, Told, flush, read
from zlaunch.insight.metrics_deepspeed import read_deepspeed
from zlaunch.insight.metrics_told import LONGEST
from zlaunch.insight.time_left import seconds_left

RECORDINGS = Path(__file__).parents[1] / "recordings"
MOST = 1_000_000


def told(chunks: Iterable[bytes]) -> list[Told]:
    """All that a rank tells with what it writes, chunk by chunk."""
    lines, state, found = MetricLines(), ReaderState(), []
    pieces = [piece for chunk in chunks for piece in lines.feed(chunk, MOST)]
    for piece in (*pieces, *lines.finish()):
        state, more = read(state, piece.decode(errors="replace"))
        found += more
    return [*found, *flush(state)[1]]


def of_line(text: str) -> list[dict[str, Any]]:
    return [dict(one.fields) for one in told([f"{text}\n".encode()])]


def recorded(name: str) -> bytes:
    return (RECORDINGS / f"{name}.log").read_bytes()


MEGATRON = (
    " iteration      100/    1000 | consumed samples:         6400 | elapsed time per iteration "
    "(ms): 212.5 | learning rate: 1.500E-04 | global batch size:    64 | lm loss: 2.312345E+00 | "
    "loss scale: 65536.0 | grad norm: 1.234 | number of skipped iterations:   1 | "
    "number of nan iterations:   0 |"
)
NEOX = (
    " samples/sec: 25.312 | iteration      100/  320000 | elapsed time per iteration (ms): 1264.2 |"
    " learning rate: 6.000E-04 | approx flops per GPU: 50.2TFLOPS | lm_loss: 7.120000E+00 | "
    "loss scale: 4096.0 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)

LINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("step 12 loss 2.3", {"step": 12, "loss": 2.3}),
    ("loss=2.3", {"loss": 2.3}),
    ("loss: 2.31", {"loss": 2.31}),
    ("loss 2.31", {"loss": 2.31}),
    ("train_loss: 0.5", {"loss": 0.5}),
    ("LOSS: 2", {"loss": 2.0}),
    ("Loss = 2", {"loss": 2.0}),
    ("Step [10/100], Loss: 0.12", {"step": 10, "total": 100, "loss": 0.12}),
    (
        "Epoch [2/5], Step [10/100], Loss: 0.1234",
        {"epoch": 2.0, "step": 110, "total": 500, "loss": 0.1234},
    ),
    (
        "epoch 1 | step 5 | loss 1.2 | lr 1e-4",
        {"epoch": 1.0, "step": 5, "loss": 1.2, "lr": 0.0001},
    ),
    ("step 3 loss nan", {"step": 3, "loss": math.nan}),
    ("loss: inf", {"loss": math.inf}),
    ("step: 3, loss: -inf", {"step": 3, "loss": -math.inf}),
    (  # examples/train_gpt.py
        "step 12/100 loss 2.300 lr 1.0e-03 tokens/s 900",
        {"step": 12, "total": 100, "loss": 2.3, "lr": 1e-3, "tokens_per_second": 900.0},
    ),
    (  # nanoGPT
        "iter 10: loss 2.3012, time 123.50ms, mfu 3.20%",
        {"step": 10, "loss": 2.3012, "step_seconds": 0.1235},
    ),
    (
        "step 0: train loss 4.2874, val loss 4.2823",
        {"step": 0, "loss": 4.2874, "eval_loss": 4.2823},
    ),
    (
        "step    1/100 | loss 5.12 | grad norm 0.8 | lr 1e-4 | 12,345 tok/s",
        {
            "step": 1,
            "total": 100,
            "loss": 5.12,
            "grad_norm": 0.8,
            "lr": 1e-4,
            "tokens_per_second": 12345.0,
        },
    ),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.345", {"epoch": 1.0, "loss": 2.345}),
    ("step=12 loss=tensor(2.3000, device='cuda:0')", {"step": 12, "loss": 2.3}),
    (  # torchtitan
        "\x1b[31mstep:  1  \x1b[32mloss:  8.1234  \x1b[38mgrad_norm:  1.2 \x1b[34mtps: 1,234",
        {"step": 1, "loss": 8.1234, "grad_norm": 1.2, "tokens_per_second": 1234.0},
    ),
    (  # fairseq
        "| epoch 001:    100 / 1000 loss=12.3, nll_loss=11.2, ppl=2400.1, lr=0.0005, gnorm=2.1",
        {"epoch": 1.0, "loss": 12.3, "lr": 0.0005, "grad_norm": 2.1},
    ),
    (  # timm
        "Train: 0 [   0/1251 (  0%)]  Loss: 6.95 (6.95)  Time: 3.2s,  40.00/s  LR: 1.000e-05",
        {"loss": 6.95, "step_seconds": 3.2, "lr": 1e-5},
    ),
    ("[rank0]: loss: 2.3", {"loss": 2.3}),
    ("12/01/2026 00:20:00 - INFO - __main__ - Step: 10, Loss: 2.25", {"step": 10, "loss": 2.25}),
    ("\x1b[32mstep 5\x1b[0m \x1b[1mloss\x1b[0m: 2.5", {"step": 5, "loss": 2.5}),
    ("step 5 loss 2.1 loss_scale 65536.0", {"step": 5, "loss": 2.1, "loss_scale": 65536.0}),
    ("{'loss': 2.428433895111084, 'step': 0}", {"loss": 2.428433895111084, "step": 0}),
    ("{'loss': nan, 'step': 1}", {"loss": math.nan, "step": 1}),
    ('{"train_loss": "2.4", "lr": 1e-4, "step": 7.0}', {"loss": 2.4, "lr": 1e-4, "step": 7}),
    (
        "{'loss': tensor(2.3, device='cuda:0'), 'grad_norm': np.float64(0.5)}",
        {"loss": 2.3, "grad_norm": 0.5},
    ),
    (
        "{'loss': 2.3, 'grad_norm': 1.9, 'learning_rate': 4e-05, 'epoch': 0.5}",
        {"loss": 2.3, "grad_norm": 1.9, "lr": 4e-05, "epoch": 0.5},
    ),
    (
        "{'loss': '2.3', 'grad_norm': 'nan', 'learning_rate': '4e-05', 'epoch': '0.5'}",
        {"loss": 2.3, "grad_norm": math.nan, "lr": 4e-05, "epoch": 0.5},
    ),
    (
        "{'eval_loss': 1.5, 'eval_runtime': 0.1, 'eval_samples_per_second': 99.0, 'epoch': 1.0}",
        {"eval_loss": 1.5, "epoch": 1.0},
    ),
    (
        "{'train_runtime': 5.2, 'train_samples_per_second': 15.4, 'train_loss': 2.1, 'epoch': 2.0}",
        {"samples_per_second": 15.4, "epoch": 2.0},
    ),
    (
        "Epoch 1:  12%|█▏        | 12/100 [00:05<00:39,  2.50it/s, loss=2.31]",
        {"step": 12, "total": 100, "step_seconds": 0.4, "loss": 2.31, "epoch": 1.0},
    ),
    (
        "Epoch 2/3:  12%|#2        | 12/100 [00:05<00:39,  1.50s/it, loss=2.31, lr=1e-4]",
        {
            "step": 112,
            "total": 300,
            "step_seconds": 1.5,
            "loss": 2.31,
            "lr": 1e-4,
            "epoch": 2.0,
        },
    ),
    (
        "Epoch [2/3]:  12%|#2        | 12/100 [00:05<?, ?it/s]",
        {"step": 112, "total": 300, "epoch": 2.0},
    ),
    ("Epochs:  33%|#   | 1/3 [00:05<?, ?it/s, loss=2.5]", {"epoch": 1.0, "loss": 2.5}),
    (
        "]  5%|#  | 1/20 [00:00<?, ?it/s]Epoch 1:  20%|#  | 2/10 [00:00<?, ?it/s, loss=2.5]",
        {"step": 2, "total": 10, "epoch": 1.0, "loss": 2.5},
    ),
    (
        "Epoch 0:  50%|█████     | 5/10 [00:00<00:00, 20.00it/s, v_num=0, train_loss_step=2.50]",
        {"step": 5, "total": 10, "step_seconds": 0.05, "loss": 2.5, "epoch": 0.0},
    ),
    ("loss: 2.5:  10%|█   | 1/10 [00:00<?, ?it/s]", {"step": 1, "total": 10, "loss": 2.5}),
    ("Training:  10%|█   | 1/10 [00:00<?, ?it/s]", {"step": 1, "total": 10}),
    (
        MEGATRON,
        {
            "step": 100,
            "total": 1000,
            "lr": 1.5e-4,
            "loss": 2.312345,
            "loss_scale": 65536.0,
            "grad_norm": 1.234,
            "step_seconds": 0.2125,
            "skipped": 1,
            "overflow": True,
        },
    ),
    (
        NEOX,
        {
            "step": 100,
            "total": 320000,
            "lr": 6e-4,
            "loss": 7.12,
            "loss_scale": 4096.0,
            "samples_per_second": 25.312,
            "step_seconds": 1.2642,
            "skipped": 0,
        },
    ),
)


@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line[:40] for line, _ in LINES])
def test_a_line(line: str, expected: dict[str, Any]) -> None:
    (fields,) = of_line(line)
    assert repr(sorted(fields.items())) == repr(sorted(expected.items()))  # nan is not equal to nan


@pytest.mark.parametrize(
    "line",
    [
        "loss of 2 nodes",
        "loss: 2 nodes are gone",
        "the loss 2 nodes in step 3",
        "packet loss: 0.5",
        "weight loss: 2.3kg",
        "step 1 loss 2.3%",
        "step 1 loss: 1,234.5",
        "mean loss 1.2 over 60 steps",
        "loss 5.1 at the first step, 2.3 at the last",
        "trained with DDP on 2 workers, last loss 2.331",
        "http://host/?loss=2.3&step=1",
        "see https://host/a/loss=2.3 for step 4",
        "python train.py --loss=2.3 --step 4",
        "python train.py --step 4 --loss 2.3",
        "Namespace(lr=0.1, loss=2.0, step=4)",
        "Config(step=4, loss=2.0)",
        "    loss = 2.3",
        "        self.loss = 0.0",
        "[rank1]:     loss = 2.5",
        '    "loss": 0.5,',
        "    loss: 1.0",
        "ValueError: loss: 2.3 is not finite",
        "step 5: kl_loss=0.3",
        "step 5: loss_weight=0.3",
        "[2026-11-30 01:48:56,598] [INFO] [config.py:678:print]   loss_scale ........... 1.0",
        "float16_config ... enabled=True auto_cast=False loss_scale=0.0 loss_scale_window=6",
        "{'fp16': {'enabled': True, 'loss_scale': 0, 'loss_scale_window': 1000}}",
        "{'loss': 'mse', 'epoch': 3}",
        "loss_fn = CrossEntropyLoss()",
        "Loading checkpoint shards:  50%|█████     | 1/2 [00:01<00:01,  1.00s/it]",
        "Epoch:  33%|###   | 1/3 [00:01<00:01,  1.00s/it]",
        "Map:  10%|█         | 100/1000 [00:00<00:01, 900.00 examples/s]",
        "Generating train split:  10%|█   | 100/1000 [00:00<00:01, 900.00 examples/s]",
        "Evaluating:  10%|█         | 1/10 [00:00<00:01, 9.00it/s, loss=2.3]",
        "  0%|          | 0/20 [00:00<?, ?it/s]",  # whose, is not known yet
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 8, reducing to 4",
    ],
)
def test_no_metric(line: str) -> None:
    assert of_line(line) == []


def test_the_trainer_and_its_bar() -> None:
    found = told([recorded("metrics_trainer")])
    assert {one.source for one in found} == {"trainer"}
    losses = [(one.fields["step"], one.fields["loss"]) for one in found if "loss" in one.fields]
    assert losses == [(5, 1.904), (10, 1.422), (15, 1.509), (20, 1.29)]
    evaluations = [
        (one.fields["step"], one.fields["eval_loss"]) for one in found if "eval_loss" in one.fields
    ]
    assert evaluations == [(10, 0.9889), (20, 1.617)]
    assert all(one.fields["total"] == 20 for one in found)


def test_the_trainer_without_a_bar() -> None:
    found = told([recorded("metrics_trainer_no_bar")])
    assert [one.fields["loss"] for one in found if "loss" in one.fields] == [
        1.545, 1.015, 1.726, 0.825,
    ]  # fmt: skip
    assert not any("step" in one.fields for one in found)


def test_a_bar_with_a_postfix() -> None:
    found = told([recorded("metrics_tqdm")])
    steps = [one.fields["step"] for one in found if "step" in one.fields]
    assert steps == sorted(steps) and {*range(31), *range(88, 101)} >= {*steps} >= {1, 25, 99, 100}
    assert {one.fields.get("total") for one in found if "step" in one.fields} == {200}
    assert found[-1].fields["loss"] == 0.156


def test_a_bar_whose_total_was_announced() -> None:
    """As Accelerate's examples do."""
    text = "INFO - __main__ -   Total optimization steps = 1,200\n"
    text += "\r  0%|          | 3/1200 [00:01<?, ?it/s]\r  0%|    | 1/7 [00:01<?, ?it/s]"
    assert told([text.encode()]) == [Told("accelerate", {"step": 3, "total": 1200})]


def test_epochs_of_bars_count_through() -> None:
    bars = (f"Epoch {e}:  50%|#  | 5/10 [00:01<00:01, 5.00it/s, loss=2.5]\n" for e in (0, 1, 2))
    found = told([line.encode() for line in bars])
    assert [(one.fields["step"], one.fields["total"]) for one in found] == [
        (5, 10), (15, 20), (25, 30),
    ]  # fmt: skip


def test_skipped_iterations_add_up() -> None:
    later = MEGATRON.replace("  100/", "  200/").replace(
        "skipped iterations:   1", "skipped iterations:   3"
    )
    found = told([f"{MEGATRON}\n{later}\n".encode()])
    assert [one.fields["skipped"] for one in found] == [1, 4]


@pytest.mark.parametrize("name", ["metrics_trainer", "metrics_tqdm", "cause_ds_no_checkpoint"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_where_chunks_are_cut_does_not_matter(name: str, size: int) -> None:
    """Save that a bar with something behind it may be told twice."""
    data = recorded(name)
    pieces = (data[i : i + size] for i in range(0, len(data), size))
    assert list(dict.fromkeys(map(repr, told(pieces)))) == list(
        dict.fromkeys(map(repr, told([data])))
    )


def test_a_bar_is_taken_before_the_next_state_of_it() -> None:
    lines = MetricLines()
    bar = b"Training:  10%|#   | 1/10 [00:00<?, ?it/s]"
    assert lines.feed(b"\r" + bar + b"  ", MOST) == [bar]
    assert lines.feed(b"\r", MOST) == []
    assert lines.feed(bar.replace(b"1/10", b"2/10"), MOST) == [bar.replace(b"1/10", b"2/10")]
    assert lines.finish() == []


def test_of_many_the_newest_are_taken() -> None:
    data = b"".join(b"step %d loss 0.5\n" % n for n in range(1000))
    assert MetricLines().feed(data, 2) == [b"step 998 loss 0.5", b"step 999 loss 0.5"]
    assert MetricLines().feed(data, 0) == [b"step 999 loss 0.5"]


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_recorded_overflows_of_deepspeed(stage: int) -> None:
    state, found = LossScaleState(), []
    for text in recorded(f"overflow_stage{stage}").decode().split("\n"):
        line = parse_line(text)
        if line is not None:
            before = state
            state, _ = observe(state, 0, line)
            found.append(read_deepspeed(line, before, state))
    fields = [one.fields for one in found if one is not None]
    skips = [one["skipped"] for one in fields if one.get("overflow")]
    assert skips == list(range(1, len(skips) + 1)) and len(skips) > 5
    reports = [one for one in fields if "lr" in one]
    assert reports[0]["lr"] == 0.001
    assert [one["step"] for one in reports] == sorted({one["step"] for one in reports})
    assert any(one.get("samples_per_second", 0) > 100 and one["step"] >= 4 for one in fields)
    assert fields[-1].get("skipped", skips[-1]) == state.skipped


def test_no_other_recording_has_more_than_its_losses() -> None:
    """Tracebacks, dumps of configurations and the like tell nothing."""
    logs = [path for path in RECORDINGS.glob("*.log") if not path.name.startswith("metrics_")]
    assert len(logs) > 50
    for path in logs:
        data = path.read_bytes()
        losses = len(re.findall(rb"'loss': |step [0-9]+/[0-9]+ loss ", data))
        assert len(told([data])) <= losses, path.name


PIECES = st.sampled_from(
    (
        *(line for line, _ in LINES), "loss", "Loss", "step", "epoch", "=", ":", " ", "  ", "1",
        ".", "2.3", "1e-4", "nan", "{", "}", "'", '"', "[", "]", "(", ")", "%|", "|", "/", "\r",
        ", ", "it/s", "tensor(", "iteration", "Total optimization steps = ", "\x1b[A", "é", "\x00",
        "9" * 400, "'epoch': ", "1e999",
    )
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=40).map("".join), max_size=5))
def test_reading_never_raises(texts: list[str]) -> None:
    state = ReaderState()
    for text in texts:
        state, found = read(state, text)
        for one in found:
            assert set(map(type, one.fields.values())) <= {int, float, bool}
    assert told(["\n".join(texts).encode()]) is not None


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    told([data, b"loss" + data, data + b"%|" + data])


@pytest.mark.parametrize(
    "unit",
    [
        "loss ", "loss: 1 ", "loss=1e", "step ", "step 1/", "epoch 1 of ", "{'", "{'loss': ", "(",
        "a(", " ", "1", "1.", "%|", "0%|a| 1/2 [", "] ", "tensor(", "'a': 1, ", "iteration 1/ 1 | ",
        "lr: 1 | ", "samples/s ", "\x1b[", "loss_", "e", "Total optimization steps = 1", "1,",
    ],
)  # fmt: skip
def test_no_line_takes_long(unit: str) -> None:
    """The worst takes some 30 ms; what grows with the square or worse takes minutes."""
    line = (unit * LONGEST)[: 16 * LONGEST]
    begun = time.process_time()
    for text in (line, f"step 1 loss 0.5 {line}", f"{{'loss': 1, {line}", f"{line}loss=0.5"):
        read(ReaderState(), text)
    assert time.process_time() - begun < 5


def test_time_left() -> None:
    assert seconds_left(100, [(0.0, 10), (10.0, 20)], 10.0) == 80.0
    assert seconds_left(100, [(0.0, 10), (10.0, 20)], 15.0) == 75.0
    assert seconds_left(20, [(0.0, 10), (10.0, 20)], 99.0) == 0.0
    assert seconds_left(100, [(0.0, 10)], 10.0) is None
    assert seconds_left(100, [(0.0, 10), (10.0, 10)], 10.0) is None
