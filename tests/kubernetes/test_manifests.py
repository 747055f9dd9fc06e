"""The manifests of docs/kubernetes against Kubernetes' published schema, and against join.

`schema-1.37.json` is what Job and Service need of that schema, as the package kubernetes-validate
1.37.0 has it in its strict form, without descriptions.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from zlaunch.spec.joining import find_membership

_HERE = Path(__file__).parent
_MANIFESTS = _HERE.parents[1] / "docs" / "kubernetes"
_DEFINITIONS = json.loads((_HERE / "schema-1.37.json").read_text())


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((_MANIFESTS / name).read_text()))


def problems(document: dict[str, Any], kind: str) -> list[str]:
    schema = {"$ref": f"#/$defs/{kind}", "$defs": _DEFINITIONS}
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


def job_of(name: str) -> dict[str, Any]:
    """The Job; the one in a JobSet as Kubernetes would see it."""
    last = documents(name)[-1]
    if last["kind"] == "Job":
        return last
    (node,) = last["spec"]["replicatedJobs"]
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": node["template"]["spec"]}


@pytest.mark.parametrize("name", ["job.yaml", "jobset.yaml"])
def test_a_job_is_as_the_schema_wants_it(name: str) -> None:
    job = job_of(name)
    assert problems(job, "Job") == []
    wrong = deepcopy(job)
    wrong["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    assert problems(wrong, "Job")


def test_the_service_is_as_the_schema_wants_it() -> None:
    service, job = documents("job.yaml")
    assert problems(service, "Service") == []
    assert service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"]
    (label,) = service["spec"]["selector"].items()
    assert label == ("batch.kubernetes.io/job-name", job["metadata"]["name"])


@pytest.mark.parametrize(
    ("name", "first"), [("job.yaml", "train-0.train"), ("jobset.yaml", "train-node-0-0.train")]
)
def test_join_reads_its_place_from_it(name: str, first: str) -> None:
    job = job_of(name)
    pod = job["spec"]["template"]["spec"]
    command = pod["containers"][0]["command"]
    options = dict(word[2:].split("=", 1) for word in command if word.startswith("--"))
    assert command[:2] == ["zlaunch", "join"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(options["nnodes"])
    assert float(options["grace"]) < pod["terminationGracePeriodSeconds"]
    for index in range(int(options["nnodes"])):
        member = find_membership(
            {"JOB_COMPLETION_INDEX": str(index)},
            nnodes=int(options["nnodes"]),
            rendezvous=options["rendezvous"],
        )
        assert (member.node_rank, member.host) == (index, first)
