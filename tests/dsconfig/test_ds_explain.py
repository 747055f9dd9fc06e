from __future__ import annotations

import pytest

from zlaunch.dsconfig.explain import (
    TABLE,
    explain,
    explain_config,
    find_keys,
    named,
    near_keys,
    sections_with,
    taken_out,
)
from zlaunch.dsconfig.schema import UNKNOWN, own_schema
from zlaunch.dsconfig.versions import READ, parse_version

SCHEMA = own_schema()


def test_every_key_is_explained_and_nothing_else():
    keys = {named(path) for path in SCHEMA.names()}
    assert keys == {*TABLE}
    assert all(does for does, _, _ in TABLE.values())


@pytest.mark.parametrize("version", READ)
def test_older_versions_have_their_own_defaults(version):
    schema = own_schema(version)
    clipping = explain(("gradient_clipping",), schema).default
    assert clipping == (1.0 if version >= (0, 19, 3) else 0.0)
    assert (schema.field("log_level") is not None) == (version >= (0, 19, 3))
    assert (schema.field("amp") is not None) == (version < (0, 19, 8))


def test_a_key_is_found_by_its_path_or_its_name():
    assert find_keys("zero_optimization.stage", SCHEMA) == (("zero_optimization", "stage"),)
    assert find_keys("stage", SCHEMA) == (("zero_optimization", "stage"),)
    assert find_keys("offload_param.device", SCHEMA) == (
        ("zero_optimization", "offload_param", "device"),
    )
    assert len(find_keys("fp16", SCHEMA)) > 5
    assert find_keys("quokka", SCHEMA) == ()
    assert near_keys("gradient_cliping", SCHEMA)[0] == "gradient_clipping"
    assert near_keys("overlap_com", SCHEMA)[0] == "zero_optimization.overlap_comm"


@pytest.mark.parametrize("text", ["", ".", "..", "a..b", "fp16..enabled", '""', " "])
def test_a_name_with_nothing_in_it_is_no_key(text):
    assert find_keys(text, SCHEMA) == ()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("zero_optimization.stage.", "zero_optimization.stage"),
        ("ZERO_OPTIMIZATION.STAGE", "zero_optimization.stage"),
        ("Zero-Optimization.stage", "zero_optimization.stage"),
        ('"stage"', "zero_optimization.stage"),
        (" stage ", "zero_optimization.stage"),
        ("stage3_max_live_parameters", "zero_optimization.stage3_max_live_parameters"),
        ("warmupNumSteps", "scheduler.params.warmup_num_steps"),
    ],
)
def test_keys_are_found_as_people_write_them(text, key):
    assert find_keys(text, SCHEMA) == (tuple(key.split(".")),)


def test_a_name_in_many_sections():
    sections = sections_with(find_keys("enabled", SCHEMA))
    assert {"fp16", "bf16", "data_efficiency.data_sampling"} <= {*sections}
    assert sections_with(find_keys("stage", SCHEMA)) == ["zero_optimization"]
    assert sections_with(find_keys("gradient_clipping", SCHEMA)) == ["the top"]
    assert sections_with(find_keys("zero_optimization", SCHEMA)) == ["the top"]


def test_names_of_others_and_of_former_times():
    assert near_keys("learning_rate", SCHEMA) == ["optimizer.params.lr"]
    assert near_keys("aio.thread_count", SCHEMA) == ["aio.intra_op_parallelism"]
    assert near_keys("warmup_step", SCHEMA)[0] == "scheduler.params.warmup_num_steps"
    assert taken_out("amp", SCHEMA) == "amp was taken out of DeepSpeed in 0.19.8"
    assert taken_out("amp", own_schema((0, 18, 0))) is None
    assert taken_out("stage", SCHEMA) is None


def test_what_is_said_of_one():
    found = explain(("zero_optimization", "stage3_prefetch_bucket_size"), SCHEMA)
    assert (found.default, found.kind, found.stages) == (50_000_000, "int", "3")
    assert "bytes an element" in found.cost
    data = explain(("optimizer", "params"), SCHEMA).to_json()
    assert "default" not in data


def test_a_config_is_explained_in_its_order():
    config = {"fp16": {"enabled": True}, "mine": 1, "train_batch_size": 8}
    found = list(explain_config(config, SCHEMA))
    assert [(one.path, one.written) for one in found] == [
        ("fp16", UNKNOWN),
        ("fp16.enabled", True),
        ("train_batch_size", 8),
    ]


def test_versions_are_read():
    assert parse_version("0.17.6+unknown") == (0, 17, 6)
    assert parse_version("0.19") == (0, 19, 0)
    assert parse_version("main") is None
