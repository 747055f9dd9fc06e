"""The plots of what each rank takes."""

from __future__ import annotations

from zlaunch.cli.report_plot import COLOURS, HEIGHT, Numbers, Plot, layout, moment
from zlaunch.insight.curves import Curves, spread
from zlaunch.insight.thinning import Thinned

_SEVERAL = 16  # ranks, with a line each
_GIB = 1 << 30


def memory_plots(curves: Curves) -> list[Plot]:
    """What the ranks take on GPUs, and on hosts."""
    plots = [
        _memory_plot("gpu-memory", "GPU memory of each rank", curves.usage["gpu_memory"], curves),
        _memory_plot("rss", "Host memory of each rank (RSS)", curves.usage["rss"], None),
    ]
    return [plot for plot in plots if plot is not None]


def _memory_plot(
    id_: str, title: str, usage: dict[int, Thinned], curves: Curves | None
) -> Plot | None:
    import plotly.graph_objects as go

    if not usage:
        return None
    figure = go.Figure(layout=layout(HEIGHT))
    figure.update_xaxes(type="date")
    figure.update_yaxes(title="GiB", rangemode="tozero")
    if len(usage) <= _SEVERAL:
        lines = [
            (f"rank {rank}", [moment(p.at) for p in series], [p.value for p in series])
            for rank, series in sorted(usage.items())
        ]
        said = ""
    else:
        band = spread({rank: tuple(series) for rank, series in usage.items()})
        when = [moment(one.at) for one in band]
        lines = [
            ("the highest rank", when, [one.high for one in band]),
            ("the rank in the middle", when, [one.middle for one in band]),
            ("the lowest rank", when, [one.low for one in band]),
        ]
        said = f"{len(usage)} ranks: at each time the highest, the middle and the lowest of them"
    for at, (name, x, y) in enumerate(lines):
        figure.add_trace(
            go.Scatter(
                x=x,
                y=[value / _GIB for value in y],
                name=name,
                mode="lines+markers" if len(x) <= 30 else "lines",
                line={"color": COLOURS[at % len(COLOURS)], "width": 1.8},
                marker={"size": 5},
            )
        )
    totals = set(curves.gpu_total.values()) if curves is not None else set()
    if len(totals) == 1:
        whole = totals.pop()
        said = "; ".join(filter(None, [said, f"each GPU has {whole / _GIB:.1f} GiB"]))
    return Plot(id_, title, figure.to_json(), HEIGHT, said, _peaks(usage))


def _peaks(usage: dict[int, Thinned]) -> tuple[Numbers, ...]:
    rows = []
    for rank, series in sorted(usage.items()):
        first, last, low, high = (
            f"{point.value / _GIB:.2f} GiB" if point is not None else ""
            for point in (series.first, series.last, series.lowest, series.highest)
        )
        rows.append(Numbers(f"rank {rank}", series.count, first, last, low, high))
    return tuple(rows)
