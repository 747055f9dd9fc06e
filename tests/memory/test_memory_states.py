"""States by hand, term by term: a model of a million parameters in one tensor and some norms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zlaunch.memory.activations import Workload
from zlaunch.memory.estimate import Cluster, estimate
from zlaunch.memory.host import host_terms, nvme_terms, rounded
from zlaunch.memory.settings import Settings, is_half, read_settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.states import constant_states, gradients_for_step, new_gradients
from zlaunch.memory.terms import Term, total

P = 1_000_000
SHAPE = ModelShape(
    name="hand",
    source="",
    kind="decoder",
    tensors=((900_000, 1), (1_000, 100)),
    layers=2,
    hidden=100,
    heads=2,
    kv_heads=2,
    head_dim=50,
    intermediate=400,
    vocab=9_000,
)
WORK = Workload(1, 16)


def sizes(terms: tuple[Term, ...]) -> dict[str, int]:
    return {term.name: term.size for term in terms}


def ds(stage: int, **changes: object) -> Settings:
    return replace(Settings(stage=stage), **changes)  # type: ignore[arg-type]


def test_stage_0_keeps_16_bytes_and_20_in_the_step() -> None:
    assert total(constant_states(SHAPE, ds(0), 4)) == (2 + 4 + 8) * P
    assert sizes(gradients_for_step(SHAPE, ds(0), 4)) == {
        "gradients": 2 * P,
        "gradients in fp32": 4 * P,
    }


@pytest.mark.parametrize("stage", [1, 2])
def test_stages_1_and_2_split_the_optimizer(stage: int) -> None:
    assert sizes(constant_states(SHAPE, ds(stage), 4)) == {
        "parameters": 2 * P,
        "fp32 weights": P,
        "optimizer moments": 2 * P,
    }
    assert sizes(gradients_for_step(SHAPE, ds(stage), 4)) == {
        "gradients": P // 2,
        "flattened gradients": P // 2,
        "gradients in fp32": P,
    }


def test_stage_2_splits_the_gradients_and_stage_1_only_where_it_overlaps() -> None:
    assert new_gradients(SHAPE, ds(2), 4) == P // 2
    assert new_gradients(SHAPE, ds(1, overlap=True), 4) == P // 2
    assert new_gradients(SHAPE, ds(1), 4) == 2 * P


def test_stage_3_splits_all_but_small_tensors() -> None:
    assert sizes(constant_states(SHAPE, ds(3, persistence=5_000), 4)) == {
        "parameters": P // 2,
        "small parameters, kept whole": 2 * 100_000,
        "fp32 weights": P,
        "optimizer moments": 2 * P,
        "gradients": P // 2,
    }


def test_stage_3_steps_one_sub_group_after_the_other() -> None:
    step = gradients_for_step(SHAPE, ds(3, sub_group=100_000), 4)
    assert sizes(step) == {"flattened gradients": 200_000, "gradients in fp32": 400_000}


def test_fp32_keeps_master_weights_at_every_stage_of_zero() -> None:
    kept = {s: sizes(constant_states(SHAPE, ds(s, half=False), 2)) for s in (0, 1, 2, 3)}
    assert [kept[s].get("fp32 weights", 0) for s in (0, 1, 2, 3)] == [0, 2 * P, 2 * P, 2 * P]
    assert kept[3]["parameters"] == 2 * P


def test_gradients_wait_in_fp32_where_the_config_says_so() -> None:
    config = {"zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"}}
    settings = read_settings(config, half=True)
    assert new_gradients(SHAPE, settings, 4) == P
    assert "gradients in fp32" not in sizes(gradients_for_step(SHAPE, settings, 4))


def test_ddp_keeps_everything_in_fp32() -> None:
    found = estimate(SHAPE, Settings(deepspeed=False), Cluster(2), WORK)
    step = next(phase for phase in found.phases if phase.name == "optimizer step")
    states = sizes(step.terms)
    assert states["parameters"] == states["gradients"] == states["DDP's buckets"] == 4 * P
    assert states["optimizer moments"] == 8 * P
    assert states["AdamW's square roots"] == 4 * P


def test_the_optimizer_on_the_cpu() -> None:
    settings = ds(2, optimizer="cpu", accumulation=4)
    assert sizes(constant_states(SHAPE, settings, 4)) == {"parameters": 2 * P}
    assert gradients_for_step(SHAPE, settings, 4) == ()
    node = sizes(host_terms(SHAPE, settings, 2, 4))  # 2 of 4 ranks are on this node
    assert node["fp32 weights"] == 2 * P
    assert node["optimizer moments"] == 4 * P
    assert node["gradients in fp32"] == 2 * P
    assert node["gradients"] == P  # of earlier micro steps
    assert node["staging for the GPU"] == P + 2 * 2 * 900_000


def test_everything_on_the_cpu() -> None:
    settings = ds(3, optimizer="cpu", params="cpu", persistence=0)
    assert constant_states(SHAPE, settings, 1) == ()
    node = sizes(host_terms(SHAPE, settings, 1, 1))
    assert node["parameters"] == node["gradients"] == 2 * P
    assert total(host_terms(SHAPE, settings, 1, 1)) - node["worker processes"] == (
        (4 + 8 + 4 + 2 + 2) * P + rounded(2 * P) - 2 * P
    )


def test_everything_on_nvme() -> None:
    settings = ds(3, optimizer="nvme", params="nvme", max_in_cpu=100_000, param_buffer_size=10)
    disk = sizes(nvme_terms(SHAPE, settings, 1, 1))
    assert disk == {
        "fp32 weights": 4 * P,
        "optimizer moments": 8 * P,
        "gradients in fp32": 4 * P,
        "parameters": 2 * 900_000,
    }
    node = sizes(host_terms(SHAPE, settings, 1, 1))
    assert node["parameters"] == 200_000
    assert node["optimizer's swap buffers"] == 4 * 4 * P
    assert node["parameters' swap buffers"] == 2 * 5 * 10


def test_pinned_memory_comes_in_powers_of_two() -> None:
    assert [rounded(n) for n in (0, 1, 3, 4, 5, 1025)] == [0, 1, 4, 4, 8, 2048]
    loose = ds(3, optimizer="cpu")
    pinned = replace(loose, optimizer_pinned=True)
    more = total(host_terms(SHAPE, pinned, 1, 1)) - total(host_terms(SHAPE, loose, 1, 1))
    assert more == rounded(2 * P) - 2 * P + rounded(4 * P) - 4 * P


def test_settings_are_deepspeeds_defaults_where_the_config_is_silent_or_auto() -> None:
    config = {"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}
    assert read_settings(config, half=True) == Settings(stage=3, overlap=True)
    assert not read_settings({"zero_optimization": {"stage": 2}}, half=True).overlap
    assert read_settings({}, half=True).stage == 0


def test_half_precision_is_read_from_the_config() -> None:
    assert is_half({"bf16": {"enabled": True}}) and is_half({"fp16": {"enabled": "auto"}})
    assert not is_half({"fp16": {"enabled": False}}) and not is_half({})


@pytest.mark.parametrize(
    ("optimizer", "kept"),
    [
        ({"type": "AdamW"}, 8),
        ({"type": "Lion"}, 4),
        ({"type": "SGD"}, 0),
        ({"type": "SGD", "params": {"momentum": 0.9}}, 4),
        ({"type": "SomethingElse"}, 8),
        ({}, 8),
    ],
)
def test_moments_by_optimizer(optimizer: dict[str, object], kept: int) -> None:
    assert read_settings({"optimizer": optimizer}, half=True).moments == kept
