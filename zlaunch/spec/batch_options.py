"""Options of sbatch that a user gives beside those of `zlaunch submit`, read as sbatch reads them.

Pure. What zlaunch builds on cannot be given in any of the ways that sbatch knows: in the middle of
other options, as a letter among letters, or as the beginning of a name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from zlaunch.errors import InputError

# By the names that are zlaunch's to give: its own option, or "" for not at all.
_OWN = {
    "--array": "zlaunch submit --array",
    "--nodes": "zlaunch submit --nodes",
    "--time": "zlaunch submit --time",
    "--requeue": "zlaunch submit --requeue",
    "--signal": "zlaunch submit --signal-before",
    "--clusters": "SLURM_CLUSTERS=NAME in the environment, which all commands know",
    **dict.fromkeys(("--output", "--error", "--open-mode", "--input", "--chdir", "--workdir"), ""),
    **dict.fromkeys(("--wrap", "--parsable", "--wait", "--test-only"), ""),
    **dict.fromkeys(("--help", "--usage", "--version"), ""),
}
_NO_REQUEUE = "--no-requeue"
_LETTERS = {
    "a": "--array",
    "N": "--nodes",
    "t": "--time",
    "M": "--clusters",
    "W": "--wait",
    "o": "--output",
    "e": "--error",
    "i": "--input",
    "D": "--chdir",
    "h": "--help",
    "u": "--usage",
    "V": "--version",
}
_ALONE = frozenset("hHOQuvVW")  # letters without a value: another one may follow


def check_option(text: str, *, requeue: bool = False) -> str:
    """Return options of sbatch's, one or several, as they stand in a script.

    Raises InputError for what is none, or would break what zlaunch builds on; `requeue` is whether
    the run is to go on in another start of its job.
    """
    option = text.strip()
    if not option.startswith("-") or "\n" in option or "\r" in option:
        raise InputError(
            f"--sbatch {text!r} is no option of sbatch", hint="--sbatch '--mem=64G'; repeatable"
        )
    try:
        words = shlex.split(option, comments=True)
    except ValueError as error:
        raise InputError(f"--sbatch {text!r}: {error}") from error
    for given, name in (pair for word in words for pair in _names(word)):
        if name in _OWN:
            hint = _OWN[name] or "leave it out"
            raise InputError(f"--sbatch '{option}': {given} is zlaunch's to give", hint=hint)
        if requeue and name == _NO_REQUEUE:
            raise InputError(f"--requeue and --sbatch '{option}' contradict each other")
    return " ".join(quoted(word) for word in words)


def _names(word: str) -> Sequence[tuple[str, str]]:
    """The options in a word: as they stand there, and their names in full."""
    if word.startswith("--"):
        given = word.partition("=")[0]
        meant = (name for name in (*_OWN, _NO_REQUEUE) if name.startswith(given) and len(given) > 2)
        return [(given, name) for name in meant]
    found = []
    for letter in word[1:] if word.startswith("-") else "":
        found.append((f"-{letter}", _LETTERS.get(letter, "")))
        if letter not in _ALONE:
            break
    return found


def quoted(text: str) -> str:
    """A value as sbatch reads it behind #SBATCH.

    Raises InputError for one that cannot stand there.
    """
    if "\n" in text or "\r" in text:
        raise InputError(f"{text!r}: a line end cannot stand in a batch script")
    if re.fullmatch(r"[\w./:,=@%+&|*()\[\]-]*", text, re.ASCII):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
