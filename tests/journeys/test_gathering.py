"""A run that waits for others before it can be planned: seen, waited for, stopped, lost."""

from __future__ import annotations

import json
import signal
from typing import Any

from journeys import Journey, Live, eventually

from zlaunch.system.ports import ReservedPort
from zlaunch.system.processes import has_open

STAYS = "import time; print('up', flush=True); time.sleep(600)"
HI = "print('hi')"
NOTES = "echo $ZLAUNCH_STATE $ZLAUNCH_EXIT_CODE: $ZLAUNCH_CAUSE >told"


class Nodes:
    """Nodes of one run on this machine, that find each other at a port of their own."""

    def __init__(self, journey: Journey, count: int) -> None:
        self._journey = journey
        port = ReservedPort()
        self._options = ["--nnodes", str(count), "--rendezvous", f"127.0.0.1:{port.port}"]
        port.release()
        token = journey.folder / "token"
        token.write_text("0123456789abcdef")
        token.chmod(0o600)

    def command(self, rank: int, *args: str) -> tuple[str, ...]:
        token = ("--token-file", "token", "--cpu", "1")
        return ("join", *self._options, "--node-rank", str(rank), *token, *args)

    def start(self, rank: int, *args: str) -> Live:
        return self._journey.start(*self.command(rank, *args))


def shown(journey: Journey) -> list[dict[str, Any]]:
    return json.loads(journey.zlaunch("ps", "--json").out)


def gathers(journey: Journey, what: str) -> bool:
    records = [run / "run.json" for run in journey.runs]
    return any(path.exists() and f'"gathering": "{what}"' in path.read_text() for path in records)


def until_they_wait(journey: Journey, *others: Live) -> None:
    """Until these commands wait for the end of the run."""
    lock = str(journey.runs[0] / "lock")
    assert eventually(lambda: all(has_open(one.pid, lock) for one in others))


def test_it_is_seen_and_stopped(journey: Journey) -> None:
    nodes, script = Nodes(journey, 3), journey.script(STAYS)
    first = nodes.start(0, "--name", "mine", "--on-exit", NOTES, script)
    assert eventually(lambda: gathers(journey, "nodes 1-2 of 3"))
    third = nodes.start(2, script)
    assert eventually(lambda: gathers(journey, "node 1 of 3"))
    (run,) = shown(journey)
    assert (run["state"], run["gathering"]) == ("gathering", "node 1 of 3")
    assert "mine  gathering" in journey.zlaunch("ps").out
    status = journey.zlaunch("status", "mine").out
    assert "(mine) is gathering, for" in status
    assert "waits for node 1 of 3" in status
    assert "(mine) gathering (it still waits for node 1 of 3)" in journey.zlaunch("top", "mine").out
    shown_now = journey.zlaunch("logs", "show", "mine", "--merge")
    assert (shown_now.code, shown_now.out) == (0, "")
    refused = journey.zlaunch("logs", "show", "mine", "--rank", "0")
    assert refused.code == 2
    assert "it has no ranks yet" in refused.err
    waiting, attached = journey.start("wait", "mine"), journey.start("attach", "mine")
    until_they_wait(journey, waiting, attached)
    assert "has no ranks yet" in journey.zlaunch("signal", "mine", "USR1").err
    stopped = journey.zlaunch("stop", "mine")
    assert stopped.code == 0
    assert "was stopped by SIGTERM (exit code 143)" in stopped.out
    assert [one.end().code for one in (first, third, waiting, attached)] == [143] * 4
    (run,) = shown(journey)
    assert (run["state"], run["exit_code"], run["gathering"]) == ("stopped", 143, None)
    assert (journey.folder / "told").read_text() == "stopped 143: stopped by SIGTERM\n"


