"""What is said of a config and of recipes on a narrow terminal."""

from __future__ import annotations

import json

import pytest

from zlaunch.cli.findings_text import lines
from zlaunch.cli.screen import in_last_column
from zlaunch.dsconfig.finding import Around
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.reader import read_document
from zlaunch.dsconfig.schema import own_schema

LONG = {
    "train_batch_size": 32,
    "gradient_cliping": 1.0,
    "zero_optimization": {"stage": 2, "overlap_com": True, "reduce_bucket_size": "5e8"},
    "fp16": {"enabled": True},
    "bf16": {"enabled": True},
}
TEXTS = {
    "one line": json.dumps(LONG),
    "a tab a level": json.dumps(LONG, indent="\t"),
    "behind tabs": "\t\t\t" + json.dumps(LONG),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_the_caret_stands_below_what_is_meant_and_no_line_is_too_wide(text, width):
    found = lint(read_document(text), Around(own_schema(), world_size=2))
    assert len(found) >= 4
    for finding in found:
        shown = list(lines([finding], "ds.json", text, width))
        at = next(i for i, line in enumerate(shown) if line.strip() == "^")
        meant = text.split("\n")[finding.place.line - 1][finding.place.column - 1]
        assert shown[at - 1].expandtabs()[len(shown[at].expandtabs()) - 1] == meant
        widest = max(len(line.expandtabs()) for part in shown for line in part.split("\n"))
        assert widest <= width


def test_a_line_that_is_cut_says_so_at_both_ends():
    text = TEXTS["one line"]
    found = lint(read_document(text), Around(own_schema(), world_size=2))
    middle = next(one for one in found if one.path.endswith("overlap_com"))
    line = next(line for line in lines([middle], "ds.json", text, 60) if '"overlap_com"' in line)
    assert line.strip()[0] == "…" == line[-1]


def test_without_a_screen_a_finding_stays_in_one_line():
    text = TEXTS["one line"]
    found = lint(read_document(text), Around(own_schema(), world_size=2))
    shown = list(lines(found, "ds.json", text))
    assert not any("\n" in line for line in shown)


@pytest.mark.parametrize("width", [30, 60, 80])
def test_a_table_keeps_its_last_column_readable(width):
    row = in_last_column(["zero2", "2"], "optimizer states and gradients split over all", width)
    assert max(map(len, row.split("\n"))) <= width
    assert " ".join(row.split()) == "zero2 2 optimizer states and gradients split over all"
    assert in_last_column(["zero2", "2"], "x" * 100, None) == f"zero2  2  {'x' * 100}"
