"""All-reduce on this machine: as a run of the user's, and as the measurement makes one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from journeys import Done, Journey, Live, eventually

import zlaunch
from zlaunch.cli.bandwidth import WORKER, hint_for
from zlaunch.insight.bandwidth import read_bandwidth

MEASURE = """
import json, os, signal, sys
from zlaunch.cli.bandwidth import measure
from zlaunch.cli.find_place import find_place
from zlaunch.cli.request import Request

before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
with find_place(Request("", cpu=int(sys.argv[1])), os.environ, gather=None) as place:
    print("measuring", flush=True)
    done = measure(place, os.environ, limit=float(sys.argv[2]))
after = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
assert before == after, after
print(json.dumps([done.bandwidth.to_json(), done.failure and vars(done.failure)]))
"""

DECIDE = """
import json, runpy, sys
worker = runpy.run_path(sys.argv[1])
print(json.dumps({
    "groups": [(g.key, g.ranks) for sizes in ([1, 3], [2, 1, 2], [4], [1])
               for g in worker["all_groups"](sizes)],
    "plans": [worker["plan"](took, "gloo", 1.0) for took in (1e-9, 0.01, 0.1, 0.4, 30.0)],
}))
"""


def measuring(journey: Journey, ranks: int, limit: float = 50) -> Live:
    """Start it; what it leaves in its TMPDIR can be seen."""
    (journey.folder / "tmp").mkdir()
    env = {
        "TMPDIR": str(journey.folder / "tmp"),
        "PYTHONPATH": str(Path(zlaunch.__file__).parents[1]),
    }
    command = (sys.executable, "-c", MEASURE)
    return journey.start(str(ranks), str(limit), command=command, env=env)


def said(journey: Journey, done: Done) -> tuple[dict[str, object], dict[str, object] | None]:
    assert (done.code, done.err) == (0, "")
    assert not journey.runs
    assert not list((journey.folder / "tmp").iterdir())
    bandwidth, failure = json.loads(done.out.splitlines()[-1])
    assert done.out.count("\n") == 2  # nothing of the ranks is shown
    return bandwidth, failure


def test_as_a_run(journey: Journey) -> None:
    done = journey.zlaunch("run", "--cpu", "3", "--recipe", "ddp", str(WORKER))
    assert done.code == 0, done.err
    bandwidth = read_bandwidth(done.out.splitlines(), ["here"])
    assert (bandwidth.complete, bandwidth.backend) == (True, "gloo")
    (one,) = bandwidth.measured
    assert (one.kind, one.hosts, one.ranks) == ("within", ("here",), 3)
    assert one.bus_bytes_per_second == pytest.approx(one.bytes / one.seconds * 2 * 2 / 3)


def test_as_a_measurement(journey: Journey) -> None:
    bandwidth, failure = said(journey, measuring(journey, 2).end())
    assert failure is None
    assert bandwidth["complete"] is True


def test_one_rank_has_nothing_to_measure(journey: Journey) -> None:
    bandwidth, failure = said(journey, measuring(journey, 1).end())
    assert failure is None
    assert bandwidth["measured"] == []


def test_more_time_than_it_may_take(journey: Journey) -> None:
    bandwidth, failure = said(journey, measuring(journey, 2, limit=0.3).end())
    assert bandwidth["complete"] is False
    assert failure is not None
    assert failure["exit_code"] == 124
    assert failure["message"] == "measuring all-reduce took more than 0.3 s and was stopped"


def test_the_user_stops_it(journey: Journey) -> None:
    live = measuring(journey, 2)
    live.until("measuring")
    assert eventually(lambda: len(journey.alive()) >= 4)  # itself, the agent and two ranks
    live.send(signal.SIGINT)
    _, failure = said(journey, live.end())
    assert failure is not None
    assert failure["exit_code"] == 130
    assert failure["message"] == "measuring all-reduce was stopped by SIGINT"


def test_a_rank_that_does_not_come_is_not_waited_for(journey: Journey) -> None:
    text = WORKER.read_text()
    text = text.replace("timedelta(seconds=60)", "timedelta(seconds=2)")
    late = "    if meeting.rank == 1:\n        time.sleep(600)\n"
    text = text.replace("    once(probe, handle)  # connects\n", f"{late}    once(probe, handle)\n")
    assert text.count("time.sleep(600)") == 1
    done = journey.zlaunch("run", "--cpu", "2", "--recipe", "ddp", journey.script(text))
    assert done.code == 1
    assert "rank 0 (pid" in done.err
    assert "Timed out" in done.err or "timeout" in done.err.lower()


def test_a_wrong_sum_is_an_error(journey: Journey) -> None:
    """As from GPUs that cannot read each other's memory and do not know it."""
    text = WORKER.read_text().replace("probe == len(group.ranks)", "probe == 99")
    done = journey.zlaunch("run", "--cpu", "2", "--recipe", "ddp", journey.script(text))
    assert done.code == 1
    assert "gave a wrong sum" in done.err


def test_the_worker_is_in_the_package() -> None:
    assert WORKER.is_file()
    assert Path(zlaunch.__file__).parent in WORKER.parents


def test_ways_out() -> None:
    gloo = (
        "Gloo connectFullMesh failed with [pair.cc:152] timed out connecting: SO_ERROR: "
        "Connection refused, remote=[127.0.1.1]:7599$1"
    )
    assert "GLOO_SOCKET_IFNAME" in str(hint_for(["Traceback", f"RuntimeError: {gloo}"]))
    assert "--python" in str(hint_for(["ModuleNotFoundError: No module named 'torch'"]))
    assert hint_for(["ValueError"]) is None


def test_who_measures_with_whom_and_how_much() -> None:
    """A link that would take long gets the small message, seldom."""
    command = (sys.executable, "-c", DECIDE, str(WORKER))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    decided = json.loads(done.stdout)
    assert decided["groups"] == [
        ["within-1", [1, 2, 3]], ["world-0-1", [0, 1, 2, 3]], ["pair-0-1", [0, 1]],
        ["within-0", [0, 1]], ["within-2", [3, 4]], ["world-0-1-2", [0, 1, 2, 3, 4]],
        ["pair-0-1", [0, 2]], ["pair-1-2", [2, 3]], ["pair-2-0", [3, 0]],
        ["within-0", [0, 1, 2, 3]],
    ]  # fmt: skip
    small, large = 1 << 19, 1 << 23
    assert decided["plans"] == [[large, 50], [large, 6], [large, 2], [small, 2], [small, 2]]
