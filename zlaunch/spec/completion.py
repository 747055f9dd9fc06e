"""What may come next on an unfinished command line: which kind of word, and its beginning."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zlaunch.frozen import frozen

FLAG = "flag"  # of an option that takes no value
TEXT = "text"  # a value that nobody but the user knows
FILE = "file"
RUN, LIVE_RUN, PAST_RUN = "run", "live run", "past run"
RECIPE, CONFIG = "recipe", "config"
HOST, SSH_HOST = "host", "ssh host"
CHOICE = "choice"
COMMAND, OPTION = "command", "option"

# What stands between the values that one word may hold.
_LISTS = {HOST: "@", SSH_HOST: ","}


@frozen
class Option:
    """One name of an option; `kind` is that of its value, or flag.

    An `optional` value may be left out; one that is there begins with a digit.
    """

    kind: str
    help: str = ""
    hidden: bool = False
    optional: bool = False
    choices: tuple[str, ...] = ()


@frozen
class Argument:
    """A word that stands by itself; `rest` is one that takes all that follow."""

    kind: str
    rest: bool = False
    choices: tuple[str, ...] = ()


@frozen
class Command:
    """A command: its options by name, its arguments in order, or the commands below it.

    With `script` everything behind the first argument is another program's.
    """

    help: str
    options: Mapping[str, Option]
    arguments: tuple[Argument, ...] = ()
    commands: Mapping[str, Command] | None = None
    script: bool = False


@frozen
class Wanted:
    """A word of `kind` that begins with `beginning`; `before` is what the same word already holds.

    `given` are the values of options of the same line, by their names.
    """

    kind: str
    beginning: str
    before: str
    command: Command
    given: Mapping[str, str]
    choices: tuple[str, ...] = ()


def wanted(root: Command, words: Sequence[str], unfinished: str) -> Wanted | None:
    """Say what completes `unfinished`, which stands behind `words`; None where nothing can."""
    walk = _Walk(root)
    for word in words:
        walk.take(word)
    return walk.ask(unfinished)


class _Walk:
    """Reads a line as the command line is read, word by word."""

    def __init__(self, root: Command) -> None:
        self._command = root
        self._given: dict[str, str] = {}
        self._awaited: str | None = None  # an option that waits for its value
        self._count = 0  # of the arguments so far
        self._only_arguments = False
        self._lost = False

    def take(self, word: str) -> None:
        self._skip_optional(word)
        if self._awaited is not None:
            self._given[self._awaited] = word
            self._awaited = None
        elif self._only_arguments or not word.startswith("-") or word == "-":
            self._take_argument(word)
        elif word == "--":
            self._only_arguments = True
        else:
            self._take_option(word)

    def _skip_optional(self, word: str) -> None:
        """Await no value that may be left out where this word is none."""
        found = self._option(self._awaited or "")
        if found is not None and found.optional and not word[:1].isdigit():
            self._awaited = None

    def _take_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        found = self._option(name)
        if found is None or found.kind == FLAG:
            return
        if equals:
            self._given[_normal(name)] = value
        else:
            self._awaited = _normal(name)

    def _take_argument(self, word: str) -> None:
        if self._command.commands is None:
            self._count += 1
            self._only_arguments |= self._command.script
        elif word in self._command.commands:
            self._command = self._command.commands[word]
        else:
            self._lost = True

    def _option(self, name: str) -> Option | None:
        return self._command.options.get(_normal(name))

    def ask(self, unfinished: str) -> Wanted | None:
        if self._lost:
            return None
        self._skip_optional(unfinished)
        if self._awaited is not None:
            return self._value(self._awaited, unfinished, "")
        if unfinished.startswith("-") and not self._only_arguments:
            name, equals, value = unfinished.partition("=")
            if equals:
                return self._value(name, value, f"{name}=")
            return self._wanted(OPTION, unfinished)
        if self._command.commands is not None:
            return self._wanted(COMMAND, unfinished)
        argument = self._argument()
        if argument is None or argument.kind == TEXT:
            return None
        return self._wanted(argument.kind, unfinished, choices=argument.choices)

    def _argument(self) -> Argument | None:
        """What the next word is that stands by itself."""
        arguments = self._command.arguments
        if self._count < len(arguments):
            return arguments[self._count]
        return arguments[-1] if arguments and arguments[-1].rest else None

    def _value(self, name: str, value: str, before: str) -> Wanted | None:
        found = self._option(name)
        if found is None or found.kind in {FLAG, TEXT}:
            return None
        return self._wanted(found.kind, value, before, found.choices)

    def _wanted(
        self, kind: str, text: str, before: str = "", choices: tuple[str, ...] = ()
    ) -> Wanted:
        cut = text.rfind(_LISTS[kind]) + 1 if kind in _LISTS else 0
        before, beginning = before + text[:cut], text[cut:]
        return Wanted(kind, beginning, before, self._command, self._given, choices)


def _normal(name: str) -> str:
    """The name as it is declared: `--num_gpus` is taken for `--num-gpus`."""
    return name.replace("_", "-")


@frozen
class Line:
    """What stands before the cursor: whole words, and the unfinished one without its quotes.

    Where a `quote` is still open, the last one opened behind `before` characters of that word.
    """

    words: list[str]
    unfinished: str
    quote: str = ""
    before: int = 0


def split_line(line: str) -> Line:
    """Cut what stands before the cursor as a shell does."""
    words, word, quote, position = [], "", "", 0
    begun, before = False, 0
    while position < len(line):
        char = line[position]
        position += 1
        if char == "\\" and quote != "'" and position < len(line):
            word, begun, position = word + line[position], True, position + 1
        elif char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote, begun, before = char, True, len(word)
        elif quote or not char.isspace():
            word, begun = word + char, True
        elif begun:
            words.append(word)
            word, begun = "", False
    return Line(words, word, quote, before if quote else 0)


def quoted(text: str, quote: str = "") -> str:
    """The text as a word of a shell's command line, unquoted as far as it can be.

    With a `quote` that is open already, as what follows that.
    """
    if quote == "'":
        return text.replace("'", r"'\''")
    special = r'(["$`\\])' if quote else r"([^\w@%+=:,./~-])"
    return re.sub(special, r"\\\1", text)
