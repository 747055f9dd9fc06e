"""What may come next on an unfinished command line."""

from __future__ import annotations

import pytest

from zlaunch.spec import completion as kinds
from zlaunch.spec.completion import (
    Argument,
    Command,
    Option,
    Wanted,
    quoted,
    split_line,
    wanted,
)

TRAIN = Command(
    "",
    {
        "--recipe": Option(kinds.RECIPE),
        "-r": Option(kinds.RECIPE),
        "--num-gpus": Option(kinds.TEXT),
        "--device": Option(kinds.CHOICE, choices=("cpu", "cuda")),
        "--include": Option(kinds.HOST),
        "--hosts": Option(kinds.SSH_HOST),
        "--detach": Option(kinds.FLAG),
        "--wait": Option(kinds.TEXT, optional=True),
    },
    (Argument(kinds.FILE), Argument(kinds.FILE, rest=True)),
    script=True,
)
STOP = Command("", {"--now": Option(kinds.FLAG)}, (Argument(kinds.RUN),))
REMOVE = Command("", {}, (Argument(kinds.RUN, rest=True),))
LOGS = Command("", {}, commands={"tail": STOP})
ROOT = Command("", {}, commands={"train": TRAIN, "stop": STOP, "rm": REMOVE, "logs": LOGS})


def ask(*words: str) -> Wanted | None:
    return wanted(ROOT, words[:-1], words[-1])


@pytest.mark.parametrize(
    ("words", "kind", "before", "beginning"),
    [
        ([""], kinds.COMMAND, "", ""),
        (["st"], kinds.COMMAND, "", "st"),
        (["logs", "t"], kinds.COMMAND, "", "t"),
        (["logs", "tail", "20"], kinds.RUN, "", "20"),
        (["stop", "--now", "x"], kinds.RUN, "", "x"),
        (["stop", "--n"], kinds.OPTION, "", "--n"),
        (["stop", "--", "-x"], kinds.RUN, "", "-x"),
        (["rm", "a", "b", "c"], kinds.RUN, "", "c"),
        (["train", "-"], kinds.OPTION, "", "-"),
        (["train", "--recipe", "z"], kinds.RECIPE, "", "z"),
        (["train", "-r", ""], kinds.RECIPE, "", ""),
        (["train", "--recipe=z"], kinds.RECIPE, "--recipe=", "z"),
        (["train", "--num_gpus", "2", "--device", "c"], kinds.CHOICE, "", "c"),
        (["train", "--detach", "t"], kinds.FILE, "", "t"),
        (["train", "--wait", "t"], kinds.FILE, "", "t"),
        (["train", "--wait", "2h", "--r"], kinds.OPTION, "", "--r"),
        (["train", "--wait", "train.py", "--r"], kinds.FILE, "", "--r"),
        (["train", "train.py", "--recipe", "z"], kinds.FILE, "", "z"),
        (["train", "train.py", "--re"], kinds.FILE, "", "--re"),
        (["train", "--hosts", "a,b,c"], kinds.SSH_HOST, "a,b,", "c"),
        (["train", "--include=a:0@b"], kinds.HOST, "--include=a:0@", "b"),
    ],
)
def test_what_comes_next(words: list[str], kind: str, before: str, beginning: str) -> None:
    found = ask(*words)
    assert found is not None
    assert (found.kind, found.before, found.beginning) == (kind, before, beginning)


@pytest.mark.parametrize(
    "words",
    [
        ["nothing", "x"],  # no such command
        ["train", "--num-gpus", "1"],  # only the user knows
        ["train", "--detach=x"],  # takes no value
        ["train", "--unknown=x"],
        ["stop", "a", "b"],  # one is all it takes
    ],
)
def test_what_nothing_can_complete(words: list[str]) -> None:
    assert ask(*words) is None


def test_choices_and_what_was_given_go_along() -> None:
    found = ask("train", "--include=x", "--hosts", "a,b", "--device", "")
    assert found is not None
    assert found.choices == ("cpu", "cuda")
    assert found.given == {"--include": "x", "--hosts": "a,b"}


@pytest.mark.parametrize(
    ("line", "words", "unfinished"),
    [
        ("", [], ""),
        ("zlaunch", [], "zlaunch"),
        ("zlaunch  stop ", ["zlaunch", "stop"], ""),
        ("zlaunch stop 'my r", ["zlaunch", "stop"], "my r"),
        (r"zlaunch stop my\ r", ["zlaunch", "stop"], "my r"),
        (r'a "b \" c" ', ["a", 'b " c'], ""),
        ("a '' ", ["a", ""], ""),
        (r"a 'b\' c\ ", ["a", "b\\"], "c "),
        ("a b\\", ["a"], "b\\"),
    ],
)
def test_a_line_is_cut_as_a_shell_does(line: str, words: list[str], unfinished: str) -> None:
    found = split_line(line)
    assert (found.words, found.unfinished) == (words, unfinished)


@pytest.mark.parametrize("text", ["zero2", "my run", "a'b\"c", "$x;*", "é", "a@b:0,1=/~."])
def test_a_quoted_word_is_read_back(text: str) -> None:
    assert split_line(quoted(text)).unfinished == text


@pytest.mark.parametrize("text", ["my run", "a'b\"c", "$x;*`\\", "é:0"])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_word_goes_on_behind_an_open_quote(quote: str, text: str) -> None:
    found = split_line(f"a --name={quote}{quoted(text, quote)}")
    assert (found.unfinished, found.quote) == (f"--name={text}", quote)
    assert text.startswith("a'") or found.before == len("--name=")


def test_what_needs_no_quotes_has_none() -> None:
    assert quoted("gpu01:0,2@gpu02") == "gpu01:0,2@gpu02"
