"""Imports for several ranks what each would have imported, or finds out that this cannot be done.

Executed by `warm_server.py`, from text. It loads no module that an interpreter has not loaded by
itself, since what it loads would be there in each rank.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: F401  # in comments

# While modules are imported. CUDA must not be touched then, since forked children could not use it:
# torch is told to ask NVML. Until 2.9 it starts processes that compile once its compiler is
# imported, which belong to nobody then; without them it does so when it compiles.
_MEANWHILE = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "TORCH_WARM_POOL": "0"}
_CUDA_NOT_INITIALIZED = 3  # cuda.h: CUDA_ERROR_NOT_INITIALIZED


class DoubtError(Exception):
    """Why ranks cannot share what is imported."""


def preload(plan, begin):  # type: (dict[str, Any], Callable[[], None]) -> list[Any]
    """Import what the script would, as the script would, after `begin`, which imports too.

    Return the random generators that each rank has to seed anew. Raises DoubtError, or whatever
    an import raises.
    """
    if sys.implementation.name != "cpython":
        raise DoubtError("the interpreter is %s" % sys.implementation.name)
    if _has_user_hook():
        raise DoubtError("usercustomize is there, and comes later")
    before = _descriptors()
    private = frozenset(os.fsencode(name) for rank in plan["ranks"] for name in rank[2])
    generators = _Generators()
    with _Environment(private) as watched, generators:
        begin()
        _import_all(plan)
    if watched.read:
        raise DoubtError("%s is read by an import" % os.fsdecode(watched.read))
    _check(before)
    return generators.unseeded


def _has_user_hook():  # type: () -> bool
    import site

    if not site.ENABLE_USER_SITE:
        return False
    from _frozen_importlib_external import PathFinder

    return PathFinder.find_spec("usercustomize") is not None


def _import_all(plan):  # type: (dict[str, Any]) -> None
    """Execute the statements, in a namespace that stands in for that of the script."""
    script, main = plan["script"], sys.modules["__main__"]
    folder = os.path.dirname(os.path.realpath(script)) if script else os.getcwd()
    name = os.path.join(os.getcwd(), script) if script else "<module>"
    shown = not getattr(sys.flags, "safe_path", False)
    if shown:
        sys.path.insert(0, folder)
    if script:
        main.__file__ = name
    names = {"__name__": "__main__", "__file__": name, "__builtins__": __builtins__}
    folders = [folder] if shown else []
    folders += _own_paths(plan["pythonpath"])
    for line, text in plan["imports"]:
        if line and _is_own(folders, text):
            break  # it is the user's own, and what comes after it may depend on it
        exec(compile("\n" * (line - 1) + text, name, "exec"), names)  # noqa: S102
    if shown and folder in sys.path:
        sys.path.remove(folder)
    if script:
        del main.__file__


def _own_paths(pythonpath):  # type: (str | None) -> list[str]
    """Where users keep what is theirs; packages that were installed into a folder are not."""
    paths = pythonpath.split(os.pathsep) if pythonpath else []
    installed = ("site-packages", "dist-packages")
    return [path for path in paths if os.path.basename(os.path.normpath(path)) not in installed]


def _is_own(folders, text):  # type: (list[str], str) -> bool
    top = text.split()[1].split(".")[0]
    return any(
        os.path.exists(os.path.join(folder, top + end)) for folder in folders for end in ("", ".py")
    )


class _Watched(dict):  # type: ignore[type-arg]
    """What `os.environ` holds, for a while: notes the use of what ranks do not share."""

    private = frozenset()  # type: frozenset[bytes]
    read = b""

    def _note(self, name):  # type: (Any) -> None
        if name in self.private:
            self.read = name

    def __getitem__(self, name):  # type: (bytes) -> Any
        self._note(name)
        return dict.__getitem__(self, name)

    def __contains__(self, name):  # type: (object) -> bool
        self._note(name)
        return dict.__contains__(self, name)

    def __setitem__(self, name, value):  # type: (bytes, bytes) -> None
        self._note(name)
        dict.__setitem__(self, name, value)


class _Environment:
    """The environment while modules are imported.

    What is told to torch meanwhile is taken back, unless an import wants to say the same.
    """

    def __init__(self, private):  # type: (frozenset[bytes]) -> None
        environ = os.environ  # type: Any
        self._views = (environ, os.environb)  # type: tuple[Any, ...]
        self._data = environ._data  # type: dict[bytes, bytes]
        self._watched = _Watched(self._data)
        self._watched.private = private
        self._ours = {name for name in _MEANWHILE if name not in os.environ}

    def _setdefault(self, name, value):  # type: (str, str) -> str
        if name in self._ours:
            self._ours.discard(name)
            os.environ[name] = value
        return type(os.environ).setdefault(os.environ, name, value)

    def __enter__(self):  # type: () -> _Watched
        for environ in self._views:
            environ._data = self._watched
        for name in self._ours:
            os.environ[name] = _MEANWHILE[name]
        self._views[0].setdefault = self._setdefault
        return self._watched

    def __exit__(self, *_):  # type: (object) -> None
        del self._views[0].setdefault
        for name in self._ours:
            if os.environ.get(name) == _MEANWHILE[name]:
                del os.environ[name]
        for environ in self._views:
            environ._data = self._data
        self._data.clear()
        self._data.update(self._watched)


class _Generators:
    """Those that modules make for themselves, from the system's randomness.

    Each rank would have had others: they may name files after them.
    """

    def __init__(self):  # type: () -> None
        self.unseeded = []  # type: list[Any]
        self._class = None  # type: Any
        self._seed = None  # type: Any
        self._register = os.register_at_fork  # type: Any

    def _registering(self, **hooks):  # type: (Any) -> None
        """Python's own `random` calls this as the last thing of its import."""
        self._register(**hooks)
        self._watch()

    def _watch(self):  # type: () -> None
        """Note who seeds itself from now on, if there is a class of them by now."""
        random = sys.modules.get("random")  # type: Any
        if self._class is not None or not hasattr(random, "Random"):
            return
        seed, unseeded = random.Random.seed, self.unseeded

        def noting(generator, a=None, version=2):  # type: (Any, Any, int) -> None
            if a is None:
                unseeded.append(generator)
            seed(generator, a, version)

        self._class, self._seed = random.Random, seed
        random.Random.seed = noting

    def __enter__(self):  # type: () -> None
        self._watch()
        os.register_at_fork = self._registering

    def __exit__(self, *_):  # type: (object) -> None
        os.register_at_fork = self._register
        if self._class is not None:
            self._class.seed = self._seed


