"""Metrics of real runs: in metrics.jsonl, at the control socket, and as Prometheus scrapes them."""

from __future__ import annotations

import importlib.util
import re
import socket
import stat
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from journeys import LONG, Journey, Live, eventually
from prometheus_client.parser import text_string_to_metric_families

from zlaunch.run.control import request
from zlaunch.run.metrics import SYSTEM, Metric, decode
from zlaunch.system.control_socket import ask
from zlaunch.system.rundir import RunDir

TRAINS = """
import os, sys, time
from pathlib import Path
rank = int(os.environ["RANK"])
for step in range(1, 21):
    print(f"step {step}/20 loss {1 / step:.3f} lr 1e-4")
sys.stdout.write("\\rTraining: 100%|###| 21/21 [00:01<00:00,  5.00it/s, loss=0.5]")
sys.stdout.flush()
while not Path("enough").exists():
    time.sleep(0.02)
sys.exit(os.environ["ZLAUNCH_RESTART_COUNT"] == "0" and "again" in sys.argv)
"""

TRAINER = """
import torch
from transformers import Trainer, TrainingArguments

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        return {"x": torch.ones(4), "labels": torch.ones(1)}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        return {"loss": ((self.linear(x) - labels) ** 2).mean()}

arguments = TrainingArguments(
    output_dir="out", max_steps=6, logging_steps=2, per_device_train_batch_size=4, use_cpu=True,
    report_to="none", save_strategy="no",
)
Trainer(model=Model(), args=arguments, train_dataset=Rows()).train()
"""


def metrics(run: Path) -> list[Metric]:
    """What ranks printed; a run of more than a few seconds also has what they use."""
    lines = (run / "metrics.jsonl").read_bytes().splitlines()
    found = [m for m in map(decode, lines) if m is not None]
    assert len(found) == len(lines)
    return [m for m in found if m.source != SYSTEM]


def scraped(url: str) -> dict[str, dict[str | None, float]]:
    with urllib.request.urlopen(url, timeout=LONG) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    return {
        family.samples[0].name: {s.labels.get("rank"): s.value for s in family.samples}
        for family in text_string_to_metric_families(text)
    }


def url_of(live: Live) -> str:
    live.until("/metrics\n")
    found = re.search(r"metrics: (http://127\.0\.0\.1:[0-9]+/metrics)\n", live.text)
    assert found is not None
    return found[1]


def test_metrics_of_all_attempts_are_kept(journey: Journey) -> None:
    (journey.folder / "enough").touch()
    more = ("--max-restarts", "1", "--healthy-after", "0")
    done = journey.zlaunch("run", "--cpu", "2", *more, journey.script(TRAINS), "again")
    assert done.code == 0, done.text
    path = journey.latest / "metrics.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = metrics(journey.latest)
    for attempt in (0, 1):
        for rank in (0, 1):
            own = [m for m in found if (m.attempt, m.rank) == (attempt, rank)]
            assert [m.step for m in own] == list(range(1, 22))
            assert [m.total for m in own] == [20] * 20 + [21]
            assert (own[1].loss, own[1].lr, own[1].source) == (0.5, 1e-4, "print")
            assert own[-1].step_seconds == 0.2
    assert found == sorted(found, key=lambda metric: metric.attempt)


def test_a_scrape_and_a_question(journey: Journey) -> None:
    script = journey.script(TRAINS)
    live = journey.start("run", "--cpu", "2", "--metrics-port", "0", script)
    url = url_of(live)
    assert eventually(lambda: scraped(url).get("zlaunch_step") == {"0": 21.0, "1": 21.0})
    read = scraped(url)
    assert read["zlaunch_rank_up"] == {"0": 1.0, "1": 1.0}
    assert read["zlaunch_attempt"] == {None: 0.0}
    assert read["zlaunch_loss"] == {"0": 0.5, "1": 0.5}
    assert read["zlaunch_learning_rate"] == {"0": 1e-4, "1": 1e-4}
    assert read["zlaunch_seconds_left"] == {"0": 0.0, "1": 0.0}
    (run,) = journey.runs
    told = ask(RunDir(run), request("metrics"), LONG)
    printed = [m for m in told["metrics"] if m["source"] != SYSTEM]
    assert [(m["rank"], m["step"], m["total"]) for m in printed] in (
        [(0, 21, 21), (1, 21, 21)], [(1, 21, 21), (0, 21, 21)],
    )  # fmt: skip
    assert told["seconds_left"] == {"0": 0.0, "1": 0.0}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url + "/x", timeout=LONG)
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(url, data=b"x" * 100_000, timeout=LONG)
    # within a second all of it is in the file, while the run goes on
    assert eventually(lambda: {(m.rank, m.step) for m in metrics(run)} >= {(0, 21), (1, 21)})
    (journey.folder / "enough").touch()
    assert live.end().code == 0


def test_clients_that_say_nothing_keep_nobody_out(journey: Journey) -> None:
    script = journey.script(TRAINS)
    live = journey.start("run", "--cpu", "1", "--metrics-port", "0", script)
    url = url_of(live)
    port = int(url.rsplit(":", 1)[1].partition("/")[0])
    with ExitStack() as stack:
        mute = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), LONG))
            for _ in range(40)
        ]
        for number, client in enumerate(mute[20:]):
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (number * 100))
        assert "zlaunch_rank_up" in scraped(url)
        # the first of them had to go
        mute[0].settimeout(LONG)
        assert mute[0].recv(1) == b""
        # one that was left is answered when it has asked at last
        mute[-1].sendall(b"\r\n\r\n")
        assert mute[-1].recv(12) == b"HTTP/1.1 200"
        # one that says that it has said all gets the whole answer, too
        brief = stack.enter_context(socket.create_connection(("127.0.0.1", port), LONG))
        brief.sendall(b"GET /metrics HTTP/1.0\n\n")
        brief.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: brief.recv(4096), b""))
        length = re.search(rb"Content-Length: ([0-9]+)\r\n", said)
        assert length is not None and len(said.partition(b"\r\n\r\n")[2]) == int(length[1])
        long = stack.enter_context(socket.create_connection(("127.0.0.1", port), LONG))
        long.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000)
        assert long.recv(12) == b"HTTP/1.1 431"
    (journey.folder / "enough").touch()
    assert live.end().code == 0


def test_a_port_that_cannot_be_had_ends_it_before_anything_starts(journey: Journey) -> None:
    script = journey.script("print('started')")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = journey.zlaunch("run", "--cpu", "1", "--metrics-port", port, script)
        assert done.code == 2
        assert f"port {port} is in use" in done.err and "--metrics-port" in done.err
    for wrong in ("65536", "-1"):
        done = journey.zlaunch("run", "--cpu", "1", "--metrics-port", wrong, script)
        assert done.code == 2 and f"--metrics-port {wrong}" in done.err
    same = ("--metrics-port", "12345", "--master-port", "12345")
    done = journey.zlaunch("run", "--cpu", "1", *same, script)
    assert done.code == 2 and "--master-port" in done.err
    assert journey.runs == []


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="no transformers")
def test_the_trainer_of_today(journey: Journey) -> None:
    done = journey.zlaunch("run", "--cpu", "1", journey.script(TRAINER), seconds=100)
    assert done.code == 0, done.text
    found = metrics(journey.latest)
    assert {m.source for m in found} == {"trainer"}
    assert [m.step for m in found if m.loss is not None] == [2, 4, 6]
    assert all(m.total == 6 and m.epoch and m.lr is not None for m in found if m.loss is not None)
    assert found[-1].samples_per_second
