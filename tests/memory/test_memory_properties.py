"""What holds for every model and every cluster."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.memory.activations import Workload
from zlaunch.memory.estimate import Cluster, estimate
from zlaunch.memory.fit import largest_micro_batch
from zlaunch.memory.guess import guess_shape
from zlaunch.memory.settings import Settings
from zlaunch.memory.states import constant_states, new_gradients
from zlaunch.memory.terms import total

parameters = st.integers(1_000_000, 500_000_000_000)
ranks = st.integers(2, 512)
ways = st.builds(
    Settings,
    stage=st.integers(0, 3),
    half=st.booleans(),
    accumulation=st.integers(1, 4),
    overlap=st.booleans(),
    contiguous=st.booleans(),
    optimizer=st.sampled_from(["none", "cpu"]),
    optimizer_pinned=st.booleans(),
).map(lambda s: s if s.stage else replace(s, optimizer="none"))
works = st.builds(
    Workload,
    st.integers(1, 64),
    st.integers(1, 4096),
    st.booleans(),
    st.sampled_from(["eager", "sdpa"]),
)


@given(parameters)
def test_a_guess_has_exactly_the_parameters_asked_for(count: int) -> None:
    assert guess_shape(count).parameters == count


@given(parameters, ways, ranks, works)
@settings(max_examples=60, deadline=None)
def test_more_gpus_never_need_more_of_each(
    count: int, way: Settings, gpus: int, work: Workload
) -> None:
    shape = guess_shape(count)
    some = estimate(shape, way, Cluster(gpus), work)
    more = estimate(shape, way, Cluster(2 * gpus), work)
    assert more.gpu <= some.gpu


@given(parameters, st.booleans(), ranks)
@settings(max_examples=60, deadline=None)
def test_a_higher_stage_never_keeps_more(count: int, half: bool, gpus: int) -> None:
    shape = guess_shape(count)
    stages = [Settings(stage=s, half=half, persistence=0) for s in (1, 2, 3)]
    kept = [total(constant_states(shape, s, gpus)) + new_gradients(shape, s, gpus) for s in stages]
    slack = 64 * 16
    assert kept[1] <= kept[0] + slack
    assert kept[2] <= kept[1] + slack


@given(parameters, ways, ranks, works)
@settings(max_examples=60, deadline=None)
def test_sums_are_their_parts(count: int, way: Settings, gpus: int, work: Workload) -> None:
    found = estimate(guess_shape(count), way, Cluster(gpus), work)
    assert found.gpu == total(found.gpu_terms)
    for phase in found.phases:
        groups = ("states", "buffers", "activations", "overhead")
        assert phase.size == sum(phase.of(group) for group in groups)
        assert all(term.size > 0 for term in phase.terms)
        assert len({term.name for term in phase.terms}) == len(phase.terms)
        assert phase.size <= found.peak.size


@given(parameters, ways, works)
@settings(max_examples=30, deadline=None)
def test_the_largest_micro_batch_fits_and_one_more_does_not(
    count: int, way: Settings, work: Workload
) -> None:
    shape, cluster, card = guess_shape(count), Cluster(8), 80 * 1024**3
    largest = largest_micro_batch(shape, way, cluster, work, card)
    if largest:
        assert estimate(shape, way, cluster, replace(work, micro_batch=largest)).gpu <= card
    more = replace(work, micro_batch=largest + 1)
    assert largest >= 1 << 16 or estimate(shape, way, cluster, more).gpu > card


@given(parameters, ways, works)
@settings(max_examples=30, deadline=None)
def test_checkpointing_and_sdpa_never_keep_more(count: int, way: Settings, work: Workload) -> None:
    shape, cluster = guess_shape(count), Cluster(2)
    plain = replace(work, checkpointing=False, attention="eager")
    most = estimate(shape, way, cluster, plain).gpu
    assert estimate(shape, way, cluster, replace(plain, attention="sdpa")).gpu <= most
    if shape.layers > 3:
        assert estimate(shape, way, cluster, replace(plain, checkpointing=True)).gpu <= most
