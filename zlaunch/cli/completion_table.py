"""All commands with their options and arguments as data, read off Typer once and kept.

To read them takes the import of every command, which nobody waits for twice: what is kept holds
until a module of the command line is another one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from zlaunch import __version__
from zlaunch.spec import completion as kinds
from zlaunch.spec.completion import Argument, Command, Option

Kind = TypeVar("Kind", Argument, Option)

_HERE = Path(__file__).parent
_BY_NAME = {
    "recipe": kinds.RECIPE,
    "hosts": kinds.SSH_HOST,
    "include": kinds.HOST,
    "exclude": kinds.HOST,
}
_BY_METAVAR = {
    "RUN": kinds.RUN,
    "RECIPE": kinds.RECIPE,
    **dict.fromkeys(("CONFIG", "A", "B"), kinds.CONFIG),
    **dict.fromkeys(("FILE", "PATH", "LOG", "OUT", "SCRIPT", "ARGS", "KEY | FILE"), kinds.FILE),
}
_RUNS = {"stop": kinds.LIVE_RUN, "signal": kinds.LIVE_RUN, "rm": kinds.PAST_RUN}


def commands(env: Mapping[str, str]) -> Command:
    """Return the command `zlaunch` with all below it."""
    path = _kept_at(env)
    key = _key()
    with suppress(OSError, ValueError, TypeError, KeyError):
        data = json.loads(path.read_text("utf-8"))
        if data["key"] == key:
            return _from_json(data["zlaunch"])
    from zlaunch.cli.main import app  # only now: it takes Typer, and the commands after it

    found = _read(app)
    _keep(path, json.dumps({"key": key, "zlaunch": asdict(found)}))
    return found


def _kept_at(env: Mapping[str, str]) -> Path:
    cache = env.get("XDG_CACHE_HOME", "")
    if not Path(cache).is_absolute():
        cache = os.path.expanduser("~/.cache")  # noqa: PTH111  # has no error
    return Path(cache) / "zlaunch" / "commands.json"


def _key() -> list[Any]:
    """What is another one once any module here is."""
    with os.scandir(_HERE) as entries:
        times = [entry.stat().st_mtime_ns for entry in entries if entry.name.endswith(".py")]
    return [__version__, str(_HERE), len(times), max(times)]


def _keep(path: Path, text: str) -> None:
    """Write beside and rename; where that cannot be, it is read off anew each time."""
    beside = path.with_name(f".{path.name}-{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)


def _from_json(data: Mapping[str, Any]) -> Command:
    below = data["commands"]
    return Command(
        data["help"],
        {name: _with_choices(Option, option) for name, option in data["options"].items()},
        tuple(_with_choices(Argument, argument) for argument in data["arguments"]),
        None if below is None else {name: _from_json(one) for name, one in below.items()},
        data["script"],
    )


def _with_choices(kind: type[Kind], fields: Mapping[str, Any]) -> Kind:
    return kind(**{**fields, "choices": tuple(fields["choices"])})


# Read off Typer, whose classes have other places in each version: everything is asked by attribute


def _read(app: Any) -> Command:
    import typer

    return _command(typer.main.get_command(app), "zlaunch", "")


def _command(command: Any, name: str, told: str) -> Command:
    context = command.context_class(command, info_name=name)
    below = None
    if hasattr(command, "list_commands"):
        # As they are listed: of a lazy group, that has the help and not yet the options.
        listed = {one: command.get_command(context, one) for one in command.list_commands(context)}
        below = {
            one: _command(command.resolve_command(context, [one])[1], one, entry.help)
            for one, entry in listed.items()
            if not entry.hidden
        }
    parameters = command.get_params(context)
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    return Command(
        _one_line(told.partition("\n\n")[0]),
        {name: option for one in parameters for name, option in _options(one)},
        tuple(Argument(_kind(one, name), one.nargs < 0, _choices(one)) for one in arguments),
        below,
        script=any(one.name == "script" for one in arguments),
    )


def _options(parameter: Any) -> list[tuple[str, Option]]:
    if parameter.param_type_name != "option":
        return []
    kind = kinds.FLAG if parameter.is_flag or parameter.count else _kind(parameter)
    told = _one_line(parameter.help or "")
    optional = kind != kinds.FLAG and (parameter.metavar or "").startswith("[")
    option = Option(kind, told, bool(parameter.hidden), optional, _choices(parameter))
    return [(name, option) for name in (*parameter.opts, *parameter.secondary_opts)]


def _kind(parameter: Any, command: str = "") -> str:
    """What its values are; told by names, which have one meaning each."""
    if _choices(parameter):
        return kinds.CHOICE
    metavar = (parameter.metavar or "").strip("[].")
    kind = _BY_NAME.get(parameter.name) or _BY_METAVAR.get(metavar, kinds.TEXT)
    return _RUNS.get(command, kind) if kind == kinds.RUN else kind


def _choices(parameter: Any) -> tuple[str, ...]:
    return tuple(map(str, getattr(parameter.type, "choices", None) or ()))


def _one_line(text: str) -> str:
    return " ".join(text.split())
