"""Lint: the three batch numbers, for the world that the config will run on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zlaunch.dsconfig.batch import solve_batch
from zlaunch.dsconfig.batchkeys import KEY_OF
from zlaunch.dsconfig.finding import Finding, Look
from zlaunch.dsconfig.values import AUTO, number_in, whole
from zlaunch.errors import BatchError

_TRAIN, _MICRO, _STEPS = KEY_OF["train"], KEY_OF["micro"], KEY_OF["accumulation"]


def check_batch(look: Look) -> Iterator[Finding]:
    """Numbers below one, missing ones, and numbers that do not multiply out."""
    written = {key: look.config.get(key) for key in KEY_OF.values()}
    numbers = {key: _whole(value) for key, value in written.items()}
    bad = [key for key, number in numbers.items() if number is not None and number < 1]
    for key in bad:
        text = f"{key} is {numbers[key]}; DeepSpeed needs at least 1"
        yield look.finds("error", "batch", (key,), text, "write a whole number from 1 on")
    odd = [key for key, value in written.items() if value is not None and numbers[key] is None]
    ways = _ways(look)
    if bad or [key for key in odd if written[key] != AUTO] or not look.document.complete:
        return
    if ways is not None and ways < 1:
        text = "sequence_parallel_size has to be at least 1"
        yield look.finds("error", "batch", ("sequence_parallel_size",), text, "write 1, or no such")
        return
    if look.around.target != "plain":
        yield from _for_others(look, written)
    if written[_TRAIN] is None and written[_MICRO] is None:
        text = f"neither {_TRAIN} nor {_MICRO} is there: DeepSpeed needs one of them"
        value = "1, or more" if look.around.target == "plain" else '"auto"'
        mend = f'write "{_MICRO}": {value}'
        yield look.finds("error", "batch-missing", (), text, mend)
        return
    if odd:
        return  # said by `lint_auto`, or filled by the reader
    yield from _product(look, numbers, ways or 1)


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        value = number_in(value)
    if not isinstance(value, (int, float)):
        return None
    return int(value) if isinstance(value, bool) else whole(value)


def _ways(look: Look) -> int | None:
    return _whole(look.config.get("sequence_parallel_size"))


def _for_others(look: Look, written: dict[str, Any]) -> Iterator[Finding]:
    """The Trainer and Accelerate take a missing accumulation for 1, whatever they are told."""
    if written[_STEPS] is None and any(value is not None for value in written.values()):
        text = f"{_STEPS} is not there: DeepSpeed takes 1, and the script's own setting is not used"
        mend = f'write "{_STEPS}": "auto"'
        yield look.finds("note", "accumulation-missing", (), text, mend)
    if look.around.target == "accelerate" and written[_TRAIN] == AUTO and written[_MICRO] is None:
        text = f'{_TRAIN} is "auto", and Accelerate fills it only where {_MICRO} is there'
        mend = f'add "{_MICRO}": "auto"'
        yield look.finds("error", "auto-unfilled", (_TRAIN,), text, mend)


def _product(look: Look, numbers: dict[str, int | None], ways: int) -> Iterator[Finding]:
    world = look.around.world_size
    if world is None:
        yield from _any_world(look, numbers)
        return
    if world % ways:
        text = f"sequence_parallel_size {ways} does not divide the {world} ranks"
        yield look.finds("error", "batch", ("sequence_parallel_size",), text, "change one of them")
        return
    ranks = world // ways
    train, micro, steps = (numbers[key] for key in (_TRAIN, _MICRO, _STEPS))
    if train is None and micro is None:
        return
    if train is None or micro is None:
        steps = steps or 1
    key = _TRAIN if train is not None else _MICRO
    try:
        solve_batch(train=train, micro=micro, accumulation=steps, world_size=ranks)
    except BatchError as error:
        small = train is not None and train < ranks and (micro is None or steps is None)
        code = "batch-smaller-than-world" if small else "batch"
        yield look.finds("error", code, (key,), error.message, error.hint or "")


def _any_world(look: Look, numbers: dict[str, int | None]) -> Iterator[Finding]:
    """What holds for every world: the global batch is a multiple of the other two."""
    train, micro, steps = (numbers[key] for key in (_TRAIN, _MICRO, _STEPS))
    unit = (micro or 1) * (steps or 1)
    if train is None or train % unit == 0:
        return
    text = f"{_TRAIN} {train} is no multiple of {unit}, for no number of ranks"
    below = train // unit * unit
    near = f"{below} or {below + unit}" if below else f"{unit}"
    yield look.finds("error", "batch", (_TRAIN,), text, f"the nearest are {near} times the ranks")
