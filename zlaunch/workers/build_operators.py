"""Builds those of DeepSpeed's operators that are missing: once, before N ranks wait for each.

    build_operators.py FOLDER NAME=BUILDER ...

Run by the workers' interpreter in their environment; FOLDER is that of their script. What is there
already it finds out without torch and DeepSpeed, which take seconds to import. It reports a JSON
object a line on stdout: the operator `op`, its `state` (there, building, waiting, built, failed,
stale or needless), and what to `say` to the user, if anything. Nobody else writes there: neither
compilers nor what is imported.

TERM ends it, its compilers and its lock.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing would cost a tenth of all this
    from typing import Any, Callable

    Report = Callable[..., None]

_HEADER = os.path.join("include", "torch", "extension.h")  # of torch, read by each operator
_LOOK = 1.0  # seconds between two looks at a lock
_MOST_SAID = 300  # characters of a compiler's line


def main(folder: str, wanted: dict[str, str]) -> None:
    """Report on each operator of `wanted`, which maps names to builders; build what is missing."""
    report = _reporter()
    if sys.path[0] == os.path.dirname(__file__):  # not so with PYTHONSAFEPATH
        sys.path[0] = folder  # what is imported is what the ranks would import
    packages = {name: _folder_of(name) for name in ("torch", "deepspeed")}
    if not all(packages.values()):
        return  # the ranks say it better
    built_in = _built_in(packages["deepspeed"])
    for name, builder in wanted.items():
        place = os.path.join(_root(packages["torch"]), name)
        pid, stale = (None, False) if name in built_in else _lock(place)
        if stale:
            say = (
                f"{place}/lock was left by a build of {name} that was killed, and every rank waits "
                "for it for ever: remove it, unless another host is building there"
            )
            report(
                name, "stale", say, level="warning", why=f"{place}/lock is left of a killed build"
            )
        elif name in built_in or _is_built(place, packages):
            report(name, "there")
        else:
            _build(name, builder, report, place, pid)


def _reporter() -> Report:
    """Take stdout and stderr away from everybody else, and return what writes to it."""
    out = os.fdopen(os.dup(1), "w")  # dup's copies are not inherited
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)

    def report(op: str, state: str, say: str = "", **more: object) -> None:
        print(json.dumps({"op": op, "state": state, "say": say, **more}), file=out, flush=True)

    return report


# What is there


def _folder_of(package: str) -> str:
    """Where it lies; empty where there is none, or none that is a folder."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return ""
    return next(iter(spec.submodule_search_locations or ()), "") if spec else ""


def _built_in(deepspeed: str) -> set[str]:
    """Operators that were built when DeepSpeed was installed, as `OpBuilder.load` knows them."""
    told = _executed(os.path.join(deepspeed, "git_version_info_installed.py"))
    return {name for name, there in told.get("installed_ops", {}).items() if there}


def _root(torch: str) -> str:
    """Where torch keeps extensions: `_get_build_directory` of its `utils/cpp_extension.py`."""
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    if given is not None:
        return given
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    built = _executed(os.path.join(torch, "version.py"))
    if built.get("hip"):
        made_for = "rocm" + built["hip"].replace(".", "")
    else:
        made_for = "cu" + built["cuda"].replace(".", "") if built.get("cuda") else "cpu"
    python = f"py{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}"
    root = os.path.realpath(os.path.join(cache, "torch_extensions"))
    return os.path.join(root, f"{python}_{made_for}")


def _executed(path: str) -> dict[str, Any]:
    """The names that a small file of assignments makes; none where it cannot be read."""
    names: dict[str, Any] = {}
    try:
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), names)
    except (OSError, ImportError, SyntaxError):
        return {}
    return names


def _is_built(place: str, packages: dict[str, str]) -> bool:
    """Whether ninja would find nothing to do.

    It builds anew where a source is newer than what was made of it, or the command is another one:
    of another torch or DeepSpeed.
    """
    try:
        made = os.path.getmtime(os.path.join(place, os.path.basename(place) + ".so"))
        with open(os.path.join(place, "build.ninja")) as file:
            text = file.read()
        if not all(folder in text for folder in packages.values()):
            return False
        lines = [line.split() for line in text.splitlines() if line.startswith("build ")]
        sources = [line[3] for line in lines if line[2].endswith("compile")]
        sources.append(os.path.join(packages["torch"], _HEADER))
        return all(os.path.getmtime(source) <= made for source in sources)
    except (OSError, IndexError):
        return False


def _lock(place: str) -> tuple[int | None, bool]:
    """Return who holds the lock there, as far as this host knows, and whether it is stale."""
    lock = os.path.join(place, "lock")
    if not os.path.exists(lock):
        return None, False
    import runpy

    cache = runpy.run_path(os.path.join(os.path.dirname(__file__), "extension_cache.py"))
    held: tuple[int | None, bool] = cache["holder_of"](lock)
    return held


# Building


def _build(name: str, builder: str, report: Report, place: str, holder: int | None) -> None:
    """Build it, or wait for whoever does."""
    lock = os.path.join(place, "lock")
    if os.path.exists(lock):
        who = f"process {holder}" if holder else "another host"  # or nobody
        report(name, "waiting", f"waiting for {name}, which {who} builds: {lock}")
    else:
        say = f"building {name} for DeepSpeed, once for all ranks (about half a minute)"
        report(name, "building", say, lock=os.path.abspath(lock))
    threading.Thread(target=_watch, args=(name, report, place), daemon=True).start()
    began = time.time()
    try:
        from deepspeed.accelerator import get_accelerator

        made = get_accelerator().create_op_builder(builder)
        if made is None or name != made.NAME:
            report(name, "needless", f"DeepSpeed has no {name} for these devices")
            return
        made.load(verbose=False)
    except Exception as error:
        why = _why(error)
        report(name, "failed", f"{name} could not be built: {why}", why=why, level="warning")
        return
    seconds = time.time() - began
    report(name, "built", f"{name} built in {seconds:.0f} s", seconds=seconds)


def _watch(name: str, report: Report, place: str) -> None:
    """Tell when the lock has become one that nobody may ever take away."""
    seen = 0  # twice: who takes it away closes it before
    while seen < 2:
        time.sleep(_LOOK)
        seen = seen + 1 if _lock(place)[1] else 0
    lock = os.path.join(place, "lock")
    say = f"still waiting for {name}: no process of this host holds {lock}"
    report(
        name, "waiting", f"{say}; remove it, unless another host is building there", level="warning"
    )


def _why(error: Exception) -> str:
    """The compiler's own last error line, else the first that the exception says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for sign in (
        "No space left",
        "cannot find -l",
        "undefined reference",
        " error: ",
        "not found",
        "FAILED:",
    ):
        told = [line for line in lines if sign in line]
        if told:
            return told[-1][:_MOST_SAID]
    return f"{type(error).__name__}: {''.join(lines[:1])}"[:_MOST_SAID]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the lock is taken away
    try:
        # Where every rank runs it, one of the host does the work.
        if os.environ.get("LOCAL_RANK", "0") != "0":
            sys.exit()
        main(sys.argv[1], dict(one.split("=") for one in sys.argv[2:]))
    except KeyboardInterrupt:
        os._exit(1)
    os._exit(0)  # an interpreter with torch in it takes its time to end, or aborts
