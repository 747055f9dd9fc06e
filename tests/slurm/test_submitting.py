"""What may go wrong between a user, sbatch and a controller that is silent."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cluster import PATH
from login import Login
from slurm_site import LONG, Site

ONE = ("--nodes", "1", "--cpu", "1")


@pytest.fixture
def login(site: Site) -> Login:
    site.write("say.py", "print('said', flush=True)\n")
    return Login(site)


@contextmanager
def silent(login: Login) -> Iterator[None]:
    login.cluster.stop_controller()
    try:
        yield
    finally:
        login.cluster.continue_controller()


@pytest.mark.parametrize(
    "option", ["--arr=0-3", "--mem=1G --output=/tmp/other", "-Ho/tmp/other", "--ti=1"]
)
def test_what_is_zlaunch_s_is_not_given_past_it(login: Login, option: str) -> None:
    code, out, err = login.type("submit", *ONE, "--sbatch", option, "say.py")
    assert (code, out) == (2, "")
    assert "is zlaunch's to give" in err
    assert login.left() == []


def test_several_options_at_once_are_slurm_s(login: Login) -> None:
    run = login.submit(*ONE, "--sbatch", "--mem 100M --comment='a \"b\" #c' -H", "say.py")
    facts = login.cluster.command("scontrol", "show", "job", login.job(run)).stdout
    assert "JobHeldUser" in facts
    assert 'Comment=a "b" #c' in facts
    assert login.type("stop", run)[0] == 0


def test_an_interrupt_takes_the_job_back(login: Login) -> None:
    real, said = shutil.which("sbatch", path=PATH), login.site.folder / "said"
    folder = login.site.folder / "slow"
    folder.mkdir()
    login.site.write("slow/sbatch", f'#!/bin/sh\n{real} "$@" > {said}\nexec sleep 600\n')
    path = f"{folder}:{login.site.env['PATH']}"
    process = login.start("submit", *ONE, "--sbatch", "--hold", "say.py", PATH=path)
    end = time.monotonic() + LONG
    while not (said.exists() and said.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _err = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (130, "")
    assert login.left() == []
    assert login.cluster.job_state(said.read_text().strip()) == "CANCELLED"


def test_a_silent_controller_is_said_and_changes_nothing(login: Login) -> None:
    run = login.submit(*ONE, "--sbatch", "--hold", "--name", "later", "say.py")
    with silent(login):
        code, out, err = login.type("ps")
        assert (code, err) == (0, "")
        assert "squeue did not answer within" in out
        code, out, err = login.type("status", "later")
        assert (code, "is queued" in out, err) == (0, True, "")
        code, _, err = login.type("rm", run)
        assert (code, "is queued" in err) == (2, True)
        follower = login.start("logs", "tail", run)
        assert follower.stderr is not None
        assert "squeue did not answer within" in follower.stderr.readline()
        waiter = login.start("wait", run)
    login.cluster.command("scontrol", "release", login.job(run))
    assert login.end(run) == 0
    out, _ = follower.communicate(timeout=LONG)
    assert (follower.returncode, out.count("said")) == (0, 1)
    assert waiter.wait(timeout=LONG) == 0


def test_a_user_s_own_wishes_for_squeue_hide_no_run(login: Login) -> None:
    run = login.submit(*ONE, "--sbatch", "--hold", "say.py")
    wishes = {"SQUEUE_PARTITION": "urgent", "SQUEUE_STATES": "R", "SLURM_TIME_FORMAT": "relative"}
    code, out, _ = login.type("ps", **wishes)
    assert (code, " queued " in out) == (0, True), out
    assert login.type("stop", run)[0] == 0


def test_a_directory_that_is_gone_is_named(login: Login) -> None:
    gone = login.site.folder / "gone"
    gone.mkdir()
    words = ("submit", *ONE, "--sbatch", "--hold", str(login.site.folder / "say.py"))
    done = subprocess.run(
        [sys.executable, "-m", "zlaunch", *words], cwd=gone, env=login.site.env,
        capture_output=True, text=True, timeout=LONG, check=True,
    )  # fmt: skip
    run = done.stdout.strip()
    gone.rmdir()
    login.cluster.command("scontrol", "release", login.job(run))
    assert login.end(run) == 125
    told = " ".join(login.type("diagnose", run)[1].split())
    assert f"the last it said: zlaunch: error: {gone} is not on this node" in told
