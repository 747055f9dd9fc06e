"""Has two signals write where this Python process is, into a file of its own.

The agent lays this file as `sitecustomize.py` into a private directory, which it puts in front of
PYTHONPATH: so each Python that a worker begins with runs it before anything else, whatever it was
started by. It takes itself out again at once: the script and its children find the PYTHONPATH,
`sys.path` and `sitecustomize` that they would have found without it.

`faulthandler` writes from inside the signal handler, in C: it needs neither the GIL nor root.
Kept to what Python 2.7 can read, since a shell script may start any; it does nothing there.
"""

import os
import sys

# Real-time signals far from both ends, where libraries take theirs. The agent reads the numbers
# from the file.
ALL, MAIN = 52, 51
# Out of the way, so that the script's own files get the numbers that they would have got.
_DESCRIPTOR = 250


def register(path):  # type: (str) -> None
    """Have the signal ALL add the stacks of all threads to `path`, MAIN those of the main thread.

    For the calling process; one that is forked from it calls this again, with a path of its own.
    """
    import faulthandler
    from _signal import SIG_IGN, signal  # type: ignore[import-not-found]

    # What an ending interpreter puts back: a signal that comes that late is to kill nobody.
    signal(ALL, SIG_IGN)
    signal(MAIN, SIG_IGN)
    # Closed by the end of the process, and not before: the handler keeps the bare number.
    fd = _out_of_the_way(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    faulthandler.register(ALL, fd, all_threads=True)
    faulthandler.register(MAIN, fd, all_threads=False)
    # Said last: who reads this may send the signals. MAIN is sent to the main thread alone; its
    # block among all of them is told by the number.
    from _thread import get_ident

    os.write(fd, ("%x %d %d\n" % (get_ident(), ALL, MAIN)).encode())


def _out_of_the_way(fd):  # type: (int) -> int
    try:
        os.fstat(_DESCRIPTOR)
    except OSError:  # it is free
        try:
            os.dup2(fd, _DESCRIPTOR, inheritable=False)
        except OSError:  # beyond the limit
            return fd
        os.close(fd)
        return _DESCRIPTOR
    return fd


def _restore_path(here):  # type: (str) -> None
    """Take the directory out of PYTHONPATH; `here/` with a slash stands for an empty one."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    left = [entry for entry in entries if entry.rstrip("/") != here]
    if left or here + "/" in entries:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    else:
        os.environ.pop("PYTHONPATH", None)
    sys.path[:] = [entry for entry in sys.path if entry.rstrip("/") != here]
    sys.path_importer_cache.pop(here, None)


def _begin():  # type: () -> None
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        register(os.path.join(here, "%d" % os.getpid()))
        # Made by this process, so the directory can be reached from where it is: torch would
        # refuse to train if it could not make its pipe.
        os.environ.setdefault("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", os.path.join(here, "flight-"))
    except Exception:  # noqa: S110  # no faulthandler, no room: then there are no stacks
        pass
    _restore_path(here)
    if sys.version_info < (3,):
        return
    # The next one, as if it had been the first; where there is none, `site` takes the
    # ImportError of this import for that.
    del sys.modules[__name__]
    __import__(__name__)


if __name__ == "sitecustomize":
    _begin()
