"""`zlaunch logs` by time, host and error, in the order of arrival, of logs that have a size."""

from __future__ import annotations

import json
import os
import re
import struct
import tarfile
from pathlib import Path

import pytest
import zstandard
from journeys import ZLAUNCH, Done, Journey, eventually
from test_logs_ps import go, of, waiting

# Takes turns: each waits until what the other printed is in its log.
TURNS = """
import os, pathlib, time
rank, logs = int(os.environ["RANK"]), pathlib.Path(os.environ["ZLAUNCH_RUN_DIR"]) / "logs"
for turn in range(12):
    if turn % 2 == rank:
        print("turn", turn, flush=True)
    log = logs / f"rank-{turn % 2}.log"
    while f"turn {turn}\\n" not in log.read_text():
        time.sleep(0.005)
"""
MERGED = [f"{turn % 2} | turn {turn}" for turn in range(12)]
FAILS = """
import os, sys, time
for i in range(2000):
    print("step", i, "loss", 1 / (i + 1))
print("ERROR: the disk is slow")
def inner():
    raise ValueError("row 17 is empty")
if os.environ["RANK"] == "1":
    inner()
time.sleep(600)
"""


def test_the_order_of_arrival_live_and_afterwards(journey: Journey) -> None:
    run = journey.start("run", "--cpu", "2", journey.script(TURNS))
    assert eventually((journey.home / "latest").exists)
    tail = journey.start("logs", "tail", "--merge", "-n", "all")
    assert tail.end().out.splitlines() == MERGED
    assert run.end().code == 0
    assert journey.zlaunch("logs", "show", "--merge").out.splitlines() == MERGED
    shown = journey.zlaunch("logs", "show").out.splitlines()
    assert shown == sorted(MERGED, key=lambda line: line[0])  # rank after rank
    some = journey.zlaunch("logs", "tail", "--merge", "-n", "2", "--grep", "turn .$")
    assert some.out.splitlines() == MERGED[6:10]


def test_errors_alone_with_their_tracebacks(journey: Journey) -> None:
    assert journey.zlaunch("run", "-q", "--cpu", "2", "--grace", "5", journey.script(FAILS)).code
    for command in (("show",), ("tail", "-n", "20"), ("show", "--merge")):
        lines = journey.zlaunch("logs", *command, "--errors").out
        told = of(1, lines)
        assert told[:2] == ["ERROR: the disk is slow", "Traceback (most recent call last):"]
        assert told[-1] == "ValueError: row 17 is empty"
        assert [line.split()[-1] for line in told if line.startswith("  File")] == [
            "<module>",
            "inner",
        ]
        assert of(0, lines) == ["ERROR: the disk is slow"]
    last = journey.zlaunch("logs", "tail", "--errors", "-n", "1", "--rank", "1")
    assert last.out == "1 | ValueError: row 17 is empty\n"
    both = journey.zlaunch("logs", "show", "--errors", "--grep", "disk")
    assert both.out.splitlines() == [f"{rank} | ERROR: the disk is slow" for rank in (0, 1)]


def test_since(journey: Journey) -> None:
    run = waiting(journey)
    record = journey.record()
    go(journey)
    run.end()
    everything = journey.zlaunch("logs", "show").out
    assert journey.zlaunch("logs", "show", "--since", "1h").out == everything
    assert journey.zlaunch("logs", "tail", "--since", "1d").out == everything
    assert len(journey.zlaunch("logs", "tail", "--since", "1d", "-n", "3").out.split("\n")) == 7
    # An hour passes; the index is all that knows of time.
    older = journey.latest / "arrivals"
    data = bytearray(older.read_bytes())
    (begun,) = struct.unpack_from("<d", data, 16)
    assert abs(begun - record["started"]) < 60
    struct.pack_into("<d", data, 16, begun - 3600)
    older.write_bytes(data)
    assert journey.zlaunch("logs", "show", "--since", "30m").out == ""
    assert journey.zlaunch("logs", "show", "--since", "2h").out == everything
    older.unlink()
    for option in (("--since", "10m"), ("--merge",)):
        refused = journey.zlaunch("logs", "show", *option)
        assert refused.code == 2
        assert "older zlaunch" in refused.err
    assert journey.zlaunch("logs", "show").out == everything


