"""Imports once what all workers of a node need, and forks them.

The agent lays this file as `sitecustomize.py` into a private directory, in front of the PYTHONPATH
of one interpreter that it starts with the very command line of a worker. Before that would come to
the script, it imports what it was told, and forks. Each child goes on from here as the interpreter
that it is: the script is run by Python itself, so nothing of it has to be imitated. The first one,
the server, never gets there.

In doubt it forks nobody, says why, and the workers are started as ever. The modules that it needs
itself are built in, so that the children have no others than they would have had.

Kept to what Python 2.7 can read: one that could not would go on to the script.
"""

import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: F401  # in comments

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9
_RTLD_LAZY, _RTLD_NOLOAD = 1, 4
_OMP_PAUSE_HARD = 2


# In the server: forking


def _serve(plan, here):  # type: (dict[str, Any], str) -> None
    """Fork all ranks and end; return in each of them."""
    try:
        collector = _Collector()
        trouble = _prepare(plan, here)
        if trouble:
            os.write(plan["answers"], ("cold %s\n" % trouble).encode("utf-8", "replace"))
            os._exit(0)
        os.write(plan["answers"], b"ready\n")
        if os.read(plan["orders"], 1) != b"!":
            os._exit(0)
        collector.freeze()
        server = os.getpid()
        for rank in plan["ranks"]:
            if plan["fork"]() == 0:
                _begin_rank(plan, rank, server)
                return
    except BaseException:
        os._exit(1)
    os._exit(0)


def _prepare(plan, here):  # type: (dict[str, Any], str) -> str
    """Import, and get ready what children need; return why that cannot be done."""
    checks = _executed(os.path.join(here, "checks.py"))
    imports = _executed(os.path.join(here, "imports.py"))
    imports.update((name, checks[name]) for name in ("DoubtError", "Findings"))
    try:
        plan["seed_anew"] = imports["preload"](plan, lambda: _import_hook(plan))
        plan["die_with_parent"] = _death_wish()
        _rest_openmp()
        checks["check_threads"]()
        plan["fork"] = checks["forked"]
    except checks["DoubtError"] as doubt:
        return str(doubt)
    except BaseException as error:
        return ("%s: %s" % (type(error).__name__, error)).splitlines()[0]
    return ""


def _import_hook(plan):  # type: (dict[str, Any]) -> None
    """The user's own `sitecustomize`, as if it had been the first; `site` judges what it raises."""
    del sys.modules[__name__]
    try:
        __import__(__name__)
    except Exception as error:
        plan["trouble"] = error


def _executed(path):  # type: (str) -> dict[str, Any]
    with open(path) as file:
        code = compile(file.read(), path, "exec")
    names = {"__name__": "zlaunch", "__file__": path}
    exec(code, names)  # noqa: S102
    return names


def _borrowed(name):  # type: (str) -> Any
    """A module in C that is not there in every script, and does not stay."""
    known = name in sys.modules
    module = __import__(name)
    if not known:
        del sys.modules[name]
    return module


class _Collector:
    """Keeps Python's from running while modules are imported, which costs a tenth of the time.

    What is there by then is frozen, so that no collection in a child copies every page. At its end
    all is collected as ever, so that what dies then does, and says what it says: that comes last of
    all that is done at exit, since it is registered first.
    """

    def __init__(self):  # type: () -> None
        self._gc = _borrowed("gc")
        self._usual = self._gc.get_threshold()
        self._seldom = (1 << 30, *self._usual[1:])
        self._gc.set_threshold(*self._seldom)
        _borrowed("atexit").register(self._gc.unfreeze)

    def freeze(self):  # type: () -> None
        if self._gc.get_threshold() == self._seldom:  # else an import has set it
            self._gc.set_threshold(*self._usual)
        self._gc.freeze()


def _death_wish():  # type: () -> Callable[[], object]
    """Return what has the kernel kill its caller when the parent of that one dies."""
    ctypes, program = _borrowed("_ctypes"), None  # type: Any, Any
    prctl = ctypes.dlsym(ctypes.dlopen(program, 2), "prctl")
    return lambda: ctypes.call_function(prctl, (_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))


