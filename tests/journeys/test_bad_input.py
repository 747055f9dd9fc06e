"""What cannot be done is refused before any worker starts: one message, and the way out."""

from __future__ import annotations

import os
import subprocess

import pytest
from journeys import ZLAUNCH, Done, Journey

from zlaunch.system.cpu_features import fp16_on_cpus

without_fp16 = pytest.mark.skipif(fp16_on_cpus() is not False, reason="these CPUs can do fp16")

SCRIPT = "open('started', 'w')\n"


FINDINGS = 5  # lines about a config: one for all, and a line and a hint for each of two findings


def refused(journey: Journey, *args: str, code: int = 2, most: int = 4, **options: object) -> str:
    """Run what must be refused; return what was said."""
    done = journey.zlaunch(*args, **options)
    return checked(journey, done, code, most)


def checked(journey: Journey, done: Done, code: int = 2, most: int = 4) -> str:
    assert done.code == code, done.text
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.count("zlaunch: error: ") == 1
    assert done.err.startswith("zlaunch: error: ")
    assert len(done.err.splitlines()) <= most
    assert not (journey.folder / "started").exists()
    return done.err


@pytest.fixture
def script(journey: Journey) -> str:
    journey.script("w0 slots=4\nw1 slots=4\n", "hostfile")
    journey.script("w0 slots=4", "hosts.txt")
    journey.script("print('a'\n\nx = = 1\n", "broken.py")
    journey.program("", "pkg/__init__.py")
    (journey.folder / "latin.py").write_bytes(b"x = '\xe9'\n")
    (journey.folder / "null.py").write_bytes(b"x = 1\0\n")
    (journey.folder / "crlf.py").write_bytes(b"##\r\nx = = 1\r\n")  # bytecode has such a 3rd byte
    (journey.folder / "data.bin").write_bytes(bytes(range(256)))
    journey.program("#!/bin/bash\necho hello | cat\n", "train.sh")
    journey.script("text", "plain.txt")
    (journey.folder / "empty_dir").mkdir()
    return journey.script(SCRIPT, "train.py")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("''", ["cript"]),
        ("-m train.py", ["-m train"]),
        ("-m pkg", ["pkg", "__main__"]),
        ("-m pkg.nothing", ["pkg.nothing"]),
        ("trian.py", ["trian.py", "similar: train.py"]),
        ("nowhere/train.py", ["nowhere/train.py", "no directory nowhere"]),
        ("hostfile", ["hostfile", "script is missing"]),
        ("hosts.txt train.py", ["hostfile", "script is missing"]),
        ("broken.py", ["broken.py:1:"]),
        ("latin.py", ["latin.py"]),
        ("null.py", ["null.py"]),
        ("crlf.py", ["crlf.py:2:"]),
        ("data.bin", ["data.bin"]),
        ("train.sh", ["#!/bin/bash", "--no-python"]),
        ("empty_dir", ["empty_dir", "__main__.py"]),
        ("-m nosuchmodule", ["nosuchmodule"]),
        ("--no-python nosuchprogram", ["nosuchprogram"]),
        ("--no-python plain.txt", ["plain.txt", "chmod +x"]),
        ("--python nosuch train.py", ["nosuch"]),
    ],
)
def test_the_script(journey: Journey, script: str, line: str, words: list[str]) -> None:
    said = refused(journey, "run", "--cpu", "1", *("" if w == "''" else w for w in line.split()))
    for word in words:
        assert word in said


def test_a_syntax_error_has_its_place(journey: Journey) -> None:
    script = journey.script("def f():\n    x = = 1\n", "bad.py")
    assert "bad.py:2:9: " in refused(journey, "run", "--cpu", "1", script)


def test_a_script_that_nobody_may_read(journey: Journey, script: str) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read anything")
    (journey.folder / script).chmod(0)
    said = refused(journey, "run", "--cpu", "1", script)
    assert "Permission denied" in said


def test_a_program_that_is_not_on_the_path(journey: Journey, script: str) -> None:
    said = refused(journey, "run", "--cpu", "1", "--no-python", "train.sh")
    assert "./train.sh" in said
    assert "chmod" not in said  # it is executable


