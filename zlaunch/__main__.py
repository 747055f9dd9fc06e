"""`zlaunch` and `python -m zlaunch`: the way in.

While the command is being imported, Ctrl-C ends it at once instead of showing a traceback
through what is imported; `main` puts Python's own handler back.
"""

from __future__ import annotations

import signal
import sys


def run() -> None:
    """Import the command line, and run it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.argv[1:2] == ["__complete"]:  # a shell, for a press of Tab
        from zlaunch.cli.complete import answer

        answer(sys.argv[2:])
        return
    from zlaunch.cli.main import main

    main()


if __name__ == "__main__":
    run()