def test_hosts_as_the_plan_names_them(journey: Journey) -> None:
    script = journey.script("import os; print('I am', os.environ['RANK'])")
    assert journey.zlaunch("run", "-q", "--cpu", "4", script).code == 0
    record = journey.record()  # as if it had run on three hosts
    hosts = ["gpu01", "gpu01", "gpu02", "login"]
    for worker, host in zip(record["plan"]["workers"], hosts, strict=True):
        worker["host"] = host
    record["plan"]["nodes"] = [{"host": host} for host in dict.fromkeys(hosts)]
    (journey.latest / "run.json").write_text(json.dumps(record))
    for asked, ranks in {
        "gpu01": (0, 1),
        "gpu*": (0, 1, 2),
        "gpu[02-09],login": None,
        "gpu02,login": (2, 3),
        "gpu[01-02]": (0, 1, 2),
    }.items():
        shown = journey.zlaunch("logs", "show", "--host", asked)
        if ranks is None:
            assert shown.out.splitlines() == ["gpu02:2 | I am 2", "login:3 | I am 3"]
        else:
            assert shown.out == "".join(f"{hosts[r]}:{r} | I am {r}\n" for r in ranks)
    paths = journey.zlaunch("logs", "path", "--host", "gpu02")
    assert paths.out == f"{journey.latest / 'logs' / 'rank-2.log'}\n"
    unknown = journey.zlaunch("logs", "tail", "--host", "gpu03")
    assert unknown.code == 2
    assert "gpu03" in unknown.err
    assert "gpu01, gpu02, login" in unknown.err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--since soon", "soon"),
        ("-n few", "few"),
        ("--grep a{99999999999}", "a{99999999999}"),
        ("--host *x", "*x"),
        ("--since 2099-01-01", "99"),
    ],
)
def test_what_cannot_be_chosen(journey: Journey, options: str, word: str) -> None:
    assert journey.zlaunch("run", "-q", "--cpu", "1", journey.script("")).code == 0
    done = journey.zlaunch("logs", "tail", *options.split())
    assert done.code == 2
    assert word in done.err
    assert "Traceback" not in done.err


def test_a_run_in_place_of_a_command(journey: Journey) -> None:
    done = journey.zlaunch("logs", "big")
    assert (done.code, "zlaunch logs tail big" in done.err) == (2, True)
    assert "did you mean tail?" in journey.zlaunch("logs", "tial").err


# Logs that have a size

LINES = 50_000
MUCH = f"""
import os, pathlib, sys, time
for i in range({LINES}):
    sys.stdout.write(f"line {{i:06d}} ".ljust(71, "x") + "\\n")
sys.stdout.flush()
sys.exit(3)
"""
LINE = 72  # bytes
TOTAL = LINE * LINES


def test_the_newest_are_kept_and_whoever_is_late_is_told(journey: Journey) -> None:
    run = journey.start("run", "-q", "--cpu", "2", "--log-max", "1M", journey.script(MUCH))
    assert eventually((journey.home / "latest").exists)
    seen = journey.start("logs", "tail", "-n", "all").end()
    assert run.end().code == 3
    for rank in (0, 1):
        _check_seen(seen, rank)
    logs = journey.latest / "logs"
    for rank in (0, 1):
        files = [*sorted((logs / f"rank-{rank}.log.old").iterdir()), logs / f"rank-{rank}.log"]
        kept = b"".join(file.read_bytes() for file in files)
        assert 1 << 19 <= len(kept) <= 1 << 20
        assert kept.endswith(b"line %06d %s\n" % (LINES - 1, b"x" * 59))
        paths = journey.zlaunch("logs", "path", "--rank", str(rank)).out.splitlines()
        assert paths == [str(file) for file in files]
        shown = journey.zlaunch("logs", "show", "--rank", str(rank))
        assert [line.encode() for line in of(rank, shown.out)] == kept.splitlines()
        assert f"{TOTAL - len(kept):,} bytes of its log are gone" in shown.err
    tail = journey.zlaunch("logs", "tail", "-n", "5000", "--rank", "1")
    assert [int(line.split()[1]) for line in of(1, tail.out)] == list(range(LINES - 5000, LINES))
    assert "exit code 3" in journey.zlaunch("diagnose").out
    assert journey.zlaunch("rm", journey.latest.name).code == 0
    assert not journey.runs