@pytest.mark.parametrize("source", ["x = " + "-" * 50_000 + "1\n", "x = " + "+".join("1" * 20_000)])
def test_a_source_too_deep_for_the_parser(journey: Journey, source: str) -> None:
    """Python cannot compile it either; that it cannot must not show as a fault of ours."""
    done = journey.zlaunch("run", "--cpu", "1", journey.script(source))
    assert done.code != 0
    assert "zlaunch/" not in done.err.replace("/logs", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--recipe zreo2", ["zreo2", "zero2"]),
        ("--recipe zero4", ["zero4", "zero1", "zero3"]),
        ("--recipe nothing_like_it", ["nothing_like_it", "zero2"]),
        ("--recipe ./mine.toml", ["./mine.toml"]),
        ("--recipe _base", ["_base"]),
        ("--set gradient_clipp1ng=1", ["gradient_clipp1ng", "gradient_clipping"]),
        ("--set zero_optimization.stge=3", ["stge", "zero_optimization.stage"]),
        ("--set stage=3", ["stage", "zero_optimization.stage"]),
        ("--set gradient_clipping", ["KEY=VALUE"]),
        ("--set zero_optimization.stage=two", ["stage", "two"]),
        ("--set zero_optimization.stage=7", ["stage", "7"]),
        ("--set steps_per_print=1.5", ["steps_per_print", "1.5"]),
        ("--recipe ddp --set gradient_clipping=1", ["gradient_clipping", "DeepSpeed"]),
        ("--recipe ddp --micro-batch 4", ["DeepSpeed"]),
        ("--recipe ddp --ds-arg --config", ["--ds-arg", "ds_config"]),
        ("--recipe zero2 --ds-config x.json", ["--recipe", "--ds-config"]),
        pytest.param("--precision fp16", ["fp16", "bf16"], marks=without_fp16),
        ("--precision fp8", ["fp8", "bf16"]),
        ("--set fp16.enabled=true --set bf16.enabled=true", ["fp16", "bf16"]),
        ("--global-batch 7", ["7", "6", "8"]),
        ("--global-batch 1", ["1", "2"]),
        ("--global-batch 30 --micro-batch 4", ["30", "24", "32"]),
        ("--global-batch 32 --micro-batch 4 --accumulate 3", ["32", "24", "accumulation 4"]),
        ("--micro-batch 0", ["0"]),
        ("--micro-batch x", ["x"]),
        ("--device tpu", ["tpu", "cuda"]),
        ("--device cuda --cpu 2", ["--cpu", "--device cuda"]),
        ("--num-gpus 2", ["--num-gpus", "--cpu"]),
        ("--gpus 0", ["--gpus", "--cpu"]),
        ("--nproc 3", ["--nproc", "--cpu"]),
        ("--cpu 0", ["--cpu 0"]),
        ("--cpu 200000", ["200000"]),
        ("--cpu two", ["two"]),
        ("-m --no-python", ["--module", "--no-python"]),
        ("--no-python --python sh", ["--python", "--no-python"]),
        ("--grace -1", ["--grace"]),
        ("--grace nan", ["--grace"]),
        ("--master-port 70000", ["70000", "65535"]),
        ("--master-port -1", ["-1"]),
        ("--console-ranks 5", ["5", "world size is 2"]),
        ("--console-ranks one", ["one"]),
        ("--target keras", ["keras", "accelerate"]),
        ("--local-rank-arg maybe", ["maybe", "never"]),
        ("--no-such-option", ["--no-such-option"]),
        ("--json", ["--json", "--dry-run"]),
    ],
)
def test_the_options(journey: Journey, script: str, options: str, words: list[str]) -> None:
    base = [] if options.startswith("--cpu") else ["--cpu", "2"]
    said = refused(journey, "run", *base, *options.split(), script, seconds=10)
    for word in words:
        assert word in said
    assert not journey.runs


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["config.json", "was not found", "configs.json"]),
        ("", ["config.json", "empty"]),
        ("  \n", ["config.json", "empty"]),
        ('{"train_batch_size": 8,\n "fp16": {"enabled" true}}', ["config.json:2:"]),
        ('{"a": 1, "a": 2}', ["twice", '"a"']),
        ("[1, 2]", ["a list"]),
        ("3", ["a number"]),
        ("eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0=", ["base64"]),
        ('{"train_batch_size": 9}', ["9", "8", "10"]),
        ('{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 3}', ["8", "3"]),
        ('{"train_batch_size": "many"}', ["many"]),
        ('{"fp16": {"enabled": true}, "bf16": {"enabled": true}}', ["fp16", "bf16"]),
    ],
)
def test_the_users_own_config(
    journey: Journey, script: str, content: str | None, words: list[str]
) -> None:
    journey.script("{}", "configs.json")
    if content is not None:
        journey.script(content, "config.json")
    args = ("run", "--cpu", "2", "--ds-config", "config.json", script)
    said = refused(journey, *args, most=FINDINGS)
    for word in words:
        assert word in said


