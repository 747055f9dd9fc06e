"""--log-max: how much of each rank's log is kept."""

from __future__ import annotations

from zlaunch.errors import InputError

_LEAST = 1 << 20  # bytes


def read_log_max(text: str) -> int:
    """The bytes that `text` means; raises InputError."""
    from zlaunch.memory.sizes import parse_bytes  # who does not ask does not pay

    size = parse_bytes(text, "--log-max", least=0)
    if size < _LEAST:
        raise InputError(
            f"--log-max {text}: at least 1M is kept of each rank", hint="write 100M, or 2GiB"
        )
    return size
