"""The page of a report: what is shown of the material, and the HTML around it.

Nothing of the page comes from elsewhere: styles, scripts and data stand in it. Its content
security policy forbids the network, and any script but the two that are named by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib import resources
from typing import Any

from zlaunch import __version__
from zlaunch.cli import diagnosis_text
from zlaunch.cli.report_figures import training_plots
from zlaunch.cli.report_material import Material
from zlaunch.cli.report_memory import memory_plots
from zlaunch.cli.report_plot import Plot
from zlaunch.cli.report_timeline import how_in_words, timeline_plot
from zlaunch.dsconfig.difference import ABSENT, Difference
from zlaunch.errors import InputError
from zlaunch.insight.evidence import Cause
from zlaunch.insight.exits import signal_name
from zlaunch.launcher.report import duration
from zlaunch.run.record import LOST, RUNNING
from zlaunch.run.timeline import FAILED, Mark, Span
from zlaunch.spec.ranks import describe_ranks
from zlaunch.spec.redact import HIDDEN, is_secret, secret_values
from zlaunch.spec.redact_text import redact_texts

_SPANS = 2000  # listed
_OPEN = 16  # rows of a table that is open at once


def check_libraries() -> None:
    """Raise InputError where the libraries for a page are not installed."""
    try:
        import jinja2  # noqa: F401
        import plotly.offline  # noqa: F401
    except ImportError as error:
        name = (error.name or "plotly").partition(".")[0]
        raise InputError(f"a report needs {name}", hint="pip install 'zlaunch[report]'") from error


def page_of(material: Material, now: float) -> str:
    """Return the whole page, as of `now`."""
    import jinja2
    import plotly.offline

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_part), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    scripts = [plotly.offline.get_plotlyjs(), _part("report.js")]
    shown = redact_texts(_as_data(material), secret_values(os.environ))
    page = environment.get_template("report.html").render(
        shown,
        figures=_figures(material),
        policy=_policy(scripts),
        scripts=scripts,
        style=_part("report.css"),
        version=__version__,
        written=time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)),
    )
    return page.encode("utf-8", "backslashreplace").decode()  # names may hold any bytes


def _part(name: str) -> str:
    return (resources.files("zlaunch.cli") / "page" / name).read_text("utf-8")


def _policy(scripts: Iterable[str]) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


# Plots


def _figures(material: Material) -> dict[str, Any]:
    told = material.timeline
    steps = material.curves.first_steps if material.timed else {}
    ran = timeline_plot(told, material.evidence.hosts, steps, material.until)
    return {
        "timeline": None if ran is None else _plot(ran),
        "training": [_plot(one) for one in training_plots(material.curves, timed=material.timed)],
        "memory": [_plot(one) for one in memory_plots(material.curves)],
    }


def _plot(plot: Plot) -> dict[str, Any]:
    """The figure's JSON stands in a script element, which no text in it may end."""
    from markupsafe import Markup

    safe = plot.figure
    for character in "<>&\u2028\u2029":
        safe = safe.replace(character, f"\\u{ord(character):04x}")
    return {**asdict(plot), "figure": Markup(safe)}  # noqa: S704  # made safe above


# Data


def _as_data(material: Material) -> dict[str, Any]:
    """What the page tells, as plain data, in which secrets can be hidden."""
    spans = material.timeline.spans
    return {
        "title": material.title,
        "state": material.state,
        "live": material.state == RUNNING,
        "lost": material.state == LOST,
        "headline": material.headline,
        "facts": [list(fact) for fact in material.facts],
        "causes": [_cause(cause, material) for cause in material.diagnosis.causes],
        "noticed": [{**_cause(cause, material), "who": ""} for cause in material.diagnosis.noticed],
        "victims": _victims(material.diagnosis.victims),
        "guessed": material.guessed,
        "of_log": material.of_log,
        "spans": [_span(span, material) for span in spans[:_SPANS]],
        "spans_left_out": max(0, len(spans) - _SPANS),
        "open_spans": len(spans) <= _OPEN,
        "marks": [[_clock(mark.at), _mark(mark)] for mark in material.timeline.marks],
        "notes": list(material.notes),
        "config": _config(material.config),
        "changes": _changes(material),
    }


def _cause(cause: Cause, material: Material) -> dict[str, Any]:
    who = diagnosis_text.who(cause, material.evidence) if cause.ranks else ""
    quoted = diagnosis_text.quoted(cause, material.diagnosis, material.evidence)
    return {
        "code": cause.code,
        "who": who,
        "title": cause.title,
        "details": list(cause.details),
        "mends": list(cause.mends),
        "quoted": [line.removeprefix("  ") for line in quoted],
    }


def _victims(victims: Mapping[int, str]) -> list[list[str]]:
    by_reason: dict[str, list[int]] = {}
    for rank, why in victims.items():
        by_reason.setdefault(why, []).append(rank)
    return [[describe_ranks(ranks), why] for why, ranks in by_reason.items()]


def _span(span: Span, material: Material) -> dict[str, Any]:
    causes = enumerate(material.diagnosis.causes, 1)
    last = span.attempt == material.timeline.attempts - 1
    cause = next((number for number, cause in causes if span.rank in cause.ranks), None)
    ended = material.until if span.ended is None else span.ended
    return {
        "attempt": span.attempt,
        "rank": span.rank,
        "host": material.evidence.hosts.get(span.rank, ""),
        "device": material.devices.get(span.rank, ""),
        "pid": "" if span.pid is None else span.pid,
        "began": _clock(span.began),
        "ran": duration(max(0.0, ended - span.began)),
        "how": how_in_words(span),
        "kind": span.how.split()[-1],
        "cause": cause if last and span.how == FAILED else None,
    }


def _mark(mark: Mark) -> str:
    return mark.text if mark.signal is None else f"{mark.text} {signal_name(mark.signal)}"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03}"


def _config(config: Mapping[str, Any] | None) -> str:
    return "" if config is None else json.dumps(_without_secrets(config), indent=2)


def _without_secrets(value: Any) -> Any:
    """Hide texts under names of secrets, wherever they stand."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(below, str) and is_secret(key) else _without_secrets(below)
            for key, below in value.items()
        }
    return [_without_secrets(one) for one in value] if isinstance(value, list) else value


def _changes(material: Material) -> dict[str, Any] | None:
    changes = material.changes
    if changes is None:
        return None
    rows = [_change(one) for one in changes.found]
    return {"recipe": changes.recipe, "said": changes.said, "rows": rows}


def _change(one: Difference) -> dict[str, str]:
    key = one.path.rpartition(".")[2]

    def written(value: Any) -> str:
        if value is ABSENT:
            return ""
        return json.dumps(_without_secrets({key: value})[key])

    return {"path": one.path, "before": written(one.before), "after": written(one.after)}
