"""What a host is asked to run so that an agent begins there: one line for any login shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

# Reads a length of eight digits and so many bytes from stdin, no more, since orders follow;
# and runs them. One line without a single quote, so that every shell passes it on as it is.
BOOTSTRAP = (
    'import os,sys;r=lambda n,d=b"":d if len(d)>=n else '
    "r(n,d+(os.read(0,n-len(d)) or sys.exit(0)));exec(r(int(r(8))))"
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


def agent_command(interpreters: Sequence[str]) -> str:
    """Return the command line that starts an agent with the first interpreter that is there."""
    words = ("/bin/sh", "-c", _FIND_PYTHON, "sh", BOOTSTRAP, *interpreters)
    return "exec " + " ".join(map(shlex.quote, words))


_REASONS = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed"),
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


def explain_failure(host: str, how: str, words: str) -> str:
    """Say why the agent on `host` was lost: a known cause in few words, then what was printed."""
    for sign, reason in _REASONS:
        if sign in words:
            lines = [line for line in words.splitlines() if sign in line]
            return f"{host}: {reason} ({lines[-1].strip()})"
    return f"the agent on {host} {how}" + (f":\n{words}" if words else "")
