"""The ways out of GPU memory fit the ds_config and the recipe in use."""

from __future__ import annotations

from typing import Any

import pytest
from logs import evidence, raised

from zlaunch.insight.diagnosis import diagnose
from zlaunch.insight.memory_ladder import gib

OOM = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")


def mends(**more: Any) -> tuple[str, ...]:
    return diagnose(evidence({0: OOM}, {0: 1}, **more)).causes[0].mends


def config(micro: int, steps: int, **zero: Any) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
        "zero_optimization": zero,
    }


@pytest.mark.parametrize(
    ("micro", "steps", "smaller", "more"), [(4, 4, 2, 8), (9, 2, 3, 6), (7, 1, 1, 7), (2, 3, 1, 6)]
)
def test_a_smaller_micro_batch_keeps_the_global_batch(
    micro: int, steps: int, smaller: int, more: int
) -> None:
    assert micro * steps == smaller * more
    first = mends(config=config(micro, steps, stage=2), recipe="zero2")[0]
    assert first == (
        f"--set train_micro_batch_size_per_gpu={smaller} "
        f"--set gradient_accumulation_steps={more}: the same global batch"
    )


def test_a_micro_batch_of_one_cannot_be_smaller() -> None:
    assert mends(config=config(1, 4), recipe="zero2")[0].startswith("activation checkpointing")


def test_auto_is_no_number() -> None:
    auto = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    assert mends(config=auto)[0].startswith("a smaller micro batch")


@pytest.mark.parametrize(
    ("recipe", "following"),
    [
        ("ddp", ["zero2", "zero3"]),
        ("zero1", ["zero2", "zero3"]),
        ("zero2", ["zero3", "zero2-offload"]),
        ("zero3", ["zero3-offload"]),
        ("zero2-offload", ["zero3-offload"]),
    ],
)
def test_the_next_recipes(recipe: str, following: list[str]) -> None:
    offered = [m for m in mends(config=config(4, 4), recipe=recipe) if m.startswith("--recipe")]
    assert offered == [f"--recipe {name}" for name in following]


@pytest.mark.parametrize(
    ("zero", "following"),
    [
        ({"stage": 0}, ["stage=2", "stage=3", "offload_optimizer.device=cpu"]),
        ({"stage": 2}, ["stage=3", "offload_optimizer.device=cpu"]),
        ({"stage": 3}, ["offload_optimizer.device=cpu", "offload_param.device=cpu"]),
        (
            {"stage": 3, "offload_optimizer": {"device": "cpu"}},
            ["offload_param.device=cpu"],
        ),
    ],
)
def test_a_ds_config_of_ones_own_is_set(zero: dict[str, Any], following: list[str]) -> None:
    offered = [m for m in mends(config=config(1, 1, **zero)) if m.startswith("--set")]
    assert offered == [f"--set zero_optimization.{what}" for what in following]


def test_pieces_are_told_where_much_is_reserved_but_not_in_use() -> None:
    def first(reserved: str) -> str:
        text = raised(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
            "total capacity of 80.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, "
            "this process has 79.00 GiB memory in use. Of the allocated memory 60.00 GiB is "
            f"allocated by PyTorch, and {reserved} is reserved by PyTorch but unallocated. If "
            "reserved but unallocated memory is large try setting "
            "PYTORCH_ALLOC_CONF=expandable_segments:True"
        )
        return diagnose(evidence({0: text}, {0: 1})).causes[0].mends[0]

    assert first("18.00 GiB").endswith("PYTORCH_ALLOC_CONF=expandable_segments:True")
    assert "expandable" not in first("512.00 MiB")


@pytest.mark.parametrize(
    ("text", "size"), [("2.00 GiB", 2), ("512.00 MiB", 0.5), ("0 bytes", 0), ("x", 0), ("", 0)]
)
def test_a_size(text: str, size: float) -> None:
    assert gib(text) == size