def test_who_attaches_meanwhile_sees_the_run(journey: Journey) -> None:
    nodes, script = Nodes(journey, 2), journey.script(HI)
    first = nodes.start(0, script)
    assert eventually(lambda: gathers(journey, "node 1 of 2"))
    attached, waiting = journey.start("attach", "--from-start"), journey.start("wait")
    tail = journey.start("logs", "tail", "--merge", "-n", "all")
    until_they_wait(journey, attached, waiting, tail)
    second = nodes.start(1, script)
    assert [one.end().code for one in (first, second, waiting)] == [0, 0, 0]
    done = attached.end()
    assert done.code == 0
    assert done.out.count("| hi") == 2
    followed = tail.end()
    assert (followed.code, followed.out.count("| hi")) == (0, 2)
    assert "waits for node 1 of 2; it has no ranks yet" in followed.err


def test_a_limit_that_ran_out_is_kept(journey: Journey) -> None:
    nodes, script = Nodes(journey, 2), journey.script(HI)
    first = nodes.start(0, "-d", "--join-timeout", "1", "--on-exit", NOTES, script)
    done = first.end()
    assert done.code == 124
    assert done.err.count("node 1 of 2 did not join within 1 s") == 1
    assert journey.zlaunch("wait").code == 124
    told = (journey.folder / "told").read_text()
    assert told.startswith("failed 124: node 1 of 2 did not join")
    assert "no runs yet" in journey.zlaunch("ps").out  # none started a rank


def test_what_is_wrong_once_all_are_there_leaves_nothing(journey: Journey) -> None:
    """Who waits for the run is told; --on-exit has seen it."""
    nodes, script = Nodes(journey, 2), journey.script(HI)
    first = nodes.start(0, "--global-batch", "3", "--on-exit", NOTES, script)
    assert eventually(lambda: gathers(journey, "node 1 of 2"))
    waiting, attached = journey.start("wait"), journey.start("attach")
    until_they_wait(journey, waiting, attached)
    second = nodes.start(1, script)
    assert [one.end().code for one in (first, second)] == [2, 2]
    assert [one.end().code for one in (waiting, attached)] == [2, 2]
    assert "is gone: it could not be begun" in waiting.text
    assert (journey.folder / "told").read_text().startswith("failed 2: ")
    assert journey.runs == []


def test_a_launcher_that_is_killed_is_lost(journey: Journey) -> None:
    nodes, script = Nodes(journey, 2), journey.script(HI)
    first = nodes.start(0, script)
    assert eventually(lambda: gathers(journey, "node 1 of 2"))
    attached = journey.start("attach")
    until_they_wait(journey, attached)
    first.send(signal.SIGKILL)
    first.end()
    assert attached.end().code == 125
    assert [one["state"] for one in shown(journey)] == ["lost"]
    assert journey.zlaunch("status").code == 0
    assert journey.zlaunch("rm", shown(journey)[0]["id"]).code == 0


def test_hosts_that_are_asked_for_their_gpus(journey: Journey) -> None:
    folder = journey.program("#!/bin/sh\nexec sleep 600\n", "bin/ssh").parent
    path = {"PATH": f"{folder}:{journey.env['PATH']}"}
    options = ("--hosts", "127.0.0.1", "--force-ssh", "--ssh", "openssh", "--connect-timeout", "60")
    live = journey.start("multinode", *options, journey.script(HI), env=path)
    assert eventually(lambda: gathers(journey, "1 host to say how many GPUs they have"))
    live.send(signal.SIGHUP)
    assert live.end().code == 129
    (run,) = shown(journey)
    assert (run["state"], run["exit_code"]) == ("stopped", 129)


def test_bad_input_leaves_nothing(journey: Journey) -> None:
    nodes = Nodes(journey, 2)
    assert journey.zlaunch(*nodes.command(0, "missing.py")).code == 2
    assert journey.zlaunch(*nodes.command(0, "-d", "missing.py")).code == 2
    assert journey.zlaunch("multinode", "--hosts", "a:1", "--include", "b", "x.py").code == 2
    assert not list(journey.home.glob("runs/*"))
    assert not list(journey.home.glob("runs/.*"))
