"""Imports for several ranks what each would have imported, or finds out that this cannot be done.

Executed by `warm_server.py`, from text. It loads no module that an interpreter has not loaded by
itself, since what it loads would be there in each rank.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: F401  # in comments

DoubtError = RuntimeError  # `warm_checks.py` has them, which is executed before
Findings = None  # type: Any

# While modules are imported. CUDA must not be touched then, since forked children could not use it:
# torch is told to ask NVML. Until 2.9 it starts processes that compile once its compiler is
# imported, which belong to nobody then; without them it does so when it compiles.
_MEANWHILE = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "TORCH_WARM_POOL": "0"}


def preload(plan, begin):  # type: (dict[str, Any], Callable[[], None]) -> Callable[[], None]
    """Import what the script would, as the script would, after `begin`, which imports too.

    Return what seeds anew, in each rank, the random generators that modules made. Raises
    DoubtError, or whatever an import raises.
    """
    if sys.implementation.name != "cpython":
        raise DoubtError("the interpreter is %s" % sys.implementation.name)
    if _has_user_hook():
        raise DoubtError("usercustomize is there, and comes later")
    found = Findings()
    private = frozenset(os.fsencode(name) for rank in plan["ranks"] for name in rank[2])
    generators = _Generators()
    with _Environment(private) as watched, generators:
        begin()
        _import_all(plan)
    if watched.read:
        raise DoubtError("%s is read by an import" % os.fsdecode(watched.read))
    if generators.used():
        raise DoubtError("an import seeds random numbers, or draws some")
    found.check()
    return generators.seed_anew


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
    known = set(sys.modules)
    for line, text in plan["imports"]:
        if line and _would_be_own(folders, text.split()[1].split(".")[0]):
            break  # it is the user's own, and what comes after it may depend on it
        exec(compile("\n" * (line - 1) + text, name, "exec"), names)  # noqa: S102
        if not line:
            folders = []  # the user vouches for it, and so for what it imports
    for top in set(sys.modules) - known - {"__mp_main__"}:
        if "." not in top and _is_own(folders, top):
            raise DoubtError("an import finds the user's own %s" % top)
    if shown and folder in sys.path:
        sys.path.remove(folder)
    if script:
        del main.__file__


def _own_paths(pythonpath):  # type: (str | None) -> list[str]
    """Where users keep what is theirs; packages that were installed into a folder are not."""
    paths = pythonpath.split(os.pathsep) if pythonpath else []
    return [path for path in paths if not _is_installed_into(path)]


def _is_installed_into(path):  # type: (str) -> bool
    """Whether it is what `pip install`, also with --target, fills."""
    if os.path.basename(os.path.normpath(path)) in ("site-packages", "dist-packages"):
        return True
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(path))
    except OSError:
        return False


def _would_be_own(folders, top):  # type: (list[str], str) -> bool
    """Whether a module would be found in these; a mere directory gives way to what is installed."""
    places = [os.path.join(folder, top) for folder in folders]
    return any(os.path.exists(place + end) for place in places for end in ("/__init__.py", ".py"))


def _is_own(folders, top):  # type: (list[str], str) -> bool
    """Whether a module that is loaded was found in these."""
    module, places = sys.modules[top], [os.path.join(folder, top) for folder in folders]
    file = getattr(module, "__file__", None)
    if file:
        return os.path.dirname(file) in [*folders, *places]
    return any(path in places for path in getattr(module, "__path__", ()))


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
        self._unseeded = []  # type: list[Any]
        self._first = None  # type: Any  # the state that Python's own began with
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
        seed, unseeded = random.Random.seed, self._unseeded
        self._first = random.getstate()

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

    def used(self):  # type: () -> bool
        """Whether one of those that all share is not as it began, so that it must not be again."""
        random, torch = sys.modules.get("random"), sys.modules.get("torch")  # type: Any, Any
        numpy = sys.modules.get("numpy.random")  # type: Any
        if self._first is not None and random.getstate() != self._first:
            return True
        if numpy is not None:
            now, fresh = (state.get_state()[2] for state in (numpy, numpy.RandomState()))
            if now != fresh:  # the place among the numbers that are ready
                return True
        # What it draws for itself has 53 bits; what people write is short.
        own = getattr(torch, "default_generator", None)
        return own is not None and own.initial_seed() < 1 << 32

    def seed_anew(self):  # type: () -> None
        for generator in self._unseeded:
            self._seed(generator)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            numpy.seed()
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "default_generator"):
            torch.default_generator.seed()  # that of the CPU; those of GPUs begin with a constant
        for name in ("multiprocessing.process", "multiprocess.process"):
            process = sys.modules.get(name)
            if process is not None:
                process.current_process().authkey = os.urandom(32)
