"""Which recipe is recommended, why the others do not fit, and what would help."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from zlaunch.dsconfig.recipes import load_recipe, recipe_names
from zlaunch.memory.activations import Workload
from zlaunch.memory.advice import Advice, advise, speed
from zlaunch.memory.estimate import Cluster
from zlaunch.memory.fit import Limits
from zlaunch.memory.guess import guess_shape
from zlaunch.memory.settings import read_settings
from zlaunch.memory.terms import total

GIB = 1024**3
SOURCES = {
    path.stem: path.read_text("utf-8")
    for path in (Path(__file__).parents[2] / "recipes").glob("*.toml")
}
RECIPES = [
    (name, read_settings(recipe.config if recipe.deepspeed else None, half=True))
    for name in recipe_names(SOURCES)
    for recipe in [load_recipe(name, SOURCES)]
]
ONE = Workload(1, 2048)
SEVEN = guess_shape(7_000_000_000)
SEVENTY = guess_shape(70_000_000_000)


def plan(gpus: int, work: Workload = ONE, **limits: int) -> Advice:
    return advise(RECIPES, SEVEN, Cluster(gpus), work, Limits(**{"gpu": 80 * GIB, **limits}))


def verdicts(advice: Advice) -> dict[str, bool]:
    return {verdict.recipe: verdict.fits for verdict in advice.verdicts}


def test_the_fastest_comes_first() -> None:
    names = [name for name, _ in sorted(RECIPES, key=lambda pair: speed(pair[1]))]
    assert names == [
        *("zero1", "zero2", "zero3", "zero2-offload", "zero3-offload", "zero3-nvme", "ddp")
    ]


def test_7b_on_one_gpu_of_80_gib() -> None:
    advice = plan(1)
    fits = verdicts(advice)
    assert not fits["zero3"] and not fits["zero2"] and not fits["ddp"]
    assert fits["zero2-offload"] and fits["zero3-offload"]
    assert advice.recommended == "zero2-offload"
    zero3 = next(v for v in advice.verdicts if v.recipe == "zero3")
    assert "optimizer moments 52.2 GiB" in zero3.reasons[0]
    assert zero3.margin < 0 and "2 such GPUs" in zero3.ways_out


def test_7b_on_8_gpus_of_80_gib() -> None:
    advice = plan(8)
    fits = verdicts(advice)
    assert [name for name, yes in fits.items() if not yes] == ["ddp"]
    assert advice.recommended == "zero1"


def test_host_memory_and_nvme_are_judged_where_they_are_known() -> None:
    advice = plan(1, host=64 * GIB)
    assert advice.recommended is None
    offload = next(v for v in advice.verdicts if v.recipe == "zero3-offload")
    assert "host memory" in offload.reasons[0] and "4 such nodes" in offload.ways_out
    assert verdicts(plan(8, nvme=50 * GIB))["zero3-nvme"] is False
    assert verdicts(plan(8, nvme=200 * GIB))["zero3-nvme"] is True


def test_activations_that_are_too_much_have_two_ways_out() -> None:
    advice = plan(8, Workload(64, 2048))
    zero3 = next(v for v in advice.verdicts if v.recipe == "zero3")
    assert "layers" in zero3.reasons[0]
    assert f"--micro-batch {zero3.largest_micro_batch}" in zero3.ways_out
    assert any("--checkpointing" in way for way in zero3.ways_out)


def test_buffers_for_nvme_that_are_too_small_are_named() -> None:
    nvme = next(v for v in plan(1).verdicts if v.recipe == "zero3-nvme")
    part = SEVEN.largest_tensor
    assert nvme.ways_out == (f"--set zero_optimization.offload_param.buffer_size={part}",)


def test_a_recipe_with_some_room_is_preferred_to_one_that_just_fits() -> None:
    roomy = plan(8)
    zero1 = next(v for v in roomy.verdicts if v.recipe == "zero1")
    assert plan(8, gpu=zero1.estimate.gpu).recommended == "zero2"
    only = advise([RECIPES[3]], SEVEN, Cluster(8), Workload(1, 2048), Limits(80 * GIB))
    assert only.recommended == RECIPES[3][0]


@pytest.mark.parametrize("samples", [1, 3])
def test_the_micro_batch_asked_for_is_the_one_judged(samples: int) -> None:
    for verdict in plan(8, Workload(samples, 2048)).verdicts:
        assert (verdict.margin >= 0) == (samples <= verdict.largest_micro_batch)


def test_nodes_count_as_gpus_do() -> None:
    work, limits = Workload(1, 2048), Limits(80 * GIB)
    one = advise(RECIPES, SEVEN, Cluster(16, 1), work, limits)
    two = advise(RECIPES, SEVEN, Cluster(8, 2), work, limits)
    assert [v.estimate.gpu for v in one.verdicts] == [v.estimate.gpu for v in two.verdicts]
    for alone, shared in zip(one.verdicts, two.verdicts, strict=True):
        assert total(shared.estimate.host) <= total(alone.estimate.host)
    assert replace(Cluster(8), nodes=2).ranks == 16


def judged(advice: Advice, work: Workload, cluster: Cluster, limits: Limits) -> list[str]:
    """Ways out that do not make the recipe fit, tried as they are said."""
    wrong = []
    by_name = dict(RECIPES)
    for verdict in advice.verdicts:
        for way in verdict.ways_out:
            settings, its_work, its_cluster = by_name[verdict.recipe], work, cluster
            if size := re.search(r"buffer_size=(\d+)", way):
                settings = replace(settings, param_buffer_size=int(size[1]))
            if samples := re.search(r"--micro-batch (\d+)", way):
                its_work = replace(its_work, micro_batch=int(samples[1]))
            if "--checkpointing" in way:
                its_work = replace(its_work, checkpointing=True)
            if gpus := re.search(r"(\d+) such GPUs", way):
                its_cluster = Cluster(int(gpus[1]))
            if nodes := re.search(r"(\d+) such nodes", way):
                its_cluster = Cluster(cluster.gpus, int(nodes[1]))
            found = advise([(verdict.recipe, settings)], SEVENTY, its_cluster, its_work, limits)
            if found.recommended is None:
                wrong.append(f"{verdict.recipe}: {way}")
    return wrong


@pytest.mark.parametrize("cluster", [Cluster(1), Cluster(8), Cluster(8, 2), Cluster(3)])
@pytest.mark.parametrize("host", [None, 256 * GIB, 1024 * GIB])
@pytest.mark.parametrize("work", [ONE, Workload(64, 2048), Workload(8, 4096, checkpointing=True)])
def test_a_way_out_is_a_whole_one(cluster: Cluster, host: int | None, work: Workload) -> None:
    """What is told to help does: everything that is limited fits with it."""
    limits = Limits(80 * GIB, host, 2048 * GIB)
    advice = advise(RECIPES, SEVENTY, cluster, work, limits)
    assert judged(advice, work, cluster, limits) == []
    assert any(verdict.ways_out for verdict in advice.verdicts)
