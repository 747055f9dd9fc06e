"""Finds out whether what was imported can be shared by several ranks.

Executed by `warm_server.py`, from text, as `warm_imports.py` is, and before it.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401  # in comments

_CUDA_NOT_INITIALIZED = 3  # cuda.h: CUDA_ERROR_NOT_INITIALIZED
_LOOKS = 10  # at threads that are about to end
_NEEDED_BY_NONE = ("jemalloc", "cuda0")  # what threads are called, such as cuda00001800007


class DoubtError(Exception):
    """Why ranks cannot share what is imported."""


def _descriptors():  # type: () -> set[tuple[str, str]]
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add((fd, os.readlink("/proc/self/fd/" + fd)))
        except OSError:  # the one with which the directory was read
            continue
    return found


class Findings:
    """What is there before anything is imported, and what it is compared with."""

    def __init__(self):  # type: () -> None
        self._opened = _descriptors()

    def check(self):  # type: () -> None
        """See that nothing is there that cannot be shared, or would be missing in a child."""
        _check(self._opened)
        _check_memory()


def _check(before):  # type: (set[tuple[str, str]]) -> None
    threading = sys.modules.get("threading")
    if threading is not None and len(threading.enumerate()) > 1:
        raise DoubtError("an import starts a thread")
    for task in os.listdir("/proc/self/task"):
        if _text("/proc/self/task/%s/children" % task).strip():
            raise DoubtError("an import starts a process")
    if getattr(sys.modules.get("tempfile"), "_name_sequence", None) is not None:
        raise DoubtError("an import makes a temporary file")  # whoever ends first takes it away
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


def _check_memory():  # type: () -> None
    """A lock of multiprocessing's is shared memory, to which no file is open any more."""
    for line in _text("/proc/self/maps").splitlines():
        rights, _, name = line.partition(" ")[2].partition(" ")
        if rights[1] == "w" and rights[3] == "s" and "/dev/nvidia" not in name:
            raise DoubtError("an import shares memory: %s" % name.split()[-1])


def check_threads():  # type: () -> None
    """See that libraries have no threads of their own, which would be missing in a child.

    Some end theirs before a fork, as OpenBLAS does; so one is made. That of jemalloc is not needed,
    nor that of NVML: it is CUDA's, which has not begun.
    """
    if len(os.listdir("/proc/self/task")) == 1:
        return
    pid = forked()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    for _ in range(_LOOKS):
        threads = os.listdir("/proc/self/task")
        names = [_text("/proc/self/task/%s/comm" % thread) for thread in threads]
        if len([name for name in names if not name.startswith(_NEEDED_BY_NONE)]) < 2:
            return
        time.sleep(0.01)  # one that has ended is seen for a moment yet
    raise DoubtError("an import starts a thread of its own")


def forked():  # type: () -> int
    """Fork, without the warning of Python's (since 3.12) that there are threads: see above."""
    warnings = sys.modules.get("warnings") or sys.modules["_warnings"]  # type: Any
    usual, warnings.filters = warnings.filters, [("ignore", None, Warning, None, 0)]
    try:
        return os.fork()
    finally:
        warnings.filters = usual


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
