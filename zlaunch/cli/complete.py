"""Answers a shell that asks what could come next; `zlaunch completion` prints the one that asks.

It is called for every press of Tab, so neither Typer nor any command is imported for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from zlaunch.cli.completion_table import commands
from zlaunch.cli.completion_values import words_for
from zlaunch.spec import completion as kinds
from zlaunch.spec.completion import Line, quoted, split_line, wanted

_OR_FILES = {kinds.CONFIG, kinds.RECIPE}
_LISTS = {kinds.HOST, kinds.SSH_HOST}  # behind one, more may follow in the same word


def answer(args: Sequence[str]) -> None:
    """Print how to complete, and with what: a word and, behind a tab, what it is, a line.

    `args` are the shell's name and then, for bash, the line up to the cursor and what bash cuts
    words at; for others the words up to the cursor, the last of them unfinished.
    """
    shell, *rest = args
    if shell == "bash":
        line, cut_at = split_line(rest[0]), rest[1]
        words, unfinished = line.words[1:], line.unfinished
    else:
        *words, unfinished = rest
    next_one = wanted(commands(os.environ), words, unfinished)
    if next_one is None:
        print("none")  # noqa: T201
        return
    if next_one.kind == kinds.FILE:
        print("files")  # noqa: T201
        return
    found = list(words_for(next_one, os.environ))
    if not found and next_one.kind in _OR_FILES:
        print("files")  # noqa: T201
        return
    lines = [(next_one.before + word, told) for word, told in found]
    if shell == "bash":
        lines = _for_bash(lines, line, cut_at)
    how = "nospace" if next_one.kind in _LISTS else "words"
    sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    print("\n".join([how, *(f"{word}\t{told}" if told else word for word, told in lines)]))  # noqa: T201


def _for_bash(found: Iterable[tuple[str, str]], line: Line, cut_at: str) -> list[tuple[str, str]]:
    """Without what stands before the last place at which bash cuts, and without what each is.

    Of the characters at which it does, it gives back `@` as part of what is behind it. Behind a
    quote that is open it cuts at none.
    """
    behind = {"=": 1, ":": 1, "@": 0}
    loose = line.unfinished[: line.before] if line.quote else line.unfinished
    cut = max([loose.rfind(char) + behind[char] for char in behind if char in cut_at] + [0])
    return [(quoted(word[cut:], line.quote), "") for word, _ in found]
