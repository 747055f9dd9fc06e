"""A snapshot of a run (`insight/board.py`) as lines of styled text that fit a screen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zlaunch.cli.board_values import (
    Rank,
    Snapshot,
    age,
    cores,
    failed,
    gib,
    mark,
    number,
    scale,
    state,
    width_of,
)
from zlaunch.cli.visible import visible
from zlaunch.frozen import frozen
from zlaunch.launcher.report import duration
from zlaunch.run.rank_states import LOST, NEVER, REFUSED, RUNNING, WAITING

Span = tuple[str, str]  # text, and the name of its style: "" is plain
Line = list[Span]

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.-=*#"
_SILENT = 60.0  # seconds
_GAP = 2  # columns between two of the table
_LONGEST_BAR = 30
_STATE_STYLES = {RUNNING: "good", WAITING: "dim", NEVER: "dim", REFUSED: "bad", LOST: "bad"}


@frozen
class Screen:
    """What there is room for; `fancy` where it shows more than ASCII."""

    columns: int
    rows: int
    fancy: bool = True


@frozen
class _Column:
    """A column of the table; of those that have no room the highest `level` goes first."""

    title: str
    level: int
    text: Callable[[Rank], str]
    style: Callable[[Rank], str] = lambda _: ""


def _state_style(rank: Rank) -> str:
    return "bad" if failed(rank) else _STATE_STYLES.get(rank["state"], "")


def _mark_style(rank: Rank) -> str:
    return "alarm" if rank.get("out_of_memory") else "warn"


def _fell_silent(rank: Rank) -> bool:
    """Whether a rank that tells of its training does so no more; others may never write."""
    return "step" in rank and rank.get("silent", 0.0) >= _SILENT


def _step(rank: Rank) -> str:
    return number(rank.get("step"), 12)


def _memory(rank: Rank) -> str:
    used, total = gib(rank.get("gpu_memory")), gib(rank.get("gpu_memory_total"))
    return f"{used}/{total}" if used and total else used


def _percent(value: Any) -> str:
    return "" if value is None else f"{value:.0f} %"


_COLUMNS = (
    _Column("rank", 0, lambda r: str(r["rank"])),
    _Column("host", 13, lambda r: visible(str(r.get("host", "")))),
    _Column("device", 11, lambda r: str(r.get("device", ""))),
    _Column("state", 0, state, _state_style),
    _Column("", 1, mark, _mark_style),
    _Column("step", 2, _step),
    _Column("loss", 3, lambda r: number(r.get("loss"))),
    _Column("lr", 9, lambda r: number(r.get("lr"), 3)),
    _Column("grad norm", 12, lambda r: number(r.get("grad_norm"), 3)),
    _Column("scale", 7, lambda r: scale(r.get("loss_scale"))),
    _Column("skipped", 8, lambda r: number(r.get("skipped"), 12)),
    _Column("samples/s", 6, lambda r: number(r.get("samples_per_second"))),
    _Column("tokens/s", 10, lambda r: number(r.get("tokens_per_second"), 6)),
    _Column("s/step", 14, lambda r: number(r.get("step_seconds"), 3)),
    _Column("GPU GiB", 4, _memory),
    _Column("busy", 4, lambda r: _percent(r.get("gpu_utilization"))),
    _Column("CPU", 5, lambda r: cores(r.get("cpu"))),
    _Column("RSS GiB", 5, lambda r: gib(r.get("rss"))),
    _Column(
        "last line",
        3,
        lambda r: age(r.get("silent")),
        lambda r: "warn" if _fell_silent(r) else "",
    ),
)
_LEFT = {"host", "device", "state", ""}  # the others are numbers, and stand right


# The whole


def screen_lines(snapshot: Snapshot, screen: Screen) -> list[Line]:
    """Return the view: no more lines than there are rows, none wider than the screen."""
    head = [_head(snapshot), *_progress(snapshot, screen)]
    ranks = snapshot["ranks"]
    room = max(1, screen.rows - len(head) - 1)  # one for the titles
    shown, others = fold(ranks, room)
    lines = [*head, *_table(shown, screen.columns)]
    if others:
        lines.append([(_summary(others), "dim")])
    return [_cut(line, screen.columns) for line in lines[: screen.rows]]


def fold(ranks: Sequence[Rank], room: int) -> tuple[list[Rank], list[Rank]]:
    """Choose who is shown where not all have room: who is in trouble, and the first ones."""
    if len(ranks) <= room:
        return list(ranks), []
    chosen = sorted(ranks, key=_interest)[: room - 1]
    numbers = {rank["rank"] for rank in chosen}
    shown = [rank for rank in ranks if rank["rank"] in numbers]
    return shown, [rank for rank in ranks if rank["rank"] not in numbers]


def _interest(rank: Rank) -> tuple[Any, ...]:
    return (
        not rank.get("out_of_memory"),
        not failed(rank),
        not rank.get("overflow"),
        -rank["silent"] if _fell_silent(rank) else 0.0,
        "loss" not in rank,
        rank["rank"],
    )


def _head(snapshot: Snapshot) -> Line:
    """`running, restart 1 of 3, 12:05 min  name  ID`: what matters least stands last."""
    told, style = standing(snapshot)
    name = f"  {visible(snapshot['name'])}" if snapshot.get("name") else ""
    return [(told, style), (name, "strong"), (f"  run {snapshot.get('run', '')}", "dim")]


def standing(snapshot: Snapshot) -> tuple[str, str]:
    """How the run stands, and the style of that."""
    how, phase = str(snapshot.get("state", RUNNING)), snapshot.get("phase")
    style = {"running": "good", "finished": "good", "failed": "bad", "lost": "bad"}.get(how, "warn")
    if how == RUNNING and phase not in {None, "running"}:
        how, style = str(phase), "warn"
    if snapshot.get("gathering"):
        how += f" (it still waits for {visible(snapshot['gathering'])})"
    if snapshot.get("exit_code"):
        how += f" (exit code {snapshot['exit_code']})"
    if "no_news" in snapshot:
        how, style = f"no news for {snapshot['no_news']} s: {how}", "warn"
    attempt, most = snapshot.get("attempt"), snapshot.get("most_restarts")
    if attempt:
        how += f", restart {attempt}" + (f" of {most}" if most else "")
    if snapshot.get("seconds") is not None:
        how += f", {duration(snapshot['seconds'])}"
    return how, style


def _progress(snapshot: Snapshot, screen: Screen) -> list[Line]:
    """The bar with the time left, and the loss; on a line each where both do not fit."""
    bar, loss = _bar(snapshot, screen), _loss(snapshot, screen)
    both = [*bar, ("   ", ""), *loss] if bar and loss else [*bar, *loss]
    if not both:
        return []
    if bar and loss and _width(both) > screen.columns:
        return [bar, loss] if screen.rows > 10 else [bar]
    return [both]


def _bar(snapshot: Snapshot, screen: Screen) -> Line:
    progress = snapshot.get("progress")
    if not progress:
        return []
    step, total = progress["step"], progress["total"]
    share = min(1.0, step / total) if total else 0.0
    left = progress.get("left")
    words = f" {share:.0%}" + (f", {duration(left)} left" if left is not None else "")
    before = f"step {step}/{total} "
    length = max(0, min(_LONGEST_BAR, screen.columns - len(before) - len(words)))
    full = round(share * length)
    done, rest = ("━", "─") if screen.fancy else ("#", ".")
    return [(before, ""), (done * full, "good"), (rest * (length - full), "dim"), (words, "")]


def _loss(snapshot: Snapshot, screen: Screen) -> Line:
    told = next((r for r in snapshot["ranks"] if "loss" in r), None)
    if told is None:
        return []
    line: Line = [(f"loss {number(told['loss'])}", "strong")]
    losses = snapshot.get("losses", ())
    if len(losses) > 1:
        bars = _BARS if screen.fancy else _PLAIN_BARS
        line.append((f" {sparkline(losses, 20, bars)}", "accent"))
    return line


def sparkline(values: Sequence[float], length: int, bars: str = _BARS) -> str:
    """The newest of `values`, brought to `length` characters at most by taking means."""
    each = max(1, -(-len(values) // length))
    parts = [values[i : i + each] for i in range(0, len(values), each)]
    # Quarters: a sum or a difference of the largest numbers there are would be infinite.
    means = [sum(value / 4 / len(part) for value in part) for part in parts]
    low, span = min(means), max(means) - min(means)
    if span <= 1e-9 * max(map(abs, means)):  # no more than rounding
        return bars[0] * len(means)
    return "".join(bars[round((mean - low) / span * (len(bars) - 1))] for mean in means)


def _table(ranks: Sequence[Rank], width: int) -> list[Line]:
    """The titles and a line for each rank, of those columns that have room."""
    columns = [
        (column, [column.text(rank) for rank in ranks])
        for column in _COLUMNS
        if column.title != "host" or len({rank.get("host") for rank in ranks}) > 1
    ]
    columns = [(column, texts) for column, texts in columns if any(texts)]
    while len(columns) > 1 and sum(map(_needed, columns)) - _GAP > width:
        columns.remove(max(columns, key=lambda one: one[0].level))
    titles: Line = [(_aligned(one, one[0].title), "dim") for one in columns]
    return [
        titles,
        *(
            [(_aligned(one, one[1][place]), one[0].style(rank)) for one in columns]
            for place, rank in enumerate(ranks)
        ),
    ]


def _needed(column: tuple[_Column, list[str]]) -> int:
    return _GAP + max(map(width_of, (column[0].title, *column[1])))


def _aligned(column: tuple[_Column, list[str]], text: str) -> str:
    fill = " " * (_needed(column) - _GAP - width_of(text))
    return (text + fill if column[0].title in _LEFT else fill + text) + " " * _GAP


def _summary(ranks: Sequence[Rank]) -> str:
    """Of those that have no line of their own."""
    counts: dict[str, int] = {}
    for rank in ranks:
        counts[state(rank)] = counts.get(state(rank), 0) + 1
    told = [f"{count} {name}" for name, count in sorted(counts.items(), key=lambda c: -c[1])]
    silent = [rank["silent"] for rank in ranks if "silent" in rank]
    parts = [
        f"{len(ranks)} more: {', '.join(told)}",
        _range([r.get("gpu_memory") for r in ranks], gib, "GPU {} GiB"),
        _range([r.get("gpu_utilization") for r in ranks], lambda v: f"{v:.0f}", "{} %"),
        f"last line {age(max(silent))} ago" if silent else "",
    ]
    return "; ".join(part for part in parts if part)


def _range(values: Sequence[Any], text: Callable[[Any], str], form: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = text(min(known)), text(max(known))
    return form.format(low if low == high else f"{low}-{high}")


def _width(line: Line) -> int:
    return sum(width_of(text) for text, _ in line)


def _cut(line: Line, width: int) -> Line:
    """No wider than the screen, and without blanks at its end."""
    cut: Line = []
    for text, style in line:
        room, part = width - _width(cut), text
        while width_of(part) > room:
            part = part[:-1]
        cut.append((part, style))
    while cut and not cut[-1][0].rstrip():
        cut.pop()
    if cut:
        cut[-1] = cut[-1][0].rstrip(), cut[-1][1]
    return cut