def _check_seen(seen: Done, rank: int) -> None:
    """All lines in order, but for those that the follower says are gone."""
    numbers = [int(line.split()[1]) for line in of(rank, seen.out)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == LINES - 1
    gone = re.findall(rf"rank {rank}: ([\d,]+) bytes of its log are gone", seen.err)
    lost = sum(int(size.replace(",", "")) for size in gone)
    assert len(numbers) * LINE + lost == TOTAL


@pytest.mark.parametrize("size", ["10k", "much", "0"])
def test_a_size_that_is_none(journey: Journey, size: str) -> None:
    done = journey.zlaunch("run", "--cpu", "1", "--log-max", size, journey.script(""))
    assert done.code == 2
    assert "--log-max" in done.err
    assert not journey.runs


# Export

SECRET = "correct-horse-battery"
TALKS = f"""
import os
print("my key is", os.environ["SERVICE_API_KEY"])
print("hf_" + "a" * 30, "and https://bob:{SECRET}@example.org/")
for i in range(150_000):
    print("an ordinary line of a long log, number", i, "." * 20)
print("the end")
"""


def _unpacked(path: Path, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    data = path.read_bytes()
    if path.name.endswith(".zst"):
        data = zstandard.ZstdDecompressor().stream_reader(data).read()
        path = folder / "plain.tar"
        path.write_bytes(data)
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file}


def test_export_hides_secrets_and_cuts_long_logs_in_the_middle(journey: Journey) -> None:
    env = {"SERVICE_API_KEY": SECRET}
    script = journey.script(TALKS)
    done = journey.zlaunch("run", "-d", "--cpu", "1", "--name", "big", script, env=env)
    assert done.code == 0, done.err
    assert journey.zlaunch("wait", "big").code == 0
    os.umask(0o022)
    exported = journey.zlaunch("logs", "export", "big", "out.tar.zst", env=env)
    assert exported.code == 0, exported.err
    assert exported.out == "out.tar.zst\n"
    path = journey.folder / "out.tar.zst"
    assert path.stat().st_mode & 0o777 == 0o600
    files = _unpacked(path, journey.folder / "zst")
    assert {"run.json", "events.jsonl", "console.log", "logs/rank-0.log", "export.json"} <= set(
        files
    )
    assert not [name for name, data in files.items() if SECRET.encode() in data]
    log = files["logs/rank-0.log"]
    assert log.startswith(b"my key is ***\n*** and https://bob:***@example.org/\nan ordinary")
    assert log.endswith(b"the end\n")
    whole = (journey.latest / "logs" / "rank-0.log").read_bytes()
    assert len(log) < len(whole)
    [gap] = [line for line in log.splitlines() if b"left" in line]
    assert re.fullmatch(rb"\[zlaunch left [\d,]+ bytes out here\]", gap)
    assert set(log.splitlines()[2:]) <= {gap, *whole.splitlines()[2:]}
    about = json.loads(files["export.json"])
    assert about["zlaunch"]
    assert about["values_hidden"] >= 6  # three each in the log and on the console
    assert "logs/rank-0.log" in exported.err
    again = journey.zlaunch("logs", "export", "big", "out.tar.zst", env=env)
    assert (again.code, path.read_bytes() != b"") == (2, True)
    assert "--force" in again.err
    assert journey.zlaunch("logs", "export", "big", "out.tar.zst", "--force", "--whole").code == 0
    whole_log = _unpacked(path, journey.folder / "whole")["logs/rank-0.log"]
    assert whole_log.splitlines()[2:] == whole.splitlines()[2:]
    assert b"hf_" not in whole_log


def test_export_in_other_forms_or_not_at_all(journey: Journey) -> None:
    run = waiting(journey)  # of a run that is going on
    for name in ("a.tar.gz", "a.tar.xz"):
        assert journey.zlaunch("logs", "export", journey.latest.name, name).code == 0
        files = _unpacked(journey.folder / name, journey.folder / f"{name}.d")
        assert files["logs/rank-1.log"].endswith(b"up\n")
    before = sorted(journey.folder.iterdir())
    limited = ("sh", "-c", 'ulimit -f 1; exec "$@"', "sh")
    full = journey.start(
        "logs", "export", journey.latest.name, "b.tar.xz", command=(*limited, *ZLAUNCH)
    )
    done = full.end()
    assert (done.code, "b.tar.xz" in done.err) == (2, True)
    for name in ("a.zip", "none/a.tar.gz"):
        refused = journey.zlaunch("logs", "export", journey.latest.name, name)
        assert refused.code == 2
        assert name in refused.err
        assert "Traceback" not in refused.err
    assert sorted(journey.folder.iterdir()) == before
    go(journey)
    run.end()
