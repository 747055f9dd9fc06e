"""Batch arithmetic: the three numbers of a run and how one follows from the others.

    train = micro x accumulation x world size

`train` is the global batch (samples per optimizer step over all ranks), `micro` the samples
per rank and forward pass, `accumulation` the passes per optimizer step. This is DeepSpeed's
own rule (`DeepSpeedConfig._batch_assertion`), solved before anything is started.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import NoReturn

from zlaunch.errors import BatchError
from zlaunch.frozen import frozen

# Larger is a typing mistake, and divisors of larger numbers would take long to find.
_LARGEST = 1_000_000_000


@frozen
class Batch:
    """Batch numbers that multiply out: `train == micro * accumulation * world size`."""

    train: int
    micro: int
    accumulation: int


def solve_batch(
    *,
    train: int | None = None,
    micro: int | None = None,
    accumulation: int | None = None,
    world_size: int,
    default_micro: int = 1,
    default_accumulation: int = 1,
) -> Batch:
    """The batch numbers of a run on `world_size` data-parallel ranks.

    What is given is kept, the rest is derived. Where a global batch alone is given, `micro`
    is its largest divisor per rank that is at most `default_micro`. Raises `BatchError` with
    valid neighbours where the numbers do not multiply out.
    """
    _check(
        {
            "global batch": train,
            "micro batch": micro,
            "accumulation": accumulation,
            "world size": world_size,
            "default micro batch": default_micro,
            "default accumulation": default_accumulation,
        }
    )
    if train is None:
        micro = default_micro if micro is None else micro
        accumulation = default_accumulation if accumulation is None else accumulation
        return Batch(micro * accumulation * world_size, micro, accumulation)
    return _split(train, micro, accumulation, world_size, default_micro)


def _split(
    train: int, micro: int | None, accumulation: int | None, world_size: int, default_micro: int
) -> Batch:
    """Splits a given global batch over ranks, passes and samples."""
    if micro is not None and accumulation is not None:
        if train != micro * accumulation * world_size:
            _refuse_all(train, micro, accumulation, world_size)
        return Batch(train, micro, accumulation)
    if train < world_size:
        raise BatchError(
            f"global batch {train} is smaller than the world size {world_size}:"
            " every rank needs at least one sample",
            hint=f"the smallest global batch is {world_size}",
        )
    per_rank, rest = divmod(train, world_size)
    if micro is not None:
        if rest or per_rank % micro:
            _refuse_pair(train, micro, world_size, "micro batch")
        return Batch(train, micro, per_rank // micro)
    if accumulation is not None:
        if rest or per_rank % accumulation:
            _refuse_pair(train, accumulation, world_size, "accumulation")
        return Batch(train, per_rank // accumulation, accumulation)
    if rest:
        _refuse_train(train, world_size)
    micro = max(size for size in _divisors(per_rank) if size <= default_micro)
    return Batch(train, micro, per_rank // micro)


def _check(named: dict[str, int | None]) -> None:
    for name, number in named.items():
        if number is None:
            continue
        # bool is an int to Python; as a batch size it is a mistake.
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise BatchError(f"{name} has to be a whole number of at least 1, not {number!r}")
        if number > _LARGEST:
            raise BatchError(f"{name} {number} is too large: the limit is {_LARGEST}")


def _divisors(number: int) -> list[int]:
    """All divisors of `number`, ascending."""
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return sorted({*small, *(number // size for size in small)})


def _multiples(number: int, unit: int) -> str:
    """The multiples of `unit` on both sides of `number`, for a sentence."""
    below = number // unit * unit
    return f"{below} or {below + unit}" if below else f"{unit}"


def _refuse_train(train: int, world: int) -> NoReturn:
    raise BatchError(
        f"global batch {train} does not divide over {world} ranks",
        hint=f"the nearest global batches are {_multiples(train, world)}",
    )


def _refuse_pair(train: int, fixed: int, world: int, name: str) -> NoReturn:
    """Refuses a global batch with one other number that does not divide it."""
    offers = [f"global batch {_multiples(train, fixed * world)}"]
    if train % world == 0:
        per_rank = train // world
        sizes = _divisors(per_rank)
        near = [size for size in sizes if size < fixed][-1:]
        near += [size for size in sizes if size > fixed][:1]
        pair: Callable[[int], str] = (
            (lambda size: f"micro batch {size} with accumulation {per_rank // size}")
            if name == "micro batch"
            else (lambda size: f"accumulation {size} with micro batch {per_rank // size}")
        )
        offers += [pair(size) for size in near]
    raise BatchError(
        f"global batch {train} does not divide by {name} {fixed} x {world} ranks = {fixed * world}",
        hint="valid are " + ", or ".join(offers),
    )


def _refuse_all(train: int, micro: int, accumulation: int, world: int) -> NoReturn:
    """Refuses three numbers that contradict, with every way to keep two of them."""
    product = micro * accumulation * world
    offers = [f"global batch {product}"]
    if train % (micro * world) == 0:
        offers.append(f"accumulation {train // (micro * world)}")
    if train % (accumulation * world) == 0:
        offers.append(f"micro batch {train // (accumulation * world)}")
    raise BatchError(
        f"global batch {train} is not micro batch {micro} x accumulation {accumulation}"
        f" x {world} ranks = {product}",
        hint="change one of them: " + ", or ".join(offers),
    )
