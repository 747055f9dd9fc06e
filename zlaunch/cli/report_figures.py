"""The plots of what the ranks told of their training, made with plotly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from zlaunch.cli.report_numbers import LINES
from zlaunch.cli.report_plot import COLOURS, HEIGHT, Numbers, Plot, layout, moment
from zlaunch.frozen import frozen
from zlaunch.insight.curves import Curve, Curves
from zlaunch.insight.thinning import Point

OVERFLOW_COLOUR = "#d62f2f"


@frozen
class Asked:
    """One plot: the quantities that it shows, the better one first."""

    id: str
    title: str
    quantities: tuple[str, ...]
    digits: str = ".4g"
    log: bool = False


PLOTS = (
    Asked("loss", "Loss", ("loss", "eval_loss")),
    Asked("lr", "Learning rate", ("lr",), ".3g"),
    Asked("loss-scale", "Loss scale", ("loss_scale",), ",.10g", log=True),
    Asked("samples", "Samples per second", ("samples_per_second",)),
    Asked("tokens", "Tokens per second", ("tokens_per_second",), ",.5g"),
    Asked("step-seconds", "Seconds per step", ("step_seconds",), ".3g"),
    Asked("grad-norm", "Norm of the gradients", ("grad_norm",)),
)
_NAMES = {"eval_loss": "evaluation"}


def training_plots(curves: Curves, *, timed: bool = True) -> list[Plot]:
    """The plots for which there is anything; not `timed`, lines of a log stand for times."""
    plots = [_training_plot(asked, curves, timed) for asked in PLOTS]
    return [plot for plot in plots if plot is not None]


def _training_plot(asked: Asked, curves: Curves, timed: bool) -> Plot | None:
    import plotly.graph_objects as go

    shown = [
        replace(curve, points=curves.placed(curve.points), broken=curves.placed(curve.broken))
        for quantity in asked.quantities
        for curve in curves.of(quantity)
    ]
    marks: tuple[Point, ...] = ()
    if asked.log:
        shown, marks = _holding(shown, curves), curves.placed(curves.overflows)
    points = [*marks, *(p for curve in shown for p in (*curve.points, *curve.broken))]
    if not points:
        return None
    axis = _Axis(points, timed)
    figure = go.Figure(layout=layout(HEIGHT))
    figure.update_xaxes(title=axis.title, type=axis.type)
    if axis.title == "step" and curves.reach is not None:
        figure.update_xaxes(**_reaching(*curves.reach))
    figure.update_yaxes(exponentformat="e" if asked.id == "lr" else "SI")
    named = _names(shown)
    for at, (curve, name) in enumerate(zip(shown, named, strict=True)):
        _draw(figure, axis, curve, name, COLOURS[at % len(COLOURS)], log=asked.log)
    if marks:
        _mark(figure, axis, marks, "overflow", symbol="x")
    figure.update_layout(showlegend=len(figure.data) > 1)
    values = [point.value for point in points]
    if asked.log:
        _powers_of_two(figure, [value for value in values if value > 0])
    elif min(values) == max(values) or asked.id == "lr":  # else plotly draws it around 0
        high = max(0, 1.2 * max(values)) or 1.0
        figure.update_yaxes(range=[min(-0.04 * high, 1.2 * min(values)), high])
    numbers = tuple(map(_numbers, named, shown, [asked.digits] * len(shown)))
    return Plot(asked.id, asked.title, figure.to_json(), HEIGHT,
                _said(asked, shown, curves), numbers)  # fmt: skip


def _reaching(low: float, high: float) -> dict[str, Any]:
    """An axis of steps, the same in all plots."""
    beside = 0.03 * (high - low or 1)
    return {"range": [low - beside, high + beside], "dtick": 1 if high - low <= 10 else None}


def _holding(shown: list[Curve], curves: Curves) -> list[Curve]:
    """The loss scale is told when it changes: the last one holds until the last step."""
    if not shown or not shown[-1].points or curves.step is None:
        return shown
    last = shown[-1].points[-1]
    if last.step is None or last.step >= curves.step:
        return shown
    held = replace(last, step=curves.step)
    return [*shown[:-1], replace(shown[-1], points=(*shown[-1].points, held))]


class _Axis:
    """What the points of a plot have in common to stand over: the step, the epoch, the time."""

    def __init__(self, points: Sequence[Point], timed: bool) -> None:
        self.type = "linear"
        if all(point.step is not None for point in points):
            self._kind, self.title = "step", "step"
        elif all(point.epoch is not None for point in points):
            self._kind, self.title = "epoch", "epoch"
        elif timed:
            self._kind, self.title, self.type = "time", "time", "date"
        else:
            self._kind, self.title = "line", "line of the log"

    def of(self, points: Iterable[Point]) -> list[Any]:
        if self._kind == "time":
            return [moment(point.at) for point in points]
        if self._kind == "line":
            return [point.at % LINES for point in points]
        return [getattr(point, self._kind) for point in points]


def _names(shown: Sequence[Curve]) -> list[str]:
    """What tells the curves apart: the rank, the attempt, the quantity where there are several."""
    ranks = {curve.rank for curve in shown}
    attempts = {curve.attempt for curve in shown}
    quantities = {curve.quantity for curve in shown}
    names = []
    for curve in shown:
        parts = [_NAMES.get(curve.quantity, curve.quantity)] if len(quantities) > 1 else []
        parts += [f"rank {curve.rank}"] if len(ranks) > 1 else []
        parts += [f"attempt {curve.attempt}"] if len(attempts) > 1 else []
        names.append(", ".join(parts) or f"rank {curve.rank}")
    return names


def _draw(figure: Any, axis: _Axis, curve: Curve, name: str, colour: str, *, log: bool) -> None:
    import plotly.graph_objects as go

    few = len(curve.points) <= 60
    line = {
        "color": colour,
        "width": 1.8,
        "dash": "dash" if curve.quantity == "eval_loss" else None,
    }
    figure.add_trace(
        go.Scatter(
            x=axis.of(curve.points),
            y=[point.value for point in curve.points],
            name=name,
            mode="lines+markers" if few else "lines",
            line={**line, "shape": "hv" if log else "linear"},
            marker={"size": 5},
        )
    )
    if curve.broken:
        _mark(figure, axis, curve.broken, f"{name}: nan or inf", symbol="diamond")


def _mark(figure: Any, axis: _Axis, points: Sequence[Point], name: str, *, symbol: str) -> None:
    import plotly.graph_objects as go

    figure.add_trace(
        go.Scatter(
            x=axis.of(points),
            y=[point.value for point in points],
            name=name,
            mode="markers",
            marker={"symbol": symbol, "color": OVERFLOW_COLOUR, "size": 8},
        )
    )


def _powers_of_two(figure: Any, values: Sequence[float]) -> None:
    """A logarithmic axis whose ticks are what loss scales are."""
    if not values:
        return
    low, high = min(values), max(values)
    powers = [2.0**n for n in range(-30, 64) if low / 2 <= 2.0**n <= high * 2]
    every = 1 + len(powers) // 9
    ticks = powers[::every]
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[_power(value) for value in ticks])


def _power(value: float) -> str:
    return f"{value:,.0f}" if 1 <= value < 1 << 40 else f"{value:.3g}"


def _numbers(name: str, curve: Curve, digits: str) -> Numbers:
    def written(value: float) -> str:
        return format(value, digits)

    if not curve.points:
        return Numbers(name, curve.broken_told, *["not a number"] * 4)
    values = [point.value for point in curve.points]
    return Numbers(name, curve.told + curve.broken_told, written(values[0]), written(values[-1]),
                   written(min(values)), written(max(values)))  # fmt: skip


def _said(asked: Asked, shown: Sequence[Curve], curves: Curves) -> str:
    said = []
    broken = sum(curve.broken_told for curve in shown)
    if broken:
        what = "1 value is" if broken == 1 else f"{broken:,} values are"
        said.append(f"{what} nan or infinite, and marked at the height of the last good one")
    if asked.id == "loss-scale" and curves.overflows.count:
        skipped = f", {curves.skipped:,} steps skipped in all" if curves.skipped else ""
        many = (
            "1 overflow was"
            if curves.overflows.count == 1
            else (f"{curves.overflows.count:,} overflows were")
        )
        said.append(f"{many} told{skipped}")
        if any(point.step is None for point in curves.overflows):
            said.append("their steps lie between those told before and after")
    thinned = [curve for curve in shown if curve.told > len(curve.points)]
    if thinned:
        most = max(curve.told for curve in thinned)
        said.append(f"of {most:,} values the lowest and the highest of each stretch are drawn")
    if any(curves.left_out(quantity) for quantity in asked.quantities):
        said.append("more ranks or attempts told it than are drawn")
    return "; ".join(said)
