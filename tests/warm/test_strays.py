"""Processes that an import leaves behind: as long as they live they hold open what it had."""

from __future__ import annotations

import signal
import time

import pytest
from forking import TELL, WARM, how, library
from journeys import Journey, eventually

LIVES = 150  # seconds; nobody may wait for that
STRAYS = {
    "a session of its own": f"""
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep({LIVES})
    os._exit(0)
""",
    "a daemon": f"""
import os, time
def daemon():
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep({LIVES})
        os._exit(0)
    os.waitpid(child, 0)
daemon()
""",
}
STRAYS["a daemon of another program"] = STRAYS["a daemon"].replace(
    f"time.sleep({LIVES})", f'os.execvp("sleep", ["sleep", "{LIVES}"])'
)


@pytest.mark.parametrize("kind", STRAYS)
def test_ranks_start_cold_and_at_once(journey: Journey, kind: str) -> None:
    library(journey, STRAYS[kind])
    journey.script(TELL)
    began = time.monotonic()
    done, ranks = how(journey, "--preload", "lib")
    assert time.monotonic() - began < LIVES / 2
    assert ranks == [b"cold", b"cold"]
    assert "cold start: an import starts a process" in done.err
    assert done.code == 0


def test_one_of_a_rank_that_starts_cold_is_none(journey: Journey) -> None:
    """It may be there first."""
    library(journey, "import time\ntime.sleep(2)")
    daemon = STRAYS["a daemon"]
    script = f"import os\nif os.environ['RANK'] == '1':\n    exec({daemon!r}, {{}})\n" + TELL
    journey.script(script)
    options = ("--cpu", "3", "--stdin-rank", "1", "--preload", "lib")
    done = journey.zlaunch("run", *WARM, *options, "job.py")
    assert done.code == 0
    assert [journey.log(rank) for rank in range(3)] == [b"warm\n", b"cold\n", b"warm\n"]


def test_one_that_is_started_as_ranks_are_forked_is_not_waited_for(journey: Journey) -> None:
    once = "hook = iter([daemon])\nos.register_at_fork(after_in_parent=lambda: next(hook, int)())"
    library(journey, STRAYS["a daemon"].replace("\ndaemon()\n", "\n") + once)
    journey.script(TELL)
    began = time.monotonic()
    done, ranks = how(journey, "--preload", "lib")
    assert time.monotonic() - began < LIVES / 2
    assert (done.code, ranks) == (0, [b"warm", b"warm"])


@pytest.mark.parametrize("kind", STRAYS)
def test_a_stop_does_not_wait_for_it(journey: Journey, kind: str) -> None:
    imports = "import time\nopen('importing', 'w').close()\ntime.sleep(60)"
    library(journey, STRAYS[kind] + imports)
    journey.script("import lib")
    live = journey.start("run", *WARM, "--preload", "lib", "job.py")
    assert eventually((journey.folder / "importing").exists)
    began = time.monotonic()
    live.send(signal.SIGTERM)
    assert live.end().code == 143
    assert time.monotonic() - began < 20  # before the grace is over
    journey.assert_gone()