def _descriptors():  # type: () -> set[tuple[str, str]]
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add((fd, os.readlink("/proc/self/fd/" + fd)))
        except OSError:  # the one with which the directory was read
            continue
    return found


def _check(before):  # type: (set[tuple[str, str]]) -> None
    """See that nothing is there that cannot be shared, or would be missing in a child."""
    threading = sys.modules.get("threading")
    if threading is not None and len(threading.enumerate()) > 1:
        raise DoubtError("an import starts a thread")
    for task in os.listdir("/proc/self/task"):
        if _text("/proc/self/task/%s/children" % task).strip():
            raise DoubtError("an import starts a process")
    if _has_begun_cuda():
        raise DoubtError("an import initializes CUDA")
    opened = _descriptors() - before
    harmless = _of_nvml(opened) if _mapped("/libnvidia-ml.so") else set()
    for fd, what in opened - harmless:
        flags = int(_text("/proc/self/fdinfo/" + fd).partition("flags:")[2].split()[0], 8)
        # Not a file either that is read: where one rank reads on, the others would.
        reads = os.path.isdir(what) and flags & os.O_ACCMODE == os.O_RDONLY
        if not reads and not what.startswith(("/dev/nvidia", "/dev/null", "/dev/urandom")):
            raise DoubtError("an import opens %s" % what)


def _has_begun_cuda():  # type: () -> bool
    """Ask the driver itself: NVML opens the same devices, and forked ranks may use CUDA then."""
    driver, ctypes = _mapped("/libcuda.so"), sys.modules.get("ctypes")  # type: str, Any
    if not driver:
        return False
    if ctypes is None:
        raise DoubtError("an import loads %s" % driver)
    count = ctypes.c_int()
    found = ctypes.CDLL(driver).cuDeviceGetCount(ctypes.byref(count))
    return bool(found != _CUDA_NOT_INITIALIZED)


def _of_nvml(opened):  # type: (set[tuple[str, str]]) -> set[tuple[str, str]]
    """What its library has for itself since driver 580: events, and pipes with both ends."""
    ends = [what for _, what in opened]
    return {
        (fd, what)
        for fd, what in opened
        if what == "anon_inode:[eventfd]" or (what.startswith("pipe:") and ends.count(what) == 2)
    }


def _mapped(name):  # type: (str) -> str
    """The path of a library that this process has loaded, or nothing."""
    for line in _text("/proc/self/maps").splitlines():
        if name in line:
            return line[line.index("/") :]
    return ""


def _text(path):  # type: (str) -> str
    with open(path) as file:
        return file.read()
