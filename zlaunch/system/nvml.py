"""NVML, asked so that neither a wedged driver nor an old one does harm.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from zlaunch.errors import BackendError

_Answer = TypeVar("_Answer")


def ask_nvml(question: Callable[[Any], _Answer], failed: str, *, timeout: float) -> _Answer | None:
    """Return what `question` finds out, given the bindings; None where there is no NVML to ask.

    Raises BackendError, which begins with `failed`, for a driver that fails, and for one that
    does not answer within `timeout` seconds.
    """
    return _bounded(lambda: _ask(question, failed), timeout)


def _bounded(ask: Callable[[], _Answer], timeout: float) -> _Answer:
    """Call `ask` in a thread that can be left behind: a call into the driver has no limit."""
    answers: list[_Answer] = []
    errors: list[BaseException] = []

    def answer() -> None:
        try:
            answers.append(ask())
        except BaseException as error:  # raised again by the asker
            errors.append(error)

    thread = threading.Thread(target=answer, name="nvml", daemon=True)
    thread.start()
    thread.join(timeout)
    for error in errors:
        raise error
    if not answers:
        raise BackendError(
            f"NVML did not answer within {timeout:g} s",
            hint="nvidia-smi will hang alike; the driver, or a GPU, needs a reset",
        )
    return answers[0]


def _ask(question: Callable[[Any], _Answer], failed: str) -> _Answer | None:
    try:
        import pynvml as nvml
    except ImportError:
        return None
    absent = (
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        nvml.NVML_ERROR_DRIVER_NOT_LOADED,
        nvml.NVML_ERROR_NO_PERMISSION,
    )
    try:
        nvml.nvmlInit()
        try:
            return question(nvml)
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        if error.value in absent:
            return None
        raise BackendError(
            f"{failed}: NVML says {str(error)!r}",
            hint="nvidia-smi shows the same; often the driver was updated without a reboot",
        ) from error


def handles(nvml: Any) -> Iterator[Any]:
    """Give the devices in CUDA's numbers; one that is withheld from us has none there either."""
    for place in range(nvml.nvmlDeviceGetCount()):
        try:
            yield nvml.nvmlDeviceGetHandleByIndex(place)
        except nvml.NVMLError_NoPermission:
            continue


def optional(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """Ask what some devices or drivers do not know, such as the memory of an SoC; else None."""
    try:
        return ask(*arguments)
    except (
        nvml.NVMLError_NotSupported,
        nvml.NVMLError_FunctionNotFound,
        nvml.NVMLError_NoPermission,
    ):
        return None
