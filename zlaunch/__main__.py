"""`python -m zlaunch` is `zlaunch`."""

from __future__ import annotations

from zlaunch.cli.main import main

if __name__ == "__main__":
    main()
