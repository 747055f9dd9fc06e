"""The plot of when each rank ran, in which attempt, and how that ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from zlaunch.cli.report_plot import Plot, layout, moment, plain_label
from zlaunch.frozen import frozen
from zlaunch.insight.exits import signal_name
from zlaunch.run.timeline import (
    FAILED,
    LOST,
    REFUSED,
    RUNNING,
    STOPPED,
    WELL,
    Span,
    Timeline,
)

_COLOURS = {
    WELL: "#009e73",
    FAILED: "#d62f2f",
    STOPPED: "#e69f00",
    RUNNING: "#0072b2",
    LOST: "#7f7f7f",
    REFUSED: "#8c6bb1",
}
_WORST = (FAILED, REFUSED, LOST, STOPPED, RUNNING, WELL)
_ROWS = 48  # with a rank each; where there are more ranks, a host each and the ranks that failed
_MOST_ROWS = 120
_LOW, _HIGH = 8, 26  # pixels of a row


@frozen
class _Bar:
    row: str
    began: float
    ended: float
    how: str
    text: str


def how_in_words(span: Span) -> str:
    """`ended well`, `failed: exit code 1`, `was stopped: SIGTERM`."""
    if span.how in (RUNNING, LOST, WELL, REFUSED):
        return span.how
    end = f"exit code {span.code}" if span.signal is None else signal_name(span.signal)
    return f"{span.how}: {end}"


def timeline_plot(
    told: Timeline, hosts: Mapping[int, str], first_steps: Mapping[tuple[int, int], float],
    until: float,
) -> Plot | None:  # fmt: skip
    """Bars from start to end; what has no end goes on `until` the last thing that is known."""
    import plotly.graph_objects as go

    if not told.spans:
        return None
    bars, said = _bars(told, hosts, until)
    rows = list(dict.fromkeys(bar.row for bar in bars))
    height = 90 + max(_LOW, min(_HIGH, 1400 // len(rows))) * len(rows)
    height = max(150, height)  # what is lower cuts the dates off
    figure = go.Figure(layout=layout(height))
    for how in _WORST[::-1]:
        _draw(figure, how, [bar for bar in bars if bar.how == how])
    steps = [
        (f"rank {span.rank}", at) for span in told.spans
        if (at := first_steps.get((span.attempt, span.rank))) is not None
    ]  # fmt: skip
    _draw_points(figure, "first step told", [step for step in steps if step[0] in rows])
    for mark in told.marks[:20]:
        figure.add_vline(x=moment(mark.at), line={"dash": "dot", "color": "#7f7f7f"})
    figure.update_layout(barmode="overlay", bargap=0.25)
    figure.update_xaxes(type="date")
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=rows[::-1], showgrid=False
    )
    return Plot("timeline", "Attempts and ranks", figure.to_json(), height, said)


def _draw(figure: Any, how: str, bars: Sequence[_Bar]) -> None:
    import plotly.graph_objects as go

    if bars:
        figure.add_trace(
            go.Bar(
                orientation="h",
                base=[moment(bar.began) for bar in bars],
                x=[max(1.0, 1000 * (bar.ended - bar.began)) for bar in bars],
                y=[bar.row for bar in bars],
                name=how,
                marker={"color": _COLOURS[how]},
                hovertext=[bar.text for bar in bars],
                hoverinfo="text",
            )
        )


def _draw_points(figure: Any, name: str, points: Sequence[tuple[str, float]]) -> None:
    import plotly.graph_objects as go

    if points:
        figure.add_trace(
            go.Scatter(
                x=[moment(at) for _, at in points],
                y=[row for row, _ in points],
                name=name,
                mode="markers",
                marker={"symbol": "line-ns-open", "size": 14, "color": "#ffffff",
                        "line": {"width": 2}},
            )
        )  # fmt: skip


def _bars(told: Timeline, hosts: Mapping[int, str], until: float) -> tuple[list[_Bar], str]:
    ranks = {span.rank for span in told.spans}
    if len(ranks) <= _ROWS:
        return [_of_rank(span, hosts, until) for span in _by_rank(told.spans)], ""
    failed = {span.rank for span in told.first_failures().values()}
    own = [_of_rank(span, hosts, until) for span in _by_rank(told.spans) if span.rank in failed]
    bars = [*own, *_of_hosts(told.spans, hosts, until)]
    rows = list(dict.fromkeys(bar.row for bar in bars))
    said = f"{len(ranks)} ranks: a row is a host, or a rank that failed first"
    if len(rows) > _MOST_ROWS:
        said += f"; {len(rows) - _MOST_ROWS} hosts are left out"
        rows = rows[:_MOST_ROWS]
    return [bar for bar in bars if bar.row in set(rows)], said


def _by_rank(spans: Sequence[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.rank, span.attempt))


def _of_rank(span: Span, hosts: Mapping[int, str], until: float) -> _Bar:
    host = hosts.get(span.rank, "")
    where = f" on {plain_label(host)}" if host else ""
    ended = until if span.ended is None else span.ended
    text = f"rank {span.rank}{where}, attempt {span.attempt}: {how_in_words(span)}"
    return _Bar(f"rank {span.rank}", span.began, max(ended, span.began), span.how, text)


def _of_hosts(spans: Sequence[Span], hosts: Mapping[int, str], until: float) -> list[_Bar]:
    groups: dict[tuple[str, int], list[Span]] = {}
    for span in spans:
        groups.setdefault((hosts.get(span.rank, "?"), span.attempt), []).append(span)
    bars = []
    for (host, attempt), group in groups.items():
        counted = Counter(span.how for span in group)
        how = next(one for one in _WORST if one in counted)
        ended = max(until if span.ended is None else span.ended for span in group)
        ends = ", ".join(f"{count} {one}" for one, count in counted.items())
        began = min(span.began for span in group)
        name = plain_label(host)
        text = f"{name}, attempt {attempt}, {len(group)} ranks: {ends}"
        bars.append(_Bar(name, began, max(ended, began), how, text))
    return bars
