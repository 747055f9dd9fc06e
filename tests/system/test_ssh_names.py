"""The hosts that an OpenSSH configuration calls by name."""

from __future__ import annotations

from pathlib import Path

from zlaunch.system.ssh_names import host_names


def test_names_without_patterns_through_included_files(tmp_path: Path) -> None:
    folder = tmp_path / ".ssh"
    (folder / "more").mkdir(parents=True)
    config = 'Host one "two" *.lan !no\n User me\nInclude more/*\nhost=three one\n'
    (folder / "config").write_text(config)
    (folder / "more" / "a").write_text("Host four\n")
    (folder / "more" / "b").write_text(f"Include {folder}/config\nHost five\n")
    (folder / "more" / "broken").write_text("Host\n")
    assert host_names(tmp_path) == ["one", "two", "four", "five", "three"]


def test_where_there_is_no_configuration_there_are_no_names(tmp_path: Path) -> None:
    assert host_names(tmp_path) == []
