"""Which GPUs a run gets, on machines made of a small nvidia-smi: nothing widened or moved."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from journeys import PROBE, Journey, without_nvml

pytestmark = without_nvml

MARK = "open('started', 'w')\n"


def uuid(index: int) -> str:
    return f"GPU-{index:04x}5c89-aaaa-bbbb-cccc-{index:012x}"


def mig(index: int, part: int) -> str:
    return f"MIG-{index:04x}{part:04x}-1111-2222-3333-444444444444"


def machine(journey: Journey, count: int, migs: int = 0, capability: str = "9.0") -> None:
    """Put an nvidia-smi first on PATH that lists `count` GPUs, the first with MIG devices."""
    query = [f"{i}, {uuid(i)}, Fake GPU, 81559, {capability}" for i in range(count)]
    listing = []
    for i in range(count):
        listing.append(f"GPU {i}: Fake GPU (UUID: {uuid(i)})")
        parts = range(migs if i == 0 else 0)
        listing += [f"  MIG 1g.10gb     Device  {p}: (UUID: {mig(i, p)})" for p in parts]
    shim = journey.program(
        f"""#!/bin/sh
if [ "$1" = -L ]; then cat <<'END'
{chr(10).join(listing) or "No devices found."}
END
else cat <<'END'
{chr(10).join(query) or "No devices were found"}
END
fi
""",
        "bin/nvidia-smi",
    )
    journey.env["PATH"] = f"{shim.parent}:{journey.env['PATH']}"


def chosen(journey: Journey, visible: str | None, *options: str) -> list[str]:
    """Run the probe and return the list that all ranks see."""
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    done = journey.zlaunch("run", "-q", *options, journey.script(PROBE), env=env)
    assert done.code == 0, done.err
    reports = journey.reports()
    [seen] = {report["env"]["CUDA_VISIBLE_DEVICES"] for report in reports}
    assert {report["env"]["WORLD_SIZE"] for report in reports} == {str(len(reports))}
    assert [report["env"]["LOCAL_RANK"] for report in reports] == [
        str(rank) for rank in range(len(reports))
    ]
    tokens = seen.split(",")
    assert len(tokens) == len(reports)
    return tokens


def refused(journey: Journey, visible: str | None, *options: str) -> str:
    """Run what must not start anything; returns what was said."""
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    began = time.monotonic()
    done = journey.zlaunch("run", *options, journey.script(MARK), env=env)
    assert done.code == 2, done.text
    assert "Traceback" not in done.err
    assert done.out == ""
    assert done.err.startswith("zlaunch: error: ")
    assert not (journey.folder / "started").exists()
    assert not journey.runs
    assert time.monotonic() - began < 20  # before anything is loaded, not after minutes
    return done.err


@pytest.mark.parametrize(
    ("visible", "options", "seen"),
    [
        (None, "", "0,1,2,3"),
        (None, "--num-gpus 2", "0,1"),
        (None, "--nproc 2", "0,1"),
        (None, "--gpus 0,2", "0,2"),
        (None, "--gpus 3,1", "3,1"),
        (None, "--gpus 1-3", "1,2,3"),
        (None, "--include localhost:0,2", "0,2"),
        (None, "--include localhost", "0,1,2,3"),
        (None, "--exclude localhost:1", "0,2,3"),
        (None, "--device cuda --num-gpus 1", "0"),
        ("0,2", "", "0,2"),
        ("3,1", "", "3,1"),
        ("1", "", "1"),
        ("2,3,", "", "2,3"),
        (" 2 , 3 ", "", "2,3"),
        ("3,1", "--num-gpus 1", "3"),
        ("3,1", "--num-gpus 2", "3,1"),
        ("3,1", "--nproc 1", "3"),
        ("3,1", "--gpus 1", "1"),
        ("3,1", "--gpus 1,3", "1,3"),
        ("3,1", "--include localhost:1", "1"),
        ("3,1", "--include localhost:1,3", "3,1"),
        ("3,1", "--exclude localhost:3", "1"),
        ("3,1", "--device cuda", "3,1"),
        ("2,-1,3", "", "2"),
    ],
)
def test_a_choice_among_indices(
    journey: Journey, visible: str | None, options: str, seen: str
) -> None:
    machine(journey, 4)
    assert chosen(journey, visible, *options.split()) == seen.split(",")


def test_uuids_stay_as_they_were_spelled(journey: Journey) -> None:
    machine(journey, 4)
    both = f"{uuid(3)},{uuid(1)}"
    assert chosen(journey, both) == [uuid(3), uuid(1)]
    assert chosen(journey, both, "--num-gpus", "1") == [uuid(3)]
    assert chosen(journey, both, "--gpus", uuid(1)) == [uuid(1)]
    assert chosen(journey, both, "--include", "localhost:1") == [uuid(1)]
    assert chosen(journey, both, "--exclude", "localhost:1") == [uuid(3)]
    short = uuid(2)[:12]  # CUDA takes an unambiguous beginning
    assert chosen(journey, short) == [short]
    assert chosen(journey, None, "--gpus", f"{uuid(3)},{uuid(0)}") == [uuid(3), uuid(0)]


def test_mig_devices(journey: Journey) -> None:
    machine(journey, 2, migs=3)
    assert chosen(journey, mig(0, 1)) == [mig(0, 1)]
    assert chosen(journey, f"{mig(0, 2)},{mig(0, 0)}") == [mig(0, 2), mig(0, 0)]
    assert chosen(journey, f"{mig(0, 2)},{mig(0, 0)}", "--num-gpus", "1") == [mig(0, 2)]
    assert chosen(journey, None, "--gpus", mig(0, 1)) == [mig(0, 1)]
    assert chosen(journey, f"{mig(0, 0)},{uuid(1)}") == [mig(0, 0), uuid(1)]


def test_identifiers_without_a_driver_to_ask(journey: Journey) -> None:
    """A batch system's list is believed where neither NVML nor nvidia-smi is there."""
    assert chosen(journey, "GPU-aaaa,GPU-bbbb") == ["GPU-aaaa", "GPU-bbbb"]
    assert chosen(journey, "MIG-x") == ["MIG-x"]
    assert chosen(journey, "3,1", "--num-gpus", "1") == ["3"]
    done = journey.zlaunch(
        "run", journey.script(""), env={"CUDA_VISIBLE_DEVICES": "GPU-aaaa"}, seconds=60
    )
    assert "trust" in done.err


