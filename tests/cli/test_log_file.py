"""How much of a log is read."""

from __future__ import annotations

import os
from pathlib import Path

from zlaunch.cli.log_file import read_bounded
from zlaunch.insight.diagnosis import diagnose

FAILURE = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "    raise ValueError('kaputt')\n"
    "ValueError: kaputt\n"
)
MOST = 1 << 20


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def told(path: Path) -> tuple[list[str], str, bool]:
    """Titles of causes, what of the log was read, and whether its lines have numbers."""
    with path.open("rb") as file:
        reading, cut = read_bounded(file, MOST)
    causes = diagnose(reading.evidence).causes
    return [cause.title for cause in causes], cut, any(reading.numbers.values())


def test_a_file_within_the_bound_is_read_whole(tmp_path: Path) -> None:
    titles, cut, numbered = told(written(tmp_path / "log", FAILURE))
    assert ["kaputt" in words for words in titles] == [True]
    assert (cut, numbered) == ("", True)


def test_of_a_larger_one_the_end_is_read(tmp_path: Path) -> None:
    text = "Traceback (most recent call last):\n" + "step\n" * 500_000 + FAILURE
    titles, cut, numbered = told(written(tmp_path / "log", text))
    assert ["kaputt" in words for words in titles] == [True]
    assert cut == "only the last 1 MiB of 2 MiB were read"
    assert not numbered


def test_of_a_pipe_the_beginning_is_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = os.fork()
    if writer == 0:  # writes until nobody reads any more
        try:
            with fifo.open("w") as file:
                while True:
                    file.write("step\n" * 10_000)
        finally:
            os._exit(0)
    _, cut, numbered = told(fifo)
    os.waitpid(writer, 0)
    assert (cut, numbered) == ("only the first 1 MiB were read", True)


def test_what_never_ends_ends() -> None:
    titles, cut, _ = told(Path("/dev/zero"))
    assert (titles, cut) == ([], "only the first 1 MiB were read")
