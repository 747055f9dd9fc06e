"""Which of the launcher's environment variables the other hosts get.

What a shell, a terminal or an SSH session says about itself holds on this machine only:
such variables go nowhere, unless with a value that the user wrote.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from zlaunch.errors import InputError
from zlaunch.spec.envfile import is_variable

PREFIXES = (
    "NCCL_",
    "PYTHON",
    "MLFLOW",
    "MV2",
    "UCX_",
    "HF_",
    "TRANSFORMERS_",
    "TORCH_",
    "TORCHELASTIC_",
    "CUDA_",
    "OMP_",
    "GLOO_",
    "WANDB_",
    "DS_",
)
NAMES = ("LD_LIBRARY_PATH",)  # sent by default too; PATH only when named

# The devices of one host say nothing about another's.
_NOT_BY_PREFIX = ("CUDA_VISIBLE_DEVICES",)
_OF_THIS_SESSION = (
    *("PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "TERM", "TERMCAP", "COLORTERM", "COLUMNS"),
    *("LINES", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "TMUX_PANE", "STY", "WINDOW"),
    *("WINDOWID", "GPG_TTY", "XDG_RUNTIME_DIR"),
)
_PREFIXES_OF_THIS_SESSION = ("BASH_FUNC_", "SSH_", "VSCODE_", "TERM_", "DBUS_", "XDG_SESSION_")


def chosen_environment(
    env: Mapping[str, str], *, names: Sequence[str], settings: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """Return the variables that go to every host.

    These are those of `env` that are sent by default, those that `names` (--env NAME) asks
    for, and over both of them `settings` (--env NAME=VALUE and files), of which the last wins.
    """
    chosen = {name: value for name, value in env.items() if _by_default(name)}
    for name in names:
        chosen[name] = _asked_for(env, name)
    chosen.update(settings)
    return chosen


def parse_env_option(text: str) -> tuple[str, str | None]:
    """Read the value of --env: NAME, whose value is then None, or NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not is_variable(name):
        found = f"{name!r}" if name else "nothing before the ="
        raise InputError(
            f"--env expects NAME or NAME=VALUE, found {found}",
            hint="a name is letters, digits and _, and begins with no digit",
        )
    if "\0" in value:
        raise InputError(f"--env {name}: the value holds a NUL", hint="no variable can hold one")
    return name, value if equals else None


def _by_default(name: str) -> bool:
    if name in _NOT_BY_PREFIX or _is_of_this_session(name):
        return False
    return name in NAMES or name.startswith(PREFIXES)


def _is_of_this_session(name: str) -> bool:
    return name in _OF_THIS_SESSION or name.startswith(_PREFIXES_OF_THIS_SESSION)


def _asked_for(env: Mapping[str, str], name: str) -> str:
    if _is_of_this_session(name):
        raise InputError(
            f"--env {name}: the variable is about this machine and session, and is not sent",
            hint=f"write the value that the hosts should have: --env {name}=VALUE",
        )
    if name not in env:
        close = difflib.get_close_matches(name, env, n=1)
        meant = f"did you mean {close[0]}? Else " if close else ""
        raise InputError(
            f"--env {name}: the variable is not set here",
            hint=f"{meant}set it, or write --env {name}=VALUE",
        )
    return env[name]
