"""The plan: what agents are told, what --dry-run shows, and what it keeps to itself."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.spec.environment import Rendezvous, Surroundings
from zlaunch.spec.hostfile import Host
from zlaunch.spec.plan import Command, Plan, make_plan
from zlaunch.spec.redact import HIDDEN
from zlaunch.spec.topology import lay_out

TOPOLOGY = lay_out([Host("a", (3,), address="10.0.0.1"), Host("b", ("GPU-1", 0))])
COMMAND = Command(("python", "-u", "train.py"), ("--lr", "1e-3"), "/somewhere")
DS_CONFIG = {"train_batch_size": 12, "zero_optimization": {"stage": 2}}


def plan(
    command: Command = COMMAND,
    inherited: dict[str, str] | None = None,
    extra: list[tuple[str, str]] | None = None,
) -> Plan:
    around = Surroundings(
        run_id="run7",
        run_dir="/state/run7",
        rendezvous=Rendezvous("10.0.0.1", 29123),
        device="cuda",
        target="hf",
        ds_config="/state/run7/ds_config.json",
        precision="bf16",
        cores={0: 8, 1: 8},
        inherited=inherited or {},
    )
    return make_plan(TOPOLOGY, dict.fromkeys((0, 1), command), around, DS_CONFIG, extra or [])


def test_shape_of_the_json() -> None:
    shown = plan().to_json()
    assert list(shown) == [
        "run_id",
        "world_size",
        "rendezvous",
        "nodes",
        "workers",
        "sent",
        "ds_config",
        "target",
        "preload",
        "operators",
    ]
    assert shown["run_id"] == "run7"
    assert shown["world_size"] == 3
    assert shown["rendezvous"] == {"address": "10.0.0.1", "port": 29123}
    assert shown["nodes"] == [
        {"node_rank": 0, "host": "a", "address": "10.0.0.1", "slots": [3]},
        {"node_rank": 1, "host": "b", "address": "b", "slots": ["GPU-1", 0]},
    ]
    assert shown["ds_config"] == DS_CONFIG
    assert shown["target"] == "hf"
    worker = dict(shown["workers"][2])
    assert worker.pop("env") == plan().workers[2].env
    assert worker == {
        "rank": 2,
        "local_rank": 1,
        "node_rank": 1,
        "host": "b",
        "slot": 0,
        "argv": ["python", "-u", "train.py", "--lr", "1e-3"],
        "cwd": "/somewhere",
        "stdin": "null",
    }
    assert [entry["rank"] for entry in shown["workers"]] == [0, 1, 2]


typed = st.binary().map(os.fsdecode) | st.text()


@settings(deadline=None)
@given(st.lists(typed, max_size=6))
def test_arguments_arrive_as_typed(args: list[str]) -> None:
    made = plan(Command(("python", "x.py"), tuple(args), "/"))
    assert all(worker.argv == ("python", "x.py", *args) for worker in made.workers)


@settings(deadline=None)
@given(st.lists(st.text("abc =-'\"$\\{}\n\udc80é#;|&*", max_size=9), max_size=6))
def test_arguments_are_shown_as_typed(args: list[str]) -> None:
    """No name in this alphabet is a secret's, so nothing may be hidden."""
    shown = plan(Command(("python", "x.py"), tuple(args), "/")).to_json()
    argv = json.loads(json.dumps(shown))["workers"][0]["argv"]
    assert argv == ["python", "x.py", *args]


@settings(deadline=None)
@given(st.dictionaries(typed.map("MY_{}".format), typed, max_size=5))
def test_environment_arrives_as_it_was(inherited: dict[str, str]) -> None:
    assert plan(inherited=inherited).env == inherited


@pytest.mark.parametrize("option", ["--local_rank", "--local-rank"])
def test_local_rank_option_stands_before_the_arguments(option: str) -> None:
    command = Command(("python", "t.py"), ("a", "--", "b"), "/", local_rank_option=option)
    argvs = [worker.argv for worker in plan(command).workers]
    assert argvs == [("python", "t.py", f"{option}={n}", "a", "--", "b") for n in (0, 0, 1)]


def test_each_agent_is_told_of_its_own_workers() -> None:
    made = plan(inherited={"HOME": "/h", "RANK": "9"})
    first, second = made.node_plans
    assert (first.node_rank, second.node_rank) == (0, 1)
    assert first.workers == made.workers[:1]
    assert second.workers == made.workers[1:]
    assert first.env == second.env == {"HOME": "/h"}
    assert [worker.env["RANK"] for worker in second.workers] == ["1", "2"]


def test_extra_environment_does_not_change_the_ranks() -> None:
    made = plan(extra=[("NCCL_DEBUG", "INFO"), ("RANK", "9")])
    assert made.workers[1].env["NCCL_DEBUG"] == "INFO"
    assert made.workers[1].env["RANK"] == "1"


def all_strings(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [text for item in data.items() for text in all_strings(item)]
    if isinstance(data, (list, tuple)):
        return [text for item in data for text in all_strings(item)]
    return [data] if isinstance(data, str) else []


def test_secrets_go_to_the_workers_and_are_not_shown() -> None:
    args = (
        "--api-key",
        "opensesame",
        "--hub=a?hunter2hunter2",
        "HF_TOKEN=swordfish",
        "correct-horse:3",
    )
    made = plan(
        Command(("python", "t.py"), args, "/"),
        inherited={"WANDB_API_KEY": "hunter2hunter2"},
        extra=[("DB_PASSWORD", "correct-horse")],
    )
    assert made.workers[0].argv[2:] == args
    assert made.workers[0].env["DB_PASSWORD"] == "correct-horse"
    assert made.env["WANDB_API_KEY"] == "hunter2hunter2"
    shown = made.to_json()
    for secret in ("opensesame", "hunter2", "swordfish", "correct-horse"):
        assert not any(secret in text for text in all_strings(shown))
    hidden = ["--api-key", HIDDEN, f"--hub=a?{HIDDEN}", f"HF_TOKEN={HIDDEN}", f"{HIDDEN}:3"]
    assert shown["workers"][0]["argv"][2:] == hidden


def test_what_is_sent_is_shown_without_secrets() -> None:
    assert plan(inherited={"NCCL_DEBUG": "INFO"}).sent == {}  # workers here inherit everything
    env = {"NCCL_DEBUG": "INFO", "HF_TOKEN": "very-secret", "HF_ENDPOINT": "http://u:very-secret@h"}
    away = replace(plan(inherited=env), inherit=True)
    hidden = {"HF_TOKEN": "***", "HF_ENDPOINT": "http://u:***@h"}
    assert away.sent == {"NCCL_DEBUG": "INFO", **hidden}
    assert away.to_json()["sent"] == away.sent
