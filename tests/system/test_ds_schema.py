"""The schema of the installed DeepSpeed: asked once, kept, and the same as zlaunch's own table."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from zlaunch.dsconfig.schema import UNKNOWN, exported_schema, own_schema
from zlaunch.dsconfig.versions import NEWEST_READ, parse_version, spelled
from zlaunch.system.ds_schema import SchemaCache, find_deepspeed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> SchemaCache:
    pytest.importorskip("deepspeed")
    return SchemaCache({"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))})


@pytest.fixture(scope="module")
def asked(cache):
    return cache.ask(None, os.environ).schema


def test_deepspeed_is_found_without_being_imported():
    pytest.importorskip("deepspeed")
    found = find_deepspeed()
    assert found is not None
    assert Path(found.path, "__init__.py").is_file()
    assert parse_version(found.version) is not None


def test_the_answer_is_kept_for_the_user_alone(cache, asked):
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    files = list(cache.directory.iterdir())
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600]
    assert files[0].name.startswith(f"deepspeed-{asked['version']}-")


def test_a_second_look_starts_no_process(cache, asked, monkeypatch):
    monkeypatch.setattr("subprocess.run", None)
    kept = cache.ask(None, {}).schema
    assert {key: kept[key] for key in asked} == asked


def test_another_interpreter_is_known_by_its_name(cache, asked, tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert cache.kept(str(python)) is None
    assert cache.ask(str(python), os.environ).schema["version"] == asked["version"]
    assert cache.kept(str(python))["sections"] == asked["sections"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"form": 0}', b"\xff"])
def test_a_damaged_file_is_asked_for_anew(cache, asked, content, tmp_path):
    again = SchemaCache({"XDG_CACHE_HOME": str(tmp_path)})
    again.directory.mkdir()
    name = next(cache.directory.glob("deepspeed-*")).name
    (again.directory / name).write_bytes(content)
    assert again.kept(None) is None


def test_who_cannot_write_there_goes_without(asked):
    assert SchemaCache({"XDG_CACHE_HOME": "/dev/null"}).ask(None, os.environ).schema == asked


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false", "/bin/true"])
def test_what_is_no_python(python, tmp_path):
    asked = SchemaCache({"XDG_CACHE_HOME": str(tmp_path)}).ask(python, os.environ)
    assert (asked.schema, asked.is_python) == (None, False)
    assert python in asked.why


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (None, "has no DeepSpeed"),
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("raise RuntimeError('no CUDA here')", "RuntimeError: no CUDA here"),
    ],
)
def test_a_python_without_a_schema_says_why(module, why, tmp_path):
    """An interpreter of its own, with a DeepSpeed that cannot be imported or with none."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    if module is not None:
        (tmp_path / "deepspeed.py").write_text(module)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    asked = SchemaCache({"XDG_CACHE_HOME": str(tmp_path)}).ask(str(python), env)
    assert (asked.schema, asked.is_python) == (None, True)
    assert why in asked.why


def test_the_own_table_says_what_the_models_say(asked):
    version = parse_version(asked["version"])
    if version != NEWEST_READ:
        pytest.skip(f"the table was written from {spelled(NEWEST_READ)}")
    models, own = exported_schema(asked, version), own_schema(version)
    only_models = {"injection_policy_tuple", "kernel_inject", "mpu", "tp_group"}
    assert {path for path in models.names() if path[-1] not in only_models} == {*own.names()}
    for path in own.names():
        ours, theirs = own.field(*path), models.field(*path)
        if ours.fields or ours.default is UNKNOWN or not theirs.lax:
            continue
        key = ".".join(path)
        assert ours.default == theirs.default, key
        assert ours.limits == theirs.limits, key
        assert ours.choices == theirs.choices, key
        assert ours.deprecated == theirs.deprecated, key
        assert {*ours.kinds} >= {*theirs.kinds} - {"any"}, key
    assert own.root.fields.keys() == models.root.fields.keys()


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"deepspeed-0.17.6.dist-info/METADATA": ""}, "0.17.6"),
        ({"deepspeed/git_version_info_installed.py": "version='0.16.9 '\n"}, "0.16.9"),
        ({"version.txt": "0.15.4\n"}, "0.15.4"),
        ({}, "0"),
    ],
)
def test_the_version_is_read_where_deepspeed_lies(files, version, tmp_path):
    for name, text in {"deepspeed/__init__.py": "", **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code = "from zlaunch.system.ds_schema import find_deepspeed as f; print(f().version)"
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == version
