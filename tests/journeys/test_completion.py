"""Tab in the real shells, and what they are told."""

from __future__ import annotations

import os
import pty
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from journeys import _WITH_TERMINAL, Journey, Live

BASH_COMPLETION = Path("/usr/share/bash-completion/bash_completion")
SHELLS = {
    "bash": ("bash --norc --noprofile -i", "source <(zlaunch completion bash)"),
    "bash with bash-completion": (
        "bash --norc --noprofile -i",
        f"source {BASH_COMPLETION}; source <(zlaunch completion bash)",
    ),
    "zsh": ("zsh -f -i", "source <(zlaunch completion zsh)"),
    "fish": ("fish --no-config -i", "zlaunch completion fish | source"),
}
STAYS = "import time; print('up', flush=True); time.sleep(600)"
TO_START, TO_END = "\x01", "\x05"  # Ctrl-A, Ctrl-E


class Shell:
    """An interactive shell that completes zlaunch, and a hand at its keyboard."""

    def __init__(self, journey: Journey, name: str) -> None:
        command, setup = SHELLS[name]
        ours, theirs = pty.openpty()
        process = journey.popen(
            shutil.which(command.split()[0]) or "",
            *command.split()[1:],
            command=(sys.executable, "-c", _WITH_TERMINAL),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={"PS1": "$ ", "INPUTRC": "/dev/null"},
        )
        os.close(theirs)
        self._live, self._keys, self._count = Live(process, [os.dup(ours)]), ours, 0
        self._seen = journey.folder / "seen"
        self.enter(setup)

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    def enter(self, line: str) -> None:
        """Type a line, and wait until it has been carried out."""
        self._count += 1
        self.type(f"{line}; echo done''-{self._count}\r")
        self.until(f"done-{self._count}")

    def until(self, text: str) -> None:
        self._live.until(text)

    def completed(self, line: str) -> str:
        """What the line is after Tab: the shell itself writes it down, word by word."""
        self.type(f"{line}\t{TO_START}printf '%s ' {TO_END} >seen")
        self.enter("")
        return self._seen.read_text().strip()

    def close(self) -> None:
        self._live.process.kill()
        self._live.process.wait()
        self._live.close_streams()
        os.close(self._keys)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, journey: Journey) -> Iterator[Shell]:
    if shutil.which(request.param.split()[0]) is None or (
        "with" in request.param and not BASH_COMPLETION.exists()
    ):
        pytest.skip(f"no {request.param} here")
    with closing(Shell(journey, request.param)) as shell:
        yield shell


def test_a_shell_completes(journey: Journey, shell: Shell) -> None:
    (journey.folder / "hosts").write_text("first slots=4\nsecond slots=2\n")
    (journey.folder / "my config.json").touch()
    script = journey.script(STAYS)
    assert journey.zlaunch("run", "--cpu", "1", "-d", "--name", "mine", script).code == 0
    run_id = journey.latest.name
    try:
        assert shell.completed("zlaunch stat") == "zlaunch status"
        assert shell.completed("zlaunch run --recipe zero3-n") == "zlaunch run --recipe zero3-nvme"
        assert shell.completed("zlaunch run --recipe=zero3-n") == "zlaunch run --recipe=zero3-nvme"
        assert shell.completed("zlaunch run --no-b") == "zlaunch run --no-build-ops"
        assert shell.completed(f"zlaunch stop {run_id[:4]}") == f"zlaunch stop {run_id}"
        assert shell.completed("zlaunch logs tail mi") == "zlaunch logs tail mine"
        assert shell.completed("zlaunch logs tail 'mi") == "zlaunch logs tail mine"
        hosts = "zlaunch multinode --hostfile hosts --include first:0@"
        assert shell.completed(f"{hosts}s") == f"{hosts}second"
        # A script's options are its own, and what it takes are files.
        assert shell.completed("zlaunch run job.py --data ho") == "zlaunch run job.py --data hosts"
        assert (
            shell.completed("zlaunch run --ds-config my")
            == "zlaunch run --ds-config my config.json"
        )
        # What is not known is not guessed, not even as a file.
        assert shell.completed("zlaunch run --name ho") == "zlaunch run --name ho"
        shell.type("zlaunch st\t\t")
        for name in ("status", "stop", "stacks"):
            shell.until(name)
    finally:
        assert journey.zlaunch("stop", run_id).code == 0
