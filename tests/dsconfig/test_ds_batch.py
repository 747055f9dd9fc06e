from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.dsconfig.batch import Batch, solve_batch
from zlaunch.errors import BatchError

SIZES = st.one_of(st.none(), st.integers(1, 5000))


@pytest.mark.parametrize(
    ("train", "micro", "accumulation", "expected"),
    [
        # DeepSpeed's own TestBatchConfig, world size 2, each with every valid subset
        (32, 16, 1, Batch(32, 16, 1)),
        (32, 16, None, Batch(32, 16, 1)),
        (32, None, 1, Batch(32, 16, 1)),
        (None, 16, 1, Batch(32, 16, 1)),
        (32, None, None, Batch(32, 16, 1)),
        (None, 16, None, Batch(32, 16, 1)),
        (32, 8, 2, Batch(32, 8, 2)),
        (32, 8, None, Batch(32, 8, 2)),
        (32, None, 2, Batch(32, 8, 2)),
        (None, 8, 2, Batch(32, 8, 2)),
        (33, 17, 2, None),
        (32, 18, 1, None),
        # what DeepSpeed floors or lets reach its assertion in every rank
        (32, 18, None, None),
        (1, None, None, None),
        (33, 8, None, None),
        (33, None, 2, None),
        (30, None, 4, None),
        (0, None, None, None),
    ],
)
def test_deepspeeds_own_cases_on_two_ranks(train, micro, accumulation, expected):
    def solve():
        return solve_batch(
            train=train, micro=micro, accumulation=accumulation, world_size=2, default_micro=16
        )

    if expected is None:
        with pytest.raises(BatchError):
            solve()
    else:
        assert solve() == expected


@pytest.mark.parametrize(
    ("given", "world", "expected"),
    [
        ({}, 8, Batch(128, 4, 4)),
        ({"micro": 2}, 8, Batch(64, 2, 4)),
        ({"accumulation": 1}, 13, Batch(52, 4, 1)),
        ({"train": 256}, 8, Batch(256, 4, 8)),
        ({"train": 24}, 8, Batch(24, 3, 1)),
        ({"train": 48}, 8, Batch(48, 3, 2)),
        ({"train": 56}, 8, Batch(56, 1, 7)),
        ({"train": 8}, 8, Batch(8, 1, 1)),
        ({"train": 13}, 13, Batch(13, 1, 1)),
        ({"train": 256, "micro": 8}, 8, Batch(256, 8, 4)),
        ({"train": 256, "accumulation": 2}, 8, Batch(256, 16, 2)),
        ({"train": 256, "micro": 4, "accumulation": 8}, 8, Batch(256, 4, 8)),
        ({"train": 1_000_000_000}, 1, Batch(1_000_000_000, 4, 250_000_000)),
        ({"train": 999_999_937}, 1, Batch(999_999_937, 1, 999_999_937)),  # a prime
    ],
)
def test_what_is_given_is_kept_and_the_rest_derived(given, world, expected):
    assert solve_batch(**given, world_size=world, default_micro=4, default_accumulation=4) == (
        expected
    )


@pytest.mark.parametrize(
    ("given", "world", "message", "hint"),
    [
        (
            {"train": 100, "micro": 4},
            8,
            "global batch 100 does not divide by micro batch 4 x 8 ranks = 32",
            "valid are global batch 96 or 128",
        ),
        (
            {"train": 96, "micro": 5},
            8,
            "global batch 96 does not divide by micro batch 5 x 8 ranks = 40",
            (
                "valid are global batch 80 or 120, or micro batch 4 with accumulation 3,"
                " or micro batch 6 with accumulation 2"
            ),
        ),
        (
            {"train": 96, "accumulation": 5},
            8,
            "global batch 96 does not divide by accumulation 5 x 8 ranks = 40",
            (
                "valid are global batch 80 or 120, or accumulation 4 with micro batch 3,"
                " or accumulation 6 with micro batch 2"
            ),
        ),
        (
            {"train": 8, "micro": 4},
            8,
            "global batch 8 does not divide by micro batch 4 x 8 ranks = 32",
            "valid are global batch 32, or micro batch 1 with accumulation 1",
        ),
        (
            {"train": 100},
            8,
            "global batch 100 does not divide over 8 ranks",
            "the nearest global batches are 96 or 104",
        ),
        (
            {"train": 4},
            8,
            "global batch 4 is smaller than the world size 8: every rank needs at least one sample",
            "the smallest global batch is 8",
        ),
        (  # starcoder#41: the JSON was written for 8 GPUs and one is used
            {"train": 256, "micro": 4, "accumulation": 8},
            1,
            "global batch 256 is not micro batch 4 x accumulation 8 x 1 ranks = 32",
            "change one of them: global batch 32, or accumulation 64, or micro batch 32",
        ),
        (
            {"train": 33, "micro": 8, "accumulation": 2},
            2,
            "global batch 33 is not micro batch 8 x accumulation 2 x 2 ranks = 32",
            "change one of them: global batch 32",
        ),
        (
            {"train": 4, "micro": 1, "accumulation": 1},
            8,
            "global batch 4 is not micro batch 1 x accumulation 1 x 8 ranks = 8",
            "change one of them: global batch 8",
        ),
    ],
)
def test_what_cannot_be_solved_names_the_numbers_and_the_neighbours(given, world, message, hint):
    with pytest.raises(BatchError) as caught:
        solve_batch(**given, world_size=world, default_micro=4, default_accumulation=4)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("value", [0, -1, 1.5, 32.0, True, "32", "auto", 10**12])
@pytest.mark.parametrize("name", ["train", "micro", "accumulation", "world_size", "default_micro"])
def test_only_whole_positive_numbers(name, value):
    with pytest.raises(BatchError, match=r"whole number of at least 1|too large"):
        solve_batch(**{"world_size": 2, name: value})


def solve_or_error(**numbers):
    try:
        return solve_batch(**numbers)
    except BatchError as error:
        return error


@settings(deadline=None)
@given(SIZES, SIZES, SIZES, st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
def test_numbers_multiply_out_and_the_given_ones_are_kept(
    train, micro, accumulation, world, default_micro, default_accumulation
):
    given_numbers = {"train": train, "micro": micro, "accumulation": accumulation}
    solved = solve_or_error(
        **given_numbers,
        world_size=world,
        default_micro=default_micro,
        default_accumulation=default_accumulation,
    )
    if isinstance(solved, BatchError):
        assert train is not None
        assert str(train) in solved.message
        assert solved.hint
        return
    assert solved.train == solved.micro * solved.accumulation * world
    assert min(solved.train, solved.micro, solved.accumulation) >= 1
    for name, number in given_numbers.items():
        assert number is None or getattr(solved, name) == number
    if micro is None and accumulation is None:
        assert solved.micro <= default_micro


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 16))
def test_every_batch_is_found_again_from_any_two_of_its_numbers(micro, accumulation, world):
    whole = solve_batch(micro=micro, accumulation=accumulation, world_size=world)
    for kept in ({"micro": micro}, {"accumulation": accumulation}):
        assert solve_batch(train=whole.train, **kept, world_size=world) == whole
