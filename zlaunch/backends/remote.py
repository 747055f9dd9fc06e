"""What a host is asked to run so that an agent begins there: one line for any login shell."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from zlaunch.backends.pack import payload

# Reads a length of eight digits and so many packed bytes from stdin, no more, since orders
# follow; and runs them. One line without a single quote, so that every shell passes it on as it is.
BOOTSTRAP = (
    'import os,sys,zlib;r=lambda n,d=b"":d if len(d)>=n else '
    "r(n,d+(os.read(0,n-len(d)) or sys.exit(0)));exec(zlib.decompress(r(int(r(8)))))"
)

# $1 is the bootstrap; the first interpreter of the rest that is there gets it, else python3 on
# the path of a login shell. The agent needs the standard library only, hence -I -S.
_FIND_PYTHON = (
    "boot=$1; shift; "
    'for p in "$@"; do '
    'if command -v "$p" >/dev/null 2>&1; then exec "$p" -I -S -c "$boot"; fi; done; '
    'p=$("${SHELL:-/bin/sh}" -lc "command -v python3" 2>/dev/null); '
    'if [ -n "$p" ]; then exec "$p" -I -S -c "$boot"; fi; '
    'echo "no Python found (tried: $* python3)" >&2; exit 127'
)

# Takes the set-up command off stdin (the number of its lines, then these; `read` takes no byte
# more from a pipe) into the environment, which nobody else can read, and goes on in the login
# shell: the one in which people write such commands, with its profile read. Shells that are not
# of Bourne's family give way to bash. The link's own descriptors wait at 8 and 9 meanwhile:
# neither a profile nor the command may read orders or write among events.
_READ_SETUP = (
    'nl=$(printf "\\n."); nl=${nl%.}; IFS= read -r n; ZLAUNCH_SETUP=; '
    'while [ "$n" -gt 0 ]; do IFS= read -r l; ZLAUNCH_SETUP=$ZLAUNCH_SETUP$l$nl; n=$((n-1)); done; '
    "export ZLAUNCH_SETUP; run=$1; shift; "
    "case ${SHELL##*/} in bash|zsh|ksh|ksh93|mksh|dash|ash|sh) s=$SHELL ;; "
    "*) s=$(command -v bash || echo /bin/sh) ;; esac; "
    'exec "$s" -lc "$run" "${s##*/}" "$@" 8<&0 9>&1 </dev/null >&2'
)

# Runs the command, and then what is left of the arguments. Its variables are those of this
# shell, so that what it sets is there afterwards; the agent finds out which these were. Where
# it brings another python3, and none was asked for ($1 is 0), the workers get that one.
_RUN_SETUP = (
    "ask=$1; shift; ZLAUNCH_BEFORE_SETUP=$(env); p=$(command -v python3); "
    "trap 'echo \"zlaunch: --setup failed with exit code $?\" >&2; exit 1' EXIT; "
    'eval "$ZLAUNCH_SETUP" || exit; trap - EXIT; '
    "unset ZLAUNCH_SETUP; export ZLAUNCH_BEFORE_SETUP; q=$(command -v python3); "
    'find=$1; boot=$2; shift 2; if [ "$ask" = 0 ] && [ -n "$q" ] && [ "$p" != "$q" ]; then '
    'ZLAUNCH_SETUP_PYTHON=$q; export ZLAUNCH_SETUP_PYTHON; set -- "$q" "$@"; fi; '
    'exec /bin/sh -c "$find" sh "$boot" "$@" <&8 >&9 8<&- 9>&-'
)


@dataclass(frozen=True)
class Entrance:
    """How an agent begins on a host.

    `interpreters` are tried in order; `asked` where the user named one. `setup` is a command
    of the user's that runs first, in the login shell and, where that is there, in `directory`.
    """

    interpreters: tuple[str, ...]
    asked: bool = False
    setup: str | None = None
    directory: str = "."

    @property
    def command(self) -> str:
        """The command line for the host; nothing of the user's but paths is in it."""
        find = (_FIND_PYTHON, BOOTSTRAP, *self.interpreters)
        words: tuple[str, ...] = (_FIND_PYTHON, "sh", *find[1:])
        if self.setup is not None:
            words = (_READ_SETUP, "sh", _RUN_SETUP, str(int(self.asked)), *find)
        return "exec " + " ".join(map(shlex.quote, ("/bin/sh", "-c", *words)))

    def greeting(self, node_rank: int) -> bytes:
        """Return what is sent before the first order."""
        packed = payload(node_rank)
        if self.setup is None:
            return packed
        command = f"cd {shlex.quote(self.directory)} >/dev/null 2>&1\n{self.setup}"
        lines = command.split("\n")  # not at what else Python takes for the end of a line
        text = "\n".join([str(len(lines)), *lines, ""])
        return text.encode(errors="surrogateescape") + packed


SETUP_FAILED = "--setup failed"
_SETUP_FAILED = f"zlaunch: {SETUP_FAILED}"

_REASONS = (
    ("Offending ", "its host key has changed"),
    ("Host key verification failed", "its host key is not known"),
    ("Permission denied", "it refuses our key"),
    ("Could not resolve hostname", "its name does not resolve"),
    ("Connection refused", "it refuses connections"),
    ("Connection timed out", "it does not answer"),
    ("Operation timed out", "it does not answer"),
    ("No route to host", "there is no route to it"),
    ("Network is unreachable", "there is no route to it"),
    ("no Python found", "it has no Python"),
)

_HINTS = {
    "its host key has changed": (
        "\n  hint: somebody may be in between; once you know better, remove that line"
    ),
    "its host key is not known": (
        "\n  hint: connect once with ssh and check it, or use --ssh-host-keys accept-new"
    ),
}


def explain_failure(host: str, how: str, words: str) -> str:
    """Say why the agent on `host` was lost: a known cause in few words, then what was printed."""
    if _SETUP_FAILED in words:
        lines = words.splitlines()
        printed = [line for line in lines if not line.startswith(_SETUP_FAILED)]
        (failed,) = [line for line in lines if line not in printed][:1]
        reason = failed.removeprefix("zlaunch: ")
        told = [f"  {line}" for line in printed]
        return "\n".join([f"{host}: {reason}" + (", having said:" if printed else ""), *told])
    for sign, reason in _REASONS:
        if sign in words:
            lines = [line for line in words.splitlines() if sign in line]
            return f"{host}: {reason} ({lines[-1].strip()}){_HINTS.get(reason, '')}"
    return f"the agent on {host} {how}" + (f":\n{words}" if words else "")