def test_a_config_that_is_a_folder_or_no_text(journey: Journey, script: str) -> None:
    (journey.folder / "folder").mkdir()
    (journey.folder / "bytes").write_bytes(b"\xff\xfe{}")
    for name in ("folder", "bytes"):
        assert name in refused(journey, "run", "--cpu", "2", "--ds-config", name, script)


def test_a_config_with_comments_is_read(journey: Journey) -> None:
    pytest.importorskip("hjson")
    journey.script("{\n  # mine\n  train_batch_size: 8,\n}\n", "mine.hjson")
    script = journey.script("import os; print(open(os.environ['ZLAUNCH_DS_CONFIG']).read())")
    done = journey.zlaunch("run", "-q", "--cpu", "2", "--ds-config", "mine.hjson", script)
    assert done.code == 0, done.err
    assert '"train_batch_size": 8' in done.out
    assert '"gradient_accumulation_steps": ' in done.out


def test_a_home_that_cannot_be(journey: Journey, script: str) -> None:
    journey.home.write_text("a file")
    for home in (journey.home, journey.home / "below"):
        said = refused(journey, "run", "--cpu", "1", script, env={"ZLAUNCH_HOME": str(home)})
        assert str(journey.home) in said
        assert "ZLAUNCH_HOME" in said
    said = refused(journey, "run", "--cpu", "1", script, env={"ZLAUNCH_HOME": "/proc/no"})
    assert "/proc/no" in said


def test_a_home_on_a_full_disk(journey: Journey, script: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounts a small disk")
    journey.home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(journey.home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    try:
        subprocess.run(["dd", "if=/dev/zero", f"of={journey.home}/f"], check=False, stderr=-3)
        said = refused(journey, "run", "--cpu", "1", script)
        assert "No space left on device" in said
        assert "ZLAUNCH_HOME" in said
        assert not list(journey.home.glob("latest"))
    finally:
        subprocess.run(["umount", str(journey.home)], check=True)


def test_a_folder_that_is_gone(journey: Journey, script: str) -> None:
    gone = journey.folder / "gone"
    shell = f'mkdir {gone}; cd {gone}; rmdir {gone}; exec "$@"'
    line = ["run", "--cpu", "1", str(journey.folder / script)]
    done = journey.start(*ZLAUNCH, *line, command=("sh", "-c", shell, "sh")).end()
    assert "current directory" in checked(journey, done)


@pytest.mark.parametrize("line", ["run", "run --cpu 2", "nosuch", "logs nosuch", "ps --nosuch"])
def test_the_command_itself(journey: Journey, line: str) -> None:
    assert "--help" in refused(journey, *line.split())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "logs",
        "--help",
        "run --help",
        "logs tail -h",
        "ps --help",
    ],
)
def test_help_is_no_error(journey: Journey, line: str) -> None:
    done = journey.zlaunch(*line.split())
    assert "Usage: zlaunch" in done.text
    assert "error" not in done.err
    assert not journey.home.exists()


def test_more_ranks_than_files_may_be_open(journey: Journey, script: str) -> None:
    line = [*ZLAUNCH, "run", "--cpu", "64", script]
    done = journey.start(*line, command=("sh", "-c", 'ulimit -n 40; exec "$@"', "sh")).end()
    assert done.code == 2
    assert "Too many open files" in done.err
    assert "ulimit -n" in done.err
    assert journey.zlaunch("ps", "--json").stdout.strip() == b"[]"


def test_deepspeeds_word_for_one_machine(journey: Journey, script: str) -> None:
    assert "--num-nodes 2" in refused(journey, "run", "--num_nodes=2", "--cpu", "1", script)
    assert journey.zlaunch("run", "-q", "--num_nodes", "1", "--cpu", "1", script).code == 0
