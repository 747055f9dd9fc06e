"""Dumps of the flight recorder: real ones of gloo, asked for as NCCL's are, and poisoned ones."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from zlaunch.agent.flight import ask_recorder, read_dump, read_recorder
from zlaunch.insight.flight import describe_flight

# Rank 1 does not come to the second all_reduce. Gloo's recorder is that of NCCL, but for the
# thread that writes it down when asked.
JOB = """
import os, sys, threading, time
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace
dist.init_process_group("gloo")
rank = dist.get_rank()
def dump():
    time.sleep(1.5)
    with open(f"{sys.argv[1]}{rank}", "wb") as file:
        file.write(_dump_fr_trace())
    os._exit(0)
threading.Thread(target=dump).start()
dist.all_reduce(torch.ones(3))
if rank == 1:
    time.sleep(60)
dist.all_reduce(torch.ones(5))
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the dumps of three ranks begin."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("flight")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "3"}
    (folder / "job.py").write_text(JOB)
    command = [sys.executable, str(folder / "job.py"), str(folder / "rank-")]
    ranks = [subprocess.Popen(command, env={**env, "RANK": str(rank)}) for rank in range(3)]
    assert [rank.wait(90) for rank in ranks] == [0, 0, 0]
    return str(folder / "rank-")


def test_real_dumps_name_who_is_missing(dumps: str) -> None:
    told = {rank: read_dump(f"{dumps}{rank}") or [] for rank in range(3)}
    (line,) = describe_flight(told)
    assert line == (
        "default_pg: rank 1 past all_reduce number 1 of [[3]]; "
        "ranks 0, 2 in all_reduce number 2 of [[5]]"
    )
    assert told[1][0]["frames"][-1][2] == "<module>"


class _Harm:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.folder / "harm"),)


def test_a_poisoned_dump_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rank-0"
    path.write_bytes(pickle.dumps({"entries": [_Harm(tmp_path)]}))
    assert read_dump(str(path)) is None
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"{}", pickle.dumps([1]), pickle.dumps({"entries": [{}]})]
)
def test_what_is_no_dump_is_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "rank-0"
    path.write_bytes(data)
    assert read_dump(str(path)) is None
    assert read_dump(str(tmp_path / "rank-1")) is None


def test_a_rank_is_asked_by_its_pipe(dumps: str, tmp_path: Path) -> None:
    """A thread here stands for the monitor of NCCL, which needs a GPU."""
    pipe, dump = tmp_path / "p-1.pipe", tmp_path / "rank-1"
    os.mkfifo(pipe)
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def monitor() -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                if os.read(fd, 128):
                    break
            except BlockingIOError:
                pass
            time.sleep(0.05)
        data = Path(f"{dumps}1").read_bytes()
        with dump.open("wb") as file:  # in two parts, as a large one is seen
            file.write(data[:100])
            file.flush()
            time.sleep(0.3)
            file.write(data[100:])

    thread = threading.Thread(target=monitor)
    thread.start()
    recorder = ask_recorder(
        1, {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "rank-")}, str(tmp_path / "p-")
    )
    assert recorder is not None
    assert recorder.asked
    (found,) = read_recorder(recorder, time.monotonic() + 10)
    thread.join()
    os.close(fd)
    assert found["number"] == 1


def test_no_pipe_and_no_dump_cost_no_time(tmp_path: Path) -> None:
    begun = time.monotonic()
    env = {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(tmp_path / "rank-")}
    recorder = ask_recorder(0, env, str(tmp_path / "p-"))
    assert recorder is not None
    assert not recorder.asked
    assert read_recorder(recorder, begun + 30) == []
    assert ask_recorder(0, {}) is None
    assert read_recorder(None, begun + 30) == []
    assert time.monotonic() - begun < 20
