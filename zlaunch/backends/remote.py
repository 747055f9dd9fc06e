"""What a host is asked to run so that an agent begins there: one line for any login shell."""

from __future__ import annotations

import re
import shlex

from zlaunch.backends.pack import one_line, payload
from zlaunch.frozen import frozen

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
# neither a profile nor the command may read orders or write among events. A guard stands over
# the shell (`agent/setup_guard.py`), where there is a Python to run it.
_READ_SETUP = (
    'nl=$(printf "\\n."); nl=${nl%.}; IFS= read -r n; ZLAUNCH_SETUP=; '
    'while [ "$n" -gt 0 ]; do IFS= read -r l; ZLAUNCH_SETUP=$ZLAUNCH_SETUP$l$nl; n=$((n-1)); done; '
    "export ZLAUNCH_SETUP; guard=$1; run=$2; shift 2; "
    "case ${SHELL##*/} in bash|zsh|ksh|ksh93|mksh|dash|ash|sh) s=$SHELL ;; "
    "*) s=$(command -v bash || echo /bin/sh) ;; esac; "
    'set -- "$s" -lc "$run" "${s##*/}" "$@"; g=$(command -v python3); '
    'if [ -n "$g" ]; then set -- "$g" -I -S -c "$guard" "$@"; fi; '
    'exec "$@" 8<&0 9>&1 </dev/null >&2'
)

# Runs the command, and then the agent. Variables that it sets are those of this shell, so that
# they are there afterwards; the agent finds out which these were. Nothing of ours is in its way:
# no argument, no common name, no descriptor. Where it brings another python3, and none was asked
# for ($1 is 0), the workers get that one. The guard is told at 7 that it is through.
_RUN_SETUP = (
    "__zl_ask=$1; __zl_find=$2; __zl_boot=$3; __zl_python=$4; set --; "
    "ZLAUNCH_BEFORE_SETUP=$(env); __zl_before=$(command -v python3); "
    "trap 'echo \"zlaunch: --setup failed with exit code $?\" >&2; exit 1' EXIT; "
    'eval "$ZLAUNCH_SETUP" 7>&- 8<&- 9>&- || exit; trap - EXIT; '
    "unset ZLAUNCH_SETUP; export ZLAUNCH_BEFORE_SETUP; __zl_after=$(command -v python3); "
    'if [ -n "${ZLAUNCH_GUARDED:-}" ]; then unset ZLAUNCH_GUARDED; echo >&7; exec 7>&-; fi; '
    'set -- "$__zl_python"; '
    'if [ "$__zl_ask" = 0 ] && [ -n "$__zl_after" ] && [ "$__zl_before" != "$__zl_after" ]; then '
    'ZLAUNCH_SETUP_PYTHON=$__zl_after; export ZLAUNCH_SETUP_PYTHON; set -- "$__zl_after" "$@"; fi; '
    'exec /bin/sh -c "$__zl_find" sh "$__zl_boot" "$@" <&8 >&9 8<&- 9>&-'
)


@frozen
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
            guard = one_line("zlaunch.agent.setup_guard")
            words = (_READ_SETUP, "sh", guard, _RUN_SETUP, str(int(self.asked)), *find)
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

_NO_PYTHON = "no Python found (tried: "

# What OpenSSH's client says of itself (ssh.c, sshconnect.c, clientloop.c), line by line; the host
# may print anything that looks alike.
_SSH_SAYS = (
    (r"Offending .* key in ", "its host key has changed"),
    (r"@ +WARNING: REVOKED HOST KEY DETECTED", "its host key is revoked"),
    (r"Host key verification failed\.", "its host key is not known"),
    (r"\S+: Permission denied \([\w,-]+\)\.", "it refuses our key"),
    (r"ssh: Could not resolve hostname ", "its name does not resolve"),
    (r"ssh: connect to host .*: Connection refused", "it refuses connections"),
    (r"ssh: connect to host .*: (Connection|Operation) timed out", "it does not answer"),
    (
        r"ssh: connect to host .*: (No route to host|Network is unreachable)",
        "there is no route to it",
    ),
    (r"channel \d+: open failed: connect failed: ", "the jump host cannot connect to it"),
)
_HINTS = {
    "its host key has changed": (
        "somebody may be in between; once you know better, remove that line"
    ),
    "its host key is not known": (
        "connect once with ssh and check it, or use --ssh-host-keys accept-new"
    ),
}


def ssh_reason(host: str, words: str) -> str | None:
    """Say why the ssh program did not get through, where it said so."""
    for sign, reason in _SSH_SAYS:
        for line in words.splitlines():
            if re.match(sign, line.strip()):
                hint = f"\n  hint: {_HINTS[reason]}" if reason in _HINTS else ""
                return f"{host}: {reason} ({line.strip()}){hint}"
    return None


def explain_failure(host: str, how: str, words: str, began: bool) -> str:
    """Say why the agent on `host` was lost: a known cause in few words, then what was printed."""
    if not began and _SETUP_FAILED in words:
        before, _, rest = words.partition(_SETUP_FAILED)
        reason = f"{SETUP_FAILED}{rest.splitlines()[0]}"
        printed = [f"  {line}" for line in before.splitlines()]
        return "\n".join([f"{host}: {reason}" + (", having said:" if printed else ""), *printed])
    if not began and _NO_PYTHON in words:
        line = next(line for line in words.splitlines() if _NO_PYTHON in line)
        return f"{host}: it has no Python ({line.strip()})"
    return f"the agent on {host} {how}" + (f":\n{words}" if words else "")