ALL_FLAGS = [
    "",
    "--num-gpus 1",
    "--nproc 1",
    "--gpus 0",
    "--include localhost:0",
    "--exclude localhost:0",
    "--device cuda",
]


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_no_visible_gpu(journey: Journey, visible: str) -> None:
    machine(journey, 4)
    for options in ALL_FLAGS:
        said = refused(journey, visible, *options.split())
        assert f"CUDA_VISIBLE_DEVICES={visible}" in said, options
        assert "--gpus 0" in said or "0 visible" in said, options


@pytest.mark.parametrize("visible", [None, "0,1"])
def test_more_than_there_are_names_both_numbers(journey: Journey, visible: str | None) -> None:
    machine(journey, 2)
    for option in ("--num-gpus", "--nproc"):
        said = refused(journey, visible, option, "8")
        assert "8" in said
        assert "2" in said.replace("exit code 2", "")
        assert "localhost" in said


def test_a_count_never_moves_to_other_devices(journey: Journey) -> None:
    machine(journey, 8)
    said = refused(journey, "2,3", "--num-gpus", "3")
    assert "3" in said
    assert "CUDA_VISIBLE_DEVICES=2,3 leaves 2" in said
    for options in ("--gpus 0", "--include localhost:0", "--exclude localhost:5"):
        assert "2,3" in refused(journey, "2,3", *options.split())


