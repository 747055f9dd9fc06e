"""What holds for lint as a whole: it never fails, never repeats itself, is quick."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.dsconfig.document import Document, Position
from zlaunch.dsconfig.finding import Around, Disk
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.reader import read_document
from zlaunch.dsconfig.recipes import load_recipe, recipe_names
from zlaunch.dsconfig.render import render, to_json
from zlaunch.dsconfig.schema import own_schema
from zlaunch.dsconfig.versions import READ

SCHEMAS = [own_schema(version) for version in READ]
PATHS = sorted({path for schema in SCHEMAS for path in schema.names()})
ODD = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 2.5, 1e400, -1e400, float("nan"), 10**30, 10**400),
        *("auto", "", "5e8", "nan", "1e999", "x" * 99),
        *([], [1, None], [{}], {}, {"enabled": True}, {"device": "nvme"}),
    ]
)


@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.tuples(st.sampled_from(PATHS), ODD), max_size=8),
    st.integers(0, len(SCHEMAS) - 1),
    st.sampled_from(["plain", "hf", "accelerate"]),
    st.sampled_from([None, 1, 2, 13]),
    st.sampled_from([None, True, False]),
)
def test_no_config_breaks_it(entries, version, target, world, known):
    config: dict = {}
    for path, value in entries:
        table = config
        for name in path[:-1]:
            below = table.get(name)
            table[name] = below if isinstance(below, dict) else {}
            table = table[name]
        table[path[-1]] = copy.deepcopy(value)  # a section may be written into below
    circumstances = Around(SCHEMAS[version], target, world, bf16=known, cpu=known)
    for document in (Document(config), read_document(json.dumps(config))):
        for finding in lint(document, circumstances):
            json.dumps(finding.to_json())
            assert finding.text
            assert finding.code


@settings(deadline=None)
@given(st.text(max_size=60), st.sampled_from(["plain", "hf", "accelerate"]))
def test_no_text_breaks_it(text, target):
    findings = lint(read_document(text), Around(SCHEMAS[-1], target))
    value = read_document(text).value
    assert isinstance(value, dict) or any(finding.level == "error" for finding in findings)


@pytest.mark.parametrize(("fp16", "level"), [(False, "error"), (None, "warning"), (True, None)])
def test_fp16_on_cpus_is_as_bad_as_is_known_of_them(fp16, level):
    document = read_document('{"train_batch_size": 8, "fp16": {"enabled": true}}')
    findings = lint(document, Around(SCHEMAS[-1], cpu=True, bf16=True, fp16=fp16))
    found = [f.level for f in findings if f.code == "fp16-on-cpu"]
    assert found == ([level] if level else [])


def test_findings_are_in_the_order_of_the_file():
    text = '{\n"steps_per_print": "x",\n"stage": 3,\n"train_batch_size": 0\n}'
    findings = lint(read_document(text), Around(SCHEMAS[-1]))
    assert [(f.path, f.place) for f in findings] == [
        ("steps_per_print", Position(2, 20)),
        ("stage", Position(3, 1)),
        ("train_batch_size", Position(4, 21)),
    ]


def test_reading_on_behind_a_slip_finds_the_next_one():
    text = '{\n"train_batch_size": 8,\n"fp16": {"enabled": True},\n"stagge": 1\n}'
    codes = {f.code for f in lint(read_document(text), Around(SCHEMAS[-1])) if f.level != "note"}
    assert codes == {"python-word", "unknown-key"}


@pytest.mark.parametrize(
    ("version", "level"),
    [((0, 14, 0), "warning"), ((0, 18, 0), "warning"), ((0, 19, 3), "error")],
)
def test_a_warm_up_of_none_is_refused_by_newer_versions_only(version, level):
    text = """{"train_batch_size": 8, "scheduler":
        {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}}"""
    (found,) = lint(read_document(text), Around(own_schema(version)))
    assert (found.code, found.level) == ("zero-warmup", level)


@pytest.mark.parametrize(("version", "errors"), [((0, 16, 9), ["bf16.enabled"]), (READ[-1], [])])
def test_auto_is_true_for_old_versions(version, errors):
    text = """{"train_batch_size": 8, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}"""
    findings = lint(read_document(text), Around(own_schema(version)))
    assert [f.path for f in findings if f.level == "error"] == errors
    assert {f.code for f in findings} >= {"auto-default"}


@pytest.mark.parametrize(
    ("disk", "code", "level"),
    [
        (Disk(exists=False, makeable=True), "nvme-missing", "note"),
        (Disk(exists=False), "nvme-missing", "error"),
        (Disk(exists=True), "nvme-missing", "error"),
        (Disk(exists=True, directory=True), "nvme-not-writable", "error"),
        (Disk(exists=True, directory=True, writable=True, free=2**29), "nvme-too-small", "error"),
        (Disk(exists=True, directory=True, writable=True, free=2**32), None, None),
        (Disk(exists=True, directory=True, writable=True), None, None),
    ],
)
def test_disks(disk, code, level):
    text = """{"train_batch_size": 8, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/d"}}}"""
    findings = lint(read_document(text), Around(SCHEMAS[-1], disks={"/d": disk}))
    assert [(f.code, f.level) for f in findings] == ([(code, level)] if code else [])


def test_the_size_of_the_model_counts():
    text = """{"train_batch_size": 8, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/d"}}}"""
    disks = {"/d": Disk(exists=True, directory=True, writable=True, free=100 * 2**30)}
    small = Around(SCHEMAS[-1], disks=disks, parameters=10**9)
    large = Around(SCHEMAS[-1], disks=disks, parameters=7 * 10**9)
    assert lint(read_document(text), small) == ()
    assert [f.code for f in lint(read_document(text), large)] == ["nvme-too-small"]


def test_it_is_quick():
    text = (Path(__file__).parent / "good" / "hf-zero3.json").read_text("utf-8")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        lint(read_document(text), Around(SCHEMAS[-1], "hf", 8))
        times.append(time.perf_counter() - start)
    assert min(times) < 0.2  # 3 ms where nothing else runs


@pytest.mark.parametrize("target", ["plain", "hf", "accelerate"])
@pytest.mark.parametrize("world", [1, 2, 8, 13])
def test_every_recipe_is_clean(sources, target, world):
    for name in recipe_names(sources):
        recipe = load_recipe(name, sources)
        for precision in ("fp16", "bf16", "fp32") if recipe.deepspeed else ():
            rendered = render(
                recipe.config,
                precisions=recipe.precisions,
                precision=precision,
                target=target,
                world_size=world,
            )
            circumstances = Around(SCHEMAS[-1], target, world, bf16=True, cpu=False)
            findings = lint(read_document(to_json(rendered.config)), circumstances)
            assert findings == (), (name, precision)


def test_line_ends_of_other_systems_do_not_move_the_places():
    text = '{\r\n\t"train_batch_size": 8,\r\n\t"stagge": 1\r\n}\r\n'
    (found,) = lint(read_document(text), Around(SCHEMAS[-1]))
    assert (found.code, found.place) == ("unknown-key", Position(3, 2))


def test_a_newer_deepspeed_may_have_keys_that_are_not_known_here():
    schema = replace(SCHEMAS[-1], version=(9, 0, 0))
    text = '{"train_batch_size": 8, "gradient_clippings": 1, "zero_optimization": {"stagge": 1}}'
    findings = lint(read_document(text), Around(schema))
    assert [(f.path, f.level) for f in findings] == [
        ("gradient_clippings", "warning"),
        ("zero_optimization.stagge", "error"),
    ]
