from __future__ import annotations

import pytest

from zlaunch.dsconfig.explain import TABLE, explain, explain_config, find_keys, named, near_keys
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