@pytest.mark.parametrize(
    ("visible", "options", "word"),
    [
        ("0,9", "", "9"),
        ("0-1", "", "0-1"),
        ("0,0", "", "twice"),
        ("gpu0", "", "gpu0"),
        (f"0,{uuid(1)}", "", "mixes"),
        (f"{uuid(0)},{uuid(0)[:14]}", "", "twice"),
        (None, "--gpus 0,7", "7"),
        (None, "--gpus 0,0", "twice"),
        (None, "--gpus x", "x"),
        (None, "--include localhost:7", "7"),
        (None, "--include elsewhere:0", "elsewhere"),
        (None, "--exclude localhost", "leaves no GPU"),
        (None, "--num-gpus 0", "0"),
        (None, "--num-gpus -1", "-1"),
        (None, "--num-gpus 1 --gpus 0,1", "disagree"),
        (None, "--gpus 0 --include localhost:0", "together"),
        (None, "--include localhost:0 --exclude localhost:1", "together"),
        (None, "--num-gpus 1 --nproc 2", "contradict"),
        (None, "--cpu 1 --gpus 0", "contradict"),
        (None, "--device cpu --num-gpus 1", "contradict"),
    ],
)
def test_a_choice_that_cannot_be(
    journey: Journey, visible: str | None, options: str, word: str
) -> None:
    machine(journey, 4)
    assert word in refused(journey, visible, *options.split())


@pytest.mark.parametrize("driver", [False, True])
def test_no_gpu_at_all_names_the_way_out(journey: Journey, driver: bool) -> None:
    if driver:
        machine(journey, 0)
    said = refused(journey, None)
    assert "GPU" in said
    assert "--cpu" in said
    for options in ("--num-gpus 2", "--nproc 2", "--device cuda"):
        assert "GPU" in refused(journey, None, *options.split()), options


def test_on_the_cpu_gpus_are_out_of_sight(journey: Journey) -> None:
    machine(journey, 4)
    for options in ("--cpu 2", "--device cpu --nproc 2"):
        env = {"CUDA_VISIBLE_DEVICES": "3,1"}
        script = journey.script(PROBE)
        assert journey.zlaunch("run", "-q", *options.split(), script, env=env).code == 0
        for report in journey.reports():
            assert report["env"]["CUDA_VISIBLE_DEVICES"] == ""
            assert report["env"]["DS_ACCELERATOR"] == "cpu"


@pytest.mark.parametrize(("capability", "precision"), [("9.0", "bf16"), ("7.0", "fp16")])
def test_the_precision_that_the_devices_can(
    journey: Journey, capability: str, precision: str
) -> None:
    machine(journey, 2, capability=capability)
    done = journey.zlaunch("run", "--dry-run", "--json", journey.script(MARK))
    config = json.loads(done.stdout)["ds_config"]
    assert config[precision]["enabled"]
    assert {"bf16", "fp16"} & config.keys() == {precision}


def test_the_mapping_is_shown(journey: Journey) -> None:
    machine(journey, 8)
    env = {"CUDA_VISIBLE_DEVICES": "5,3"}
    done = journey.zlaunch("run", "--dry-run", journey.script(MARK), env=env)
    rows = [line for line in done.out.splitlines() if "cuda:" in line]
    assert [("GPU 5" in rows[0], "cuda:0" in rows[0])] == [(True, True)]
    assert [("GPU 3" in rows[1], "cuda:1" in rows[1])] == [(True, True)]
    assert not (journey.folder / "started").exists()
    plan = json.loads(
        journey.zlaunch("run", "--dry-run", "--json", journey.script(MARK), env=env).stdout
    )
    assert [worker["slot"] for worker in plan["workers"]] == [5, 3]
    assert plan["nodes"][0]["slots"] == [5, 3]
    run = journey.zlaunch("run", journey.script(""), env=env)
    assert "GPUs 5,3" in run.err


def test_a_driver_that_fails_is_no_machine_without_gpus(journey: Journey) -> None:
    shim = journey.program(
        "#!/bin/sh\necho 'Failed: Driver/library mismatch'; exit 18\n", "b/nvidia-smi"
    )
    journey.env["PATH"] = f"{shim.parent}:{journey.env['PATH']}"
    done = journey.zlaunch("run", journey.script(MARK))
    assert done.code == 125
    assert "mismatch" in done.err
    assert "Traceback" not in done.err
    assert not Path(journey.folder, "started").exists()
    assert journey.zlaunch("run", "--cpu", "1", journey.script("")).code == 0  # not asked for
