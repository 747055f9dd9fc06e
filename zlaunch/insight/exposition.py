"""Prometheus' text form, version 0.0.4: what `--metrics-port` answers with.

It is so small that prometheus_client, which loads a web server and TLS with it, is none of what a
run needs; the tests read what is written here with that library's parser.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from zlaunch.frozen import frozen

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@frozen
class Sample:
    """One value, with the labels that tell it from the others of its family."""

    labels: Mapping[str, str]
    value: float


@frozen
class Family:
    """What is measured: its name, the kind of number, a sentence, and the samples."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: tuple[Sample, ...]


def exposition(families: Iterable[Family]) -> bytes:
    """Return the text; a family without samples is left out."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines.append(f"# HELP {family.name} {_escaped(family.help)}")
            lines.append(f"# TYPE {family.name} {family.kind}")
            lines += (_line(family.name, sample) for sample in family.samples)
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{key}="{_quoted(text)}"' for key, text in sample.labels.items())
    return (
        f"{name}{{{labels}}} {_number(sample.value)}"
        if labels
        else f"{name} {_number(sample.value)}"
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
