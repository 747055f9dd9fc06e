"""Prometheus' text, read with Prometheus' own parser."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from zlaunch.insight.exposition import Family, Sample, exposition
from zlaunch.insight.metric_families import Standing, families
from zlaunch.run.metrics import Metric

# The parser ends lines where Python does, which Prometheus does not.
texts = st.text(
    st.characters(exclude_categories=["Cs", "Zl", "Zp", "Cc"]) | st.sampled_from('\n\\"')
)


@given(texts, texts, st.floats() | st.integers(-(2**53), 2**53))
def test_what_is_written_is_read(label: str, words: str, value: float) -> None:
    family = Family("a_b", "gauge", words, (Sample({"run": label, "rank": "0"}, value),))
    (read,) = text_string_to_metric_families(exposition([family]).decode())
    (sample,) = read.samples
    assert sample.labels == {"run": label, "rank": "0"}
    assert sample.value == value or (math.isnan(value) and math.isnan(sample.value))
    assert (read.name, read.type) == ("a_b", "gauge")


def test_a_family_without_samples_is_left_out() -> None:
    assert exposition([Family("a", "gauge", "Nothing.", ())]) == b""


def test_the_families_of_a_run() -> None:
    newest = [
        Metric(2.0, 1, 0, "print", step=7, loss=math.nan),
        Metric(1.0, 1, 0, "deepspeed", step=6, lr=1e-4, skipped=3, loss_scale=65536.0),
        Metric(3.0, 1, 1, "system", gpu_memory=2**40, rss=5),
    ]
    standing = Standing('run "1"', 3, frozenset((0, 1)), 1)
    text = exposition(families(standing, newest, {0: 12.5})).decode()
    read = {
        sample.name: {**seen}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for seen in [{s.labels.get("rank"): s.value for s in family.samples}]
    }
    assert read["zlaunch_attempt"] == {None: 1.0}
    assert read["zlaunch_rank_up"] == {"0": 1.0, "1": 1.0, "2": 0.0}
    assert read["zlaunch_step"] == {"0": 7.0}
    assert math.isnan(read["zlaunch_loss"]["0"])
    assert read["zlaunch_skipped_steps_total"] == {"0": 3.0}
    assert read["zlaunch_learning_rate"] == {"0": 1e-4}
    assert read["zlaunch_loss_scale"] == {"0": 65536.0}
    assert read["zlaunch_gpu_memory_bytes"] == {"1": 2.0**40}
    assert read["zlaunch_seconds_left"] == {"0": 12.5}
    assert text.count('run="run \\"1\\""') == len([x for x in text.splitlines() if x[0] != "#"])
    assert text.count("# HELP ") == text.count("# TYPE ") == len(read)
    assert "# TYPE zlaunch_skipped_steps_total counter\n" in text
