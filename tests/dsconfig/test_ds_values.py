"""Odd values under every key: lint calls wrong what DeepSpeed refuses, and nothing that it takes.

The real DeepSpeedConfig is asked about all of them in one process. Exceptions are failures that
come later than DeepSpeedConfig, each with its reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from zlaunch.dsconfig.finding import Around, Finding
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.reader import read_document
from zlaunch.dsconfig.schema import Schema

pytestmark = pytest.mark.deepspeed

# Texts of JSON, as a user writes them.
VALUES = (
    *("0", "1", "-1", "2", "7", "-0.0", "2.5", "-0.5", "1e-9", "1e9", "1e19", "1e30", "-1e30"),
    *("1e308", "1e400", str(2**63 - 1), str(2**63), str(-(2**63) - 1), f"1{'0' * 40}"),
    *('""', '"x"', '"auto"', '"AUTO"', '"8"', '" 8 "', '"8.0"', '"8."', '"+8"', '"08"', '"1_000"'),
    *('"5e8"', '"0x8"', '"-1"', '"1e30"', f'"1{"0" * 40}"', '"nan"', '"inf"', '"none"', '"cpu"'),
    *('"true"', '"False"', '"yes"', '"off"', '"on "', "true", "false", "null"),
    *(
        "[]",
        "{}",
        "[1]",
        '["x"]',
        "[null]",
        "[0.9, 0.95]",
        '{"a": 1}',
        '{"enabled": true}',
        '{"": 1}',
    ),
)
# What stands around the value: most checks of DeepSpeed's own depend on the stage.
BASES: tuple[dict[str, Any], ...] = (
    {},
    {"zero_optimization": {"stage": 3}},
    {
        "zero_optimization": {
            "stage": 3,
            "offload_param": {"device": "nvme", "nvme_path": "/nvme"},
            "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"},
        },
        "fp16": {"enabled": True},
    },
)
BESIDE = {"optimizer": {"type": "AdamW", "params": {}}, "scheduler": {"type": "WarmupLR"}}

# Codes of keys in DeepSpeed's models, and what comes later than DeepSpeedConfig.
LATER = {
    "zero-bucket": "the engine gathers nothing with a bucket of nothing",
    "offload-needs-stage": "the engine refuses offload without ZeRO, and to NVMe below stage 3",
    "offload-without-path": "the engine makes the directory of nvme_path",
    "needs-key": "the engine of ZenFlow refuses the pair",
    "removed-key": "the engine asserts that legacy_stage1 is off",
}
# Sizes of tensors, counts of them, and the power of a scale: torch fails on those out of range.
ALLOCATED = {"reduce_bucket_size", "buffer_size", "buffer_count", "initial_scale_power"}
ALLOCATED |= {"hysteresis"}  # below 1 the loss scale never comes down
# Refused because the reader runs without a GPU here, of which lint has not been told.
WITHOUT_GPU = ("aio", "use_gds")

READER = """
import json, logging, sys
import hjson
from deepspeed.runtime import config as module
from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys
logging.disable(logging.CRITICAL)
module.dist.get_rank = lambda: 0
module.dist.get_world_size = lambda: 1
answers = []
for text in json.load(sys.stdin):
    try:
        table = hjson.loads(text, object_pairs_hook=dict_raise_error_on_duplicate_keys)
        module.DeepSpeedConfig(table)
        answers.append("")
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
print("ANSWERS " + json.dumps(answers))
"""


def config_text(path: tuple[str, ...], value: str, base: dict[str, Any]) -> str:
    """A whole config with that value at that path; what else it needs is there."""
    config = json.loads(json.dumps({"train_batch_size": 8, **base}))
    if path[0] in BESIDE:
        config[path[0]] = json.loads(json.dumps(BESIDE[path[0]]))
        config[path[0]].setdefault("params", {})
    table = config
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = "THE VALUE"
    return json.dumps(config).replace('"THE VALUE"', value)


def cases(schema: Schema) -> Iterator[tuple[tuple[str, ...], str]]:
    for base in BASES:
        for path in schema.names():
            if not base or path[0] in base:
                for value in VALUES:
                    yield path, config_text(path, value, base)


@dataclass(frozen=True)
class Case:
    """A config, what DeepSpeedConfig says of it ("" where it takes it), and lint's errors."""

    path: tuple[str, ...]
    text: str
    said: str
    errors: tuple[Finding, ...]


@pytest.fixture(scope="module")
def answered(installed) -> list[Case]:
    asked = list(cases(installed))
    done = subprocess.run(
        [sys.executable, "-c", READER],
        input=json.dumps([text for _, text in asked]),
        capture_output=True,
        text=True,
        env={**os.environ, "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert lines, done.stderr
    answers = json.loads(lines[0].removeprefix("ANSWERS "))
    return [
        Case(path, text, said, errors(text, installed))
        for (path, text), said in zip(asked, answers, strict=True)
    ]


def errors(text: str, schema: Schema) -> tuple[Finding, ...]:
    findings = lint(read_document(text), Around(schema, world_size=1))
    return tuple(finding for finding in findings if finding.level == "error")


def test_what_deepspeed_refuses_is_an_error(answered):
    assert len(answered) > 15_000
    refused = [case for case in answered if case.said and case.path != WITHOUT_GPU]
    assert len(refused) > 5_000
    assert [(case.text, case.said) for case in refused if not case.errors] == []


def test_what_deepspeed_takes_is_no_error_unless_it_fails_later(answered, installed):
    """Where it reads with a model; what it reads without one it looks at when it is used."""
    false = [
        (case.text, finding.text)
        for case in answered
        if not case.said and installed.field(*case.path).lax
        for finding in case.errors
        if finding.code not in LATER and not _is_allocated(case.path, finding)
    ]
    assert false == []


def _is_allocated(path: tuple[str, ...], finding: Finding) -> bool:
    return path[-1] in ALLOCATED and finding.code == "out-of-range"


def test_every_exception_is_one(answered):
    """A reason that no case needs any more is to be taken out."""
    codes = {finding.code for case in answered if not case.said for finding in case.errors}
    assert {*LATER} <= codes
