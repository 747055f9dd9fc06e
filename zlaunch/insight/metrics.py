"""Reads the metrics that one rank prints: which line is one, and of which step it tells.

`read` is a pure step from one state and one piece of text to the next state, with what it tells.
A piece is what stands between two ends of lines or carriage returns. Whose words a piece is is
asked of one module a family; what DeepSpeed itself prints is read elsewhere, once.

The Trainer's dicts name no step. It draws its bar again right behind each, at the step that it has
reached, so a dict is kept until then. Where it draws none (`disable_tqdm`), the step is not known.
"""

from __future__ import annotations

from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.insight.metrics_bars import Bar, read_bar
from zlaunch.insight.metrics_megatron import read_iteration
from zlaunch.insight.metrics_plain import read_plain
from zlaunch.insight.metrics_told import LONGEST, Told, Value
from zlaunch.insight.metrics_trainer import read_dict, read_total
from zlaunch.insight.rank_words import plain_line

__all__ = ["ReaderState", "Told", "flush", "read"]

_LOSS = "oss"
_DEEPSPEED = ("OVERFLOW!", "verflow detected", "verflow on", "dynamic loss scale", "samples/sec: ")


@frozen
class ReaderState:
    """What is remembered of a rank; it has a fixed size.

    `bar` is the last bar without a word; `total` is known to be that of a bar of steps, which is
    `source`'s. `waiting` is a dict whose step is still to come. `first_epoch` is the number that
    the script gives to the first one, `skipped` the sum of what Megatron tells piece by piece.
    """

    bar: Bar | None = None
    total: int | None = None
    source: str = "accelerate"
    waiting: Told | None = None
    first_epoch: int | None = None
    skipped: int = 0


_Step = tuple[ReaderState, tuple[Told, ...]]


def read(state: ReaderState, text: str) -> _Step:
    """Take in one piece of text."""
    text = plain_line(text[-LONGEST:])
    if not text or text.isspace():
        return state, ()
    if "%|" in text:
        found = read_bar(text)
        if found is not None:
            return _bar(state, *found)
    state, before = flush(state)
    if "ptimization steps" in text and (total := read_total(text)) is not None:
        return replace(state, total=total), before
    state, told = _line(state, text) if _LOSS in text.lower() else (state, None)
    return state, before if told is None else (*before, told)


def flush(state: ReaderState) -> _Step:
    """No bar follows: tell what waited for one."""
    if state.waiting is None:
        return state, ()
    told, state = state.waiting, replace(state, waiting=None)
    bar = state.bar
    if bar is None or bar.total != state.total:
        return state, (told,)
    return state, (_at(told, bar),)


def _at(told: Told, bar: Bar) -> Told:
    return Told(told.source, {"step": bar.step, "total": bar.total, **told.fields})


def _bar(state: ReaderState, bar: Bar, rest: str) -> _Step:
    told: tuple[Told, ...] = ()
    if bar.bare:
        state = replace(state, bar=bar)
        waiting = state.waiting
        if waiting is not None:
            state = replace(state, total=bar.total, source="trainer", waiting=None)
            told = (_at(waiting, bar),)
        elif bar.total == state.total:
            told = (Told(state.source, _progress(bar)),)
    elif bar.training:
        state, one = _named(state, bar)
        told = (one,)
    if rest.strip() and _LOSS in rest:
        state, more = _line(state, rest)
        told = told if more is None else (*told, more)
    return state, told


def _progress(bar: Bar) -> dict[str, Value]:
    fields: dict[str, Value] = {"step": bar.step, "total": bar.total}
    if bar.seconds is not None:
        fields["step_seconds"] = bar.seconds
    return fields


def _named(state: ReaderState, bar: Bar) -> tuple[ReaderState, Told]:
    """A bar of an epoch begins anew with each: its steps are counted through.

    Where the number of epochs is not told, `total` is that of the steps to the end of this one.
    """
    if bar.of_epochs:
        return state, Told("print", {"epoch": float(bar.step), **bar.fields})
    fields = {**_progress(bar), **bar.fields}
    if bar.epoch is None:
        return state, Told("print", fields)
    first = min(bar.epoch, 1) if bar.epochs is None else 1
    if state.first_epoch is not None:
        first = min(state.first_epoch, bar.epoch)
    behind = bar.epoch - first
    fields["step"] = behind * bar.total + bar.step
    epochs = behind + 1 if bar.epochs is None else max(bar.epochs, behind + 1)
    fields["total"] = epochs * bar.total
    fields["epoch"] = float(bar.epoch)
    return replace(state, first_epoch=first), Told("print", fields)


def _line(state: ReaderState, text: str) -> tuple[ReaderState, Told | None]:
    for words in _DEEPSPEED:
        if words in text and "| elapsed time" not in text:
            return state, None
    iteration = read_iteration(text) if "teration" in text else None
    if iteration is not None:
        return _megatron(state, *iteration)
    told = read_dict(text) if "{" in text else None
    if told is None:
        return state, read_plain(text)
    if state.bar is None:
        return state, told
    return replace(state, waiting=told), None


def _megatron(state: ReaderState, told: Told, skipped: int) -> tuple[ReaderState, Told]:
    state = replace(state, skipped=state.skipped + skipped)
    if not skipped:
        return state, Told(told.source, {**told.fields, "skipped": state.skipped})
    return state, Told(told.source, {**told.fields, "skipped": state.skipped, "overflow": True})
