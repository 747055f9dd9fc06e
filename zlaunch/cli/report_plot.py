"""What all plots of a report share. Colours of text and grid come from the page's style."""

from __future__ import annotations

import time
from html import escape
from typing import Any

from zlaunch.frozen import frozen

# Told apart on white and on black, and by people who do not see all colours (Okabe and Ito).
COLOURS = ("#2f86d0", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6bb1", "#7f7f7f")
HEIGHT = 320
"""Of a plot, in pixels."""


@frozen
class Numbers:
    """A row of the table below a plot: the same in numbers."""

    name: str
    told: int
    first: str
    last: str
    lowest: str
    highest: str


@frozen
class Plot:
    """A figure as plotly's JSON, what is said with it, and the same in numbers."""

    id: str
    title: str
    figure: str
    height: int
    said: str = ""
    numbers: tuple[Numbers, ...] = ()


def moment(at: float) -> str:
    """A time as plotly's axes read it, in this machine's zone."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03}"


def layout(height: int) -> dict[str, Any]:
    """What all plots share."""
    return {
        "height": height,
        "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "template": "none",
        "font": {"size": 12},
        "hovermode": "closest",
        "showlegend": True,
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        "xaxis": {"automargin": True, "showgrid": True, "zeroline": False},
        "yaxis": {"automargin": True, "showgrid": True, "zeroline": False},
    }


def plain_label(text: str) -> str:
    """A text of others as plotly shows it: its labels have a little HTML of their own."""
    return escape(text, quote=False)