def _rest_openmp():  # type: () -> None
    """Have the threads of GNU's OpenMP end, where an import has computed in several.

    It waits for ever in a child for threads that it does not have there. Whoever has none starts
    them anew. Intel's and LLVM's see to forks themselves, and once they were told to end their
    threads, a fork in a child that has computed hangs.
    """
    with open("/proc/self/maps") as file:
        paths = {line.split(None, 5)[-1].rstrip("\n") for line in file if "gomp" in line}
    ctypes = _borrowed("_ctypes")
    for path in paths:
        if not os.path.basename(path).startswith("libgomp"):
            continue
        try:
            pause = ctypes.dlsym(
                ctypes.dlopen(path, _RTLD_LAZY | _RTLD_NOLOAD), "omp_pause_resource_all"
            )
        except OSError:  # before OpenMP 5.0
            continue
        ctypes.call_function(pause, (_OMP_PAUSE_HARD,))


# In a worker


def _begin_rank(plan, rank, server):  # type: (dict[str, Any], tuple[Any, ...], int) -> None
    """Become a child of the agent's, as one that it had started itself."""
    number, out, _, argv = rank
    os.setsid()
    os.write(plan["answers"], b"%d %d\n" % (number, os.getpid()))
    os.dup2(out, 1)
    os.dup2(out, 2)
    while os.getppid() == server:  # its end makes the agent our parent
        time.sleep(0.0005)
    plan["die_with_parent"]()
    if os.getppid() != plan["agent"]:  # it died meanwhile
        os._exit(128 + _SIGKILL)
    for _, fd, _, _ in plan["ranks"]:
        os.close(fd)
    os.close(plan["orders"])
    os.environ.update(rank[2])
    _take_arguments(plan["argv"], argv)
    plan["seed_anew"]()
    if plan["handler"]:
        _register(plan["handler"])
    os.write(plan["answers"], b"up %d\n" % number)  # fails where nobody waits for us any more
    os.close(plan["answers"])


def _take_arguments(had, argv):  # type: (tuple[str, ...], tuple[str, ...]) -> None
    """Where they differ from rank to rank: those that Python shows, and those that `ps` does."""
    if argv == had:
        return
    sys.argv[:] = ["-m"] + list(argv[3:]) if argv[1] == "-m" else argv[1:]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = argv
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"".join(os.fsencode(arg) + b"\0" for arg in argv)
    if len(text) <= end - start:
        try:
            memory = os.open("/proc/self/mem", os.O_RDWR)
        except OSError:  # where a sandbox does not let us, `ps` shows those of another rank
            return
        os.pwrite(memory, text.ljust(end - start, b"\0"), start)
        os.close(memory)


def _register(folder):  # type: (str) -> None
    """Have stacks written as `stack_handler.py` does, which lies there."""
    try:
        handler = _executed(os.path.join(folder, "sitecustomize.py"))
        handler["register"](os.path.join(folder, "%d" % os.getpid()))
    except Exception:  # noqa: S110  # no faulthandler, no room: then there are no stacks
        pass


def _begin():  # type: () -> None
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        plan = _plan(here)
    except BaseException:  # or the server would go on to the script
        os._exit(1)
    _serve(plan, here)
    if "trouble" in plan:
        raise plan["trouble"]


def _plan(here):  # type: (str) -> dict[str, Any]
    """Read what is to be done, and hide how we came in."""
    with open(os.path.join(here, "plan"), "rb") as file:
        plan = marshal.load(file)  # type: dict[str, Any]  # noqa: S302  # the agent's own
    if sys.version_info < (3, 9):
        os.write(plan["answers"], b"cold Python before 3.9\n")
        os._exit(0)
    if plan["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = plan["pythonpath"]
    sys.path[:] = [entry for entry in sys.path if entry.rstrip("/") != here]
    sys.path_importer_cache.pop(here, None)
    for fd in [plan["answers"], plan["orders"]] + [rank[1] for rank in plan["ranks"]]:
        os.set_inheritable(fd, False)
    if plan["handler"]:
        flight = os.path.join(plan["handler"], "flight-")
        os.environ.setdefault("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", flight)
    return plan


if __name__ == "sitecustomize":
    _begin()
