r"""Files of environment variables: the usual .env, and DeepSpeed's .deepspeed_env.

    # blank lines and comments do not count
    export NCCL_DEBUG=INFO               # nor does this
    GREETING="two\nlines, a \" and a \\"
    RAW='$HOME and \n stay as they are'
    OPTIONS=a=b=c

Nothing is ever put in for a $. Messages do not show values: they may be secret.
"""

from __future__ import annotations

import re

from zlaunch.errors import InputError
from zlaunch.frozen import frozen

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPORT = re.compile(r"export\s+")
_SKIPPED = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")  # what may stand where no value does
_ASSIGNMENT = re.compile(r"[ \t]*(?:export[ \t]+)?([^=\n]*)=")
_LINE = re.compile(r"[^\n]*")
_COMMENT = re.compile(r"[ \t]#.*")
_QUOTED = {
    '"': re.compile(r'[ \t]*"((?:[^"\\]|\\.)*)"', re.DOTALL),
    "'": re.compile(r"[ \t]*'([^']*)'"),
}
_ESCAPE = re.compile(r'\\([nrt"\\$`])')  # any other backslash is one: "C:\data"
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def is_variable(name: str) -> bool:
    """Tell whether `name` may name an environment variable."""
    return _NAME.fullmatch(name) is not None


def parse_env_file(text: str, name: str) -> tuple[tuple[str, str], ...]:
    """Read the variables of a .env file in their order; `name` is the file's, for messages.

    A value in quotes may go on over several lines. An end of line is read as a newline,
    inside quotes too, whichever of LF, CRLF and CR the file has.
    """
    source = _source(text, name)
    position = 0
    found: list[tuple[str, str]] = []
    while position < len(source.text):
        skipped = _SKIPPED.match(source.text, position)
        if skipped:
            position = skipped.end()
            continue
        variable, position = _parse_name(source, position)
        value, position = _parse_value(source, position, variable)
        found.append((variable, value))
    return tuple(found)


def parse_deepspeed_env(text: str, name: str) -> tuple[tuple[str, str], ...]:
    """Read a .deepspeed_env as DeepSpeed does: NAME=VALUE lines, quotes being a part of the value.

    Blank lines and comments, which DeepSpeed fails at, are skipped, `export ` is dropped.
    """
    source = _source(text, name)
    found: list[tuple[str, str]] = []
    for match in re.finditer(r"[^\n]+", source.text):
        line = match[0].strip()
        if line and not line.startswith("#"):
            start = match.start() + match[0].index(line)
            export = _EXPORT.match(line)
            begin = export.end() if export else 0
            variable, equals, value = line[begin:].partition("=")
            if not equals:
                raise _no_equals(source, start)
            found.append((_checked(source, start + begin, variable.strip()), value.strip()))
    return tuple(found)


@frozen
class _Source:
    """A file's text, and how to point into it."""

    name: str
    text: str

    def error(self, position: int, problem: str, hint: str) -> InputError:
        """Build the error for the character at `position`, counted from 0."""
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return InputError(problem, where=f"{self.name}:{line}:{column}", hint=hint)


def _source(text: str, name: str) -> _Source:
    source = _Source(name, re.sub(r"\r\n?", "\n", text.removeprefix("\ufeff")))
    nul = source.text.find("\0")
    if nul >= 0:
        problem = "the file holds a NUL, which no environment variable can"
        raise source.error(nul, problem, "take the character out; is it a text file?")
    return source


def _parse_name(source: _Source, position: int) -> tuple[str, int]:
    match = _ASSIGNMENT.match(source.text, position)
    if match is None:
        line = _LINE.match(source.text, position)
        blanks = len(line[0]) - len(line[0].lstrip()) if line else 0
        raise _no_equals(source, position + blanks)
    return _checked(source, match.start(1), match[1].strip(" \t")), match.end()


def _parse_value(source: _Source, position: int, variable: str) -> tuple[str, int]:
    """Read a value from behind the `=`; return it, and where the next line begins."""
    line = _LINE.match(source.text, position)
    assert line is not None
    plain = _COMMENT.sub("", line[0], count=1).strip(" \t")
    quote = plain[:1]
    if quote not in _QUOTED:
        return plain, line.end() + 1
    quoted = _QUOTED[quote].match(source.text, position)
    if quoted is None:
        raise source.error(
            source.text.index(quote, position),
            f"the quote {quote} that opens the value of {variable} is not closed",
            f"close it with {quote}; inside double quotes, write one as \\{quote}"
            if quote == '"'
            else "close it with '; a value that holds one goes into double quotes",
        )
    rest = _SKIPPED.match(source.text, quoted.end())
    if rest is None:
        raise source.error(
            quoted.end(),
            f"the value of {variable} goes on behind its closing quote {quote}",
            "put the whole value in quotes, and begin a comment with #",
        )
    value = quoted[1]
    return (_ESCAPE.sub(_unescaped, value) if quote == '"' else value), rest.end()


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[1])


def _checked(source: _Source, position: int, variable: str) -> str:
    if is_variable(variable):
        return variable
    if not variable:
        raise source.error(position, "there is no name before the =", "write NAME=VALUE")
    shown = f"{variable!r}" if len(variable) <= 40 else f"a text of {len(variable)} characters"
    raise source.error(
        position,
        f"{shown} cannot name an environment variable",
        "a name is letters, digits and _, and begins with no digit; a value over several "
        "lines goes into quotes",
    )


def _no_equals(source: _Source, position: int) -> InputError:
    hint = "write NAME=VALUE; begin a comment with #, put a value over several lines in quotes"
    return source.error(position, "the line has no =", hint)
