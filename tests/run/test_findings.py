"""What is wrong with hosts, from what they said of themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zlaunch.run.findings import CODES, Examined, Finding, arch_list_problem, judge
from zlaunch.spec.facts import Facts, Gpu

GB = 10**9
GPUS = tuple(Gpu(index, f"GPU-{index}a", "H200", 140 << 30, 0) for index in range(4))
FINE = Facts(
    script="abc",
    python="3.11.7",
    executable="/opt/env/bin/python",
    packages={"torch": "2.4.0", "deepspeed": "0.15.0"},
    cuda="12.4",
    driver="550.54",
    driver_cuda="12.4",
    gpus=GPUS,
    shm=16 * GB,
)
HOST = Examined(
    "h0",
    FINE,
    slots=(0, 1, 2, 3),
    gpus=True,
    directory="/data",
    program="/opt/env/bin/python",
    script="train.py",
    digest="abc",
    needed=("torch", "deepspeed"),
)


def told(host: Examined) -> list[tuple[str, str]]:
    return [(finding.code, finding.text) for finding in judge([host])]


def facts(**changes: object) -> Examined:
    return replace(HOST, facts=replace(FINE, **changes))  # type: ignore[arg-type]


def test_nothing_is_wrong_with_a_good_host() -> None:
    assert judge([HOST, replace(HOST, host="h1")]) == ()
    assert judge([]) == ()


ONE: dict[str, tuple[Examined, str, str]] = {
    "directory": (
        facts(directory="No such file or directory", script=None),
        "directory",
        "directory /data: No such file or directory",
    ),
    "program": (
        facts(program="No such file or directory"),
        "python",
        "/opt/env/bin/python: No such file or directory",
    ),
    "no script": (facts(script=None), "script", "script train.py is missing"),
    "another script": (facts(script="abd"), "script", "script train.py is not the one here"),
    "no module": (
        replace(facts(module=False), module="tool.train", digest=None),
        "script",
        "module tool.train is missing",
    ),
    "no deepspeed": (
        facts(packages={"torch": "2.4.0", "deepspeed": None}),
        "packages",
        "deepspeed is missing from /opt/env/bin/python",
    ),
    "neither": (
        facts(packages={"torch": None, "deepspeed": None}),
        "packages",
        "torch and deepspeed are missing from /opt/env/bin/python",
    ),
    "built for the CPU": (facts(cuda=""), "cuda", "torch 2.4.0 is built without CUDA"),
    "an old driver": (
        facts(cuda="13.0"),
        "cuda",
        "torch 2.4.0 needs CUDA 13.0; driver 550.54 goes up to 12.4",
    ),
    "no driver": (facts(gpus=None), "gpus", "neither NVML nor nvidia-smi finds a driver"),
    "fewer GPUs": (
        facts(gpus=GPUS[:3]),
        "gpus",
        "4 slots, but 3 GPUs there: 3 missing",
    ),
    "a GPU in use": (
        facts(gpus=(*GPUS[:3], replace(GPUS[3], used=52 << 30, users=("pid 8 (python)",)))),
        "gpu-in-use",
        "GPU 3 is in use: 52.0 of 140 GiB by pid 8 (python)",
    ),
    "shared memory": (
        facts(shm=64 << 20),
        "shm",
        "/dev/shm has 67 MB free, and 1 GB is needed",
    ),
    "clock ahead": (
        replace(HOST, clock=(2.9, 3.1)),
        "clock",
        "its clock is 3.0 s ahead of this machine's",
    ),
    "clock behind": (
        replace(HOST, clock=(-61.0, -60.0)),
        "clock",
        "its clock is 60.5 s behind this machine's",
    ),
    "port": (replace(HOST, port_problem="no way"), "port", "no way"),
    "lock": (
        facts(locks=("/c/cpu_adam/lock",)),
        "lock",
        "/c/cpu_adam/lock is left from a build that was killed; ranks wait on it for ever",
    ),
    "architectures": (
        facts(arch_list="8.0;9.0a"),
        "arch-list",
        "TORCH_CUDA_ARCH_LIST=8.0;9.0a: DeepSpeed cannot read 9.0a",
    ),
    "trouble": (facts(trouble=("it hangs",)), "probe", "it hangs"),
}


@pytest.mark.parametrize(("host", "code", "text"), ONE.values(), ids=ONE)
def test_one_thing_wrong(host: Examined, code: str, text: str) -> None:
    assert told(host) == [(code, text)]
    assert code in CODES


RIGHT: dict[str, Examined] = {
    "no script is asked for": replace(facts(script=None), digest=None),
    "a package that nobody needs": replace(facts(packages={"deepspeed": None}), needed=()),
    "a package that was not looked up": replace(facts(packages={}), needed=("torch",)),
    "an AMD build": facts(cuda="rocm"),
    "a newer minor version of CUDA": facts(cuda="12.9"),
    "a driver that does not say": facts(driver_cuda=""),
    "slots by UUID": replace(HOST, slots=("GPU-1a", "GPU-3")),
    "a MIG device": replace(facts(gpus=(replace(GPUS[0], mig=("MIG-7",)),)), slots=("MIG-7",)),
    "a GPU in use that is not ours": replace(
        facts(gpus=(*GPUS[:3], replace(GPUS[3], used=52 * GB))), slots=(0, 1)
    ),
    "a desktop on the GPU": facts(gpus=(replace(GPUS[0], used=400 << 20), *GPUS[1:])),
    "usage unknown": facts(gpus=(replace(GPUS[0], used=None), *GPUS[1:])),
    "little shared memory on CPUs": replace(facts(shm=64 << 20, gpus=None, cuda=""), gpus=False),
    "a clock that may be right": replace(HOST, clock=(-0.1, 9.0)),
    "a clock that is a little off": replace(HOST, clock=(1.5, 1.9)),
    "architectures": facts(arch_list="8.0 9.0+PTX;10.0"),
}


@pytest.mark.parametrize("host", RIGHT.values(), ids=RIGHT)
def test_nothing_wrong(host: Examined) -> None:
    assert told(host) == []


def test_all_that_is_wrong_is_told_and_only_a_lock_is_a_warning() -> None:
    host = replace(facts(locks=("/c/lock",), shm=0, script=None), clock=(9.0, 9.0))
    findings = judge([host])
    assert [finding.code for finding in findings] == ["script", "shm", "clock", "lock"]
    assert [finding.code for finding in findings if finding.warning] == ["lock"]


# Hosts beside each other


def versions(*torch: str | None, cuda: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    builds = cuda or ("12.4",) * len(torch)
    hosts = [
        replace(HOST, host=f"h{n}", needed=(), facts=replace(FINE, packages={"torch": v}, cuda=c))
        for n, (v, c) in enumerate(zip(torch, builds, strict=True))
    ]
    return judge(hosts)


def test_the_host_that_differs_is_named() -> None:
    (finding,) = versions("2.4.0", "2.4.0", "2.5.1", "2.4.0")
    assert (finding.host, finding.code) == ("h2", "versions")
    assert finding.text == "torch 2.5.1, and 2.4.0 on h0, h1 and 1 other"


def test_of_two_the_first_is_right() -> None:
    (finding,) = versions("2.4.0", "2.5.1")
    assert (finding.host, finding.text) == ("h1", "torch 2.5.1, and 2.4.0 on h0")


def test_missing_on_one_host_though_the_script_may_not_need_it() -> None:
    (finding,) = versions(None, None, "2.5.1")[:1]
    assert (finding.host, finding.text) == ("h0", "torch is missing, and 2.5.1 on h2")
    assert versions(None, None) == ()


def test_missing_and_needed_is_told_once() -> None:
    without = replace(HOST, host="h1", facts=replace(FINE, packages={"torch": None}))
    torch = replace(FINE, packages={"torch": "2.4.0"})
    findings = judge([replace(HOST, facts=torch, needed=("torch",)), without])
    assert [(f.host, f.code) for f in findings] == [("h1", "packages")]


def test_the_same_torch_for_another_cuda() -> None:
    (finding,) = versions("2.4.0", "2.4.0", cuda=("12.4", "11.8"))
    assert finding.text == "CUDA of torch 11.8, and 12.4 on h0"
    assert len(versions("2.4.0", "2.5.0", cuda=("12.4", "11.8"))) == 1


@pytest.mark.parametrize("text", ["", "9.0", "8.0;9.0+PTX", " 8.0 9.0 ", "7.5;8.6;", "12.1"])
def test_architectures_that_deepspeed_reads(text: str) -> None:
    assert arch_list_problem(text) is None


@pytest.mark.parametrize("text", ["9.0a", "Hopper", "90", "8.0,9.0", "8.0;sm_90", "8.0+ptx"])
def test_architectures_that_deepspeed_does_not_read(text: str) -> None:
    assert arch_list_problem(text)
