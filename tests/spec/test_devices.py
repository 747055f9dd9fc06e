"""Which GPUs of one machine a run uses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.errors import SelectionError
from zlaunch.spec.device import Device
from zlaunch.spec.devices import choose_slots, visible_slots
from zlaunch.spec.slots import Slot, format_slots, gpu_in_words, gpus_in_words, parse_slots


def box(count: int) -> tuple[Device, ...]:
    return tuple(Device(index, f"GPU-{index}{index}-abcd") for index in range(count))


FOUR = box(4)
SPLIT = (Device(0, "GPU-00-abcd", mig=("MIG-0a", "MIG-0b")), Device(1, "GPU-11-abcd"))


@pytest.mark.parametrize(
    ("env", "devices", "slots"),
    [
        (None, FOUR, (0, 1, 2, 3)),
        (None, (), ()),
        (None, None, ()),
        ("0,2", FOUR, (0, 2)),
        ("3,1", FOUR, (3, 1)),
        ("1", FOUR, (1,)),
        ("0,1,5,6", box(8), (0, 1, 5, 6)),
        (" 0 , 2 ", FOUR, (0, 2)),
        ("0,2,", FOUR, (0, 2)),
        ("GPU-aaaa,GPU-bbbb", FOUR, ("GPU-aaaa", "GPU-bbbb")),
        ("GPU-22", FOUR, ("GPU-22",)),
        ("MIG-x", None, ("MIG-x",)),
        ("MIG-GPU-aa/1/0", FOUR, ("MIG-GPU-aa/1/0",)),
        ("GPU-11-ABCD,MIG-y", FOUR, ("GPU-11-ABCD", "MIG-y")),
        ("MIG-0b,MIG-0a", SPLIT, ("MIG-0b", "MIG-0a")),
        ("", FOUR, ()),
        (" ", FOUR, ()),
        ("-1", FOUR, ()),
        ("2,-1,0", FOUR, (2,)),
        ("NoDevFiles", (), ()),
        ("7,9", None, (7, 9)),
    ],
)
def test_visible(
    env: str | None, devices: tuple[Device, ...] | None, slots: tuple[Slot, ...]
) -> None:
    assert visible_slots(env, devices) == slots


@pytest.mark.parametrize(
    ("env", "devices", "words"),
    [
        ("4", FOUR, "device 4, but this machine has 4 (0, 1, 2, 3)"),
        ("0", (), "device 0, but this machine has 0 (none)"),
        ("0,0", FOUR, "twice: 0 and 0"),
        ("0,0", None, "twice: 0 and 0"),
        ("1,GPU-11", FOUR, "twice: 1 and GPU-11"),
        ("GPU-a,GPU-a", None, "twice: GPU-a and GPU-a"),
        ("0,MIG-0a", SPLIT, "twice: 0 and MIG-0a"),
        ("GPU-11-ABCD,GPU-11-abcd", FOUR, "twice"),
        ("3,GPU-11-abcd", FOUR, "mixes indices and GPU-"),
        ("MIG-y,3", None, "mixes indices and GPU-"),
        ("0,,1", FOUR, "''"),
        (",0", FOUR, "''"),
        ("0-3", FOUR, "'0-3'"),
        ("-2", FOUR, "'-2'"),
        ("all", FOUR, "'all'"),
        ("GPU-", FOUR, "'GPU-'"),
        ("٣", None, "'٣'"),
        ("9" * 5000, None, "neither an index"),
    ],
)
def test_visible_refuses(env: str, devices: tuple[Device, ...] | None, words: str) -> None:
    with pytest.raises(SelectionError) as caught:
        visible_slots(env, devices)
    assert words in str(caught.value)
    assert caught.value.message.startswith("CUDA_VISIBLE_DEVICES=")


def test_an_ambiguous_beginning_is_refused() -> None:
    twins = (Device(0, "GPU-xa"), Device(1, "GPU-xb"))
    with pytest.raises(SelectionError, match="more than one device: GPU-xa, GPU-xb"):
        visible_slots("GPU-x", twins)
    with pytest.raises(SelectionError, match="more than one device: GPU-xa, GPU-xb"):
        choose_slots((0, 1), devices=twins, gpus="GPU-x")


def choose(env: str | None = None, devices: Any = FOUR, **options: Any) -> tuple[Slot, ...]:
    return choose_slots(visible_slots(env, devices), devices=devices, env=env, **options)


@pytest.mark.parametrize(
    ("env", "options", "slots"),
    [
        (None, {}, (0, 1, 2, 3)),
        ("3,1", {}, (3, 1)),
        ("2,3", {"count": 2}, (2, 3)),
        ("2,3", {"count": 1}, (2,)),
        ("GPU-33,GPU-11", {"count": 1}, ("GPU-33",)),
        (None, {"gpus": "2,0"}, (2, 0)),
        (None, {"gpus": "1-3"}, (1, 2, 3)),
        (None, {"gpus": " GPU-33 , GPU-11-AB "}, ("GPU-33", "GPU-11-AB")),
        (None, {"gpus": "GPU-22-abcd"}, ("GPU-22-abcd",)),
        ("GPU-22,GPU-33", {"gpus": "3,2"}, (3, 2)),
        ("2,3", {"gpus": "GPU-33,GPU-22"}, ("GPU-33", "GPU-22")),
        ("GPU-zz", {"gpus": "GPU-zz"}, ("GPU-zz",)),
        (None, {"gpus": "0,2", "count": 2}, (0, 2)),
        (None, {"include": "localhost:2,0"}, (0, 2)),
        ("3,2,1", {"include": "localhost:1-3"}, (3, 2, 1)),
        ("3,2,1", {"include": "127.0.0.1:1@box:3"}, (3, 1)),
        ("3,2,1", {"include": "box"}, (3, 2, 1)),
        ("GPU-22,GPU-33", {"include": "localhost:3"}, ("GPU-33",)),
        ("3,2,1", {"exclude": "localhost:2"}, (3, 1)),
    ],
)
def test_chooses(env: str | None, options: dict[str, Any], slots: tuple[Slot, ...]) -> None:
    assert choose(env, host="box", **options) == slots


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ("2,3", {"count": 3}, ["--num-gpus 3", "CUDA_VISIBLE_DEVICES=2,3 leaves 2", "box"]),
        (None, {"count": 8}, ["--num-gpus 8", "box has 4"]),
        (None, {"count": 0}, ["--num-gpus 0"]),
        (None, {"count": -1}, ["--num-gpus -1"]),
        ("", {}, ["no GPU to run on", "CUDA_VISIBLE_DEVICES= "]),
        ("-1", {}, ["no GPU to run on", "CUDA_VISIBLE_DEVICES=-1"]),
        ("-1", {"count": 1}, ["--num-gpus 1", "CUDA_VISIBLE_DEVICES=-1 leaves 0"]),
        ("2,3", {"gpus": "0"}, ["asks for 0", "2,3"]),
        (None, {"gpus": "4"}, ["asks for 4", "box has 4 (0-3)"]),
        ("", {"gpus": "0"}, ["asks for 0", "CUDA_VISIBLE_DEVICES= "]),
        ("2,3", {"gpus": "GPU-11"}, ["asks for GPU-11"]),
        (None, {"gpus": "GPU-"}, ["'GPU-'"]),
        (None, {"gpus": "GPU-zz"}, ["asks for GPU-zz"]),
        (None, {"gpus": "0,0"}, ["twice: 0 and 0"]),
        (None, {"gpus": "0-2,1"}, ["twice: 1 and 1"]),
        (None, {"gpus": "1,GPU-11"}, ["twice: 1 and GPU-11"]),
        (None, {"gpus": "1,GPU-22"}, ["--gpus 1,GPU-22 mixes indices and"]),
        (None, {"gpus": ""}, ["--gpus '' holds ''"]),
        (None, {"gpus": "all"}, ["'all'"]),
        (None, {"gpus": "0,2", "count": 3}, ["--num-gpus 3", "has 2"]),
        (None, {"include": "other:0"}, ["'other'", "zlaunch multinode --hostfile"]),
        (None, {"include": "localhost:4"}, ["--include", "asks for 4", "0-3"]),
        (None, {"exclude": "localhost:4"}, ["--exclude", "asks for 4", "0-3"]),
        (None, {"exclude": "localhost"}, ["leaves no GPU"]),
        (None, {"include": "localhost:"}, ["''"]),
        (None, {"include": ""}, ["--include", "no host name"]),
        (None, {"gpus": "0", "include": "localhost:0"}, ["--gpus", "--include"]),
        (None, {"gpus": "0", "exclude": "localhost:0"}, ["--gpus", "--exclude"]),
        (None, {"include": "localhost", "exclude": "localhost:0"}, ["--include", "--exclude"]),
        (None, {"count": 1, "include": "localhost:0"}, ["--num-gpus", "--include"]),
        (None, {"count": 1, "exclude": "localhost:0"}, ["--num-gpus", "--exclude"]),
    ],
)
def test_refuses(env: str | None, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SelectionError) as caught:
        choose(env, host="box", **options)
    assert [word for word in words if word not in str(caught.value)] == []


def test_eight_asked_of_two() -> None:
    with pytest.raises(SelectionError, match=r"--num-gpus 8 .* box has 2"):
        choose(devices=box(2), count=8, host="box")


def test_a_part_of_a_visible_gpu_may_be_chosen_and_never_the_whole_of_a_visible_part() -> None:
    assert choose(devices=SPLIT, gpus="MIG-0b,MIG-0a") == ("MIG-0b", "MIG-0a")
    assert choose("MIG-0a", SPLIT, gpus="MIG-0a") == ("MIG-0a",)
    for env, gpus in (("MIG-0a", "0"), ("MIG-0a", "MIG-0b"), ("1", "MIG-0a")):
        with pytest.raises(SelectionError, match="not visible"):
            choose(env, SPLIT, gpus=gpus)
    with pytest.raises(SelectionError, match="twice: MIG-0a and 0"):
        choose(devices=SPLIT, gpus="MIG-0a,0")
    with pytest.raises(SelectionError, match="not visible"):
        choose(devices=SPLIT, include="localhost:MIG-0a")


def test_a_driver_that_cannot_be_asked_is_not_held_against_the_user() -> None:
    assert choose(devices=None, count=2) == (0, 1)
    assert choose(devices=None, gpus="5,0") == (5, 0)
    assert choose(devices=None, include="localhost:2,0,2") == (2, 0)
    assert choose("7,5", None, count=1) == (7,)
    assert choose("GPU-abcd", None, gpus="GPU-ab") == ("GPU-ab",)
    for options in ({}, {"exclude": "localhost:0"}, {"count": 10**9}):
        with pytest.raises(SelectionError, match="could not be asked for"):
            choose(devices=None, **options)


def test_a_visible_list_limits_also_when_the_driver_cannot_be_asked() -> None:
    for options in ({"count": 3}, {"gpus": "0"}, {"gpus": "GPU-a"}, {"include": "localhost:0"}):
        with pytest.raises(SelectionError, match="CUDA_VISIBLE_DEVICES=2,3"):
            choose("2,3", None, **options)


def identity(slot: Slot) -> str:
    if isinstance(slot, int):
        return FOUR[slot].uuid
    return next(device.uuid for device in FOUR if device.uuid.startswith(slot))


SPELLED = st.integers(0, 3).flatmap(
    lambda index: st.sampled_from([str(index), f"GPU-{index}{index}", FOUR[index].uuid])
)
TOKENS = st.lists(SPELLED | st.sampled_from(["0-1", "1-3", "4", ""]), max_size=4).map(",".join)
ENVS = st.none() | st.lists(SPELLED, max_size=4).map(",".join)


@given(
    ENVS,
    st.fixed_dictionaries(
        {},
        optional={
            "count": st.integers(-1, 5),
            "gpus": TOKENS | st.text(max_size=6),
            "include": TOKENS.map("localhost:".__add__) | st.text(max_size=6),
            "exclude": TOKENS.map("localhost:".__add__) | st.text(max_size=6),
        },
    ),
)
def test_what_is_chosen_is_always_visible(env: str | None, options: dict[str, Any]) -> None:
    try:
        visible = visible_slots(env, FOUR)
        chosen = choose_slots(visible, devices=FOUR, env=env, **options)
    except SelectionError:
        return
    names = [identity(slot) for slot in chosen]
    assert names
    assert len(set(names)) == len(names)
    assert len({type(slot) for slot in chosen}) == 1
    assert set(names) <= {identity(slot) for slot in visible}
    if "gpus" not in options:
        assert [slot for slot in visible if slot in chosen] == list(chosen)


@given(st.text() | st.text("0123456789,- GPUMIabc/"), st.sampled_from([None, (), FOUR]))
def test_any_environment_is_read_or_refused(env: str, devices: tuple[Device, ...] | None) -> None:
    try:
        slots = visible_slots(env, devices)
    except SelectionError:
        return
    assert len(set(slots)) == len(slots)
    assert len({type(slot) for slot in slots}) < 2


@given(st.lists(st.integers(0, 40) | st.sampled_from(["GPU-a", "MIG-b/1/0"]), min_size=1))
def test_slots_are_written_as_they_can_be_read(slots: list[Slot]) -> None:
    assert list(parse_slots(format_slots(slots), "--gpus")) == slots


def test_an_identifier_says_by_itself_that_it_is_a_gpu() -> None:
    assert [gpu_in_words(slot) for slot in (3, "3", "GPU-1a", "MIG-2b")] == [
        *("GPU 3", "GPU 3", "GPU-1a", "MIG-2b"),
    ]
    assert gpus_in_words((0, 1, 2, 5)) == "GPUs 0-2,5"
    assert gpus_in_words((2,)) == "GPU 2"
    assert gpus_in_words(("GPU-1a", "MIG-2b")) == "GPU-1a,MIG-2b"
