"""The command `zlaunch`: finds the subcommand, and turns errors into messages and exit codes."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer

from zlaunch import __version__
from zlaunch.cli.lazy_group import lazy_group
from zlaunch.errors import ZlaunchError

# Name -> module and help. A module is imported when its command is used, so that
# `zlaunch --help` and each command pay for nothing else.
_COMMANDS = {
    "run": ("zlaunch.cli.run", "Train on this machine: one worker per GPU, or N on the CPU."),
    "multinode": ("zlaunch.cli.multinode", "Train on many hosts, over SSH or by Slurm."),
    "submit": ("zlaunch.cli.submit", "Have Slurm start a run when there is room; print its id."),
    "join": ("zlaunch.cli.join", "Train on many nodes, this command started on each; no SSH."),
    "plan": ("zlaunch.cli.plan", "Which recipes fit a model into memory, term by term."),
    "doctor": ("zlaunch.cli.doctor", "Look at hosts: what would make training there fail."),
    "config": ("zlaunch.cli.config", "Make, check, explain and compare ds_configs."),
    "recipes": ("zlaunch.cli.recipes", "The named ways to train."),
    "ps": ("zlaunch.cli.ps", "List runs."),
    "status": ("zlaunch.cli.status", "How a run stands: ranks, pids, outcome, cause, paths."),
    "top": ("zlaunch.cli.top", "Ranks of a run, live: step, loss, GPU, memory, last line."),
    "attach": ("zlaunch.cli.attach", "Show what a run shows; Ctrl-C leaves it as it is."),
    "stop": ("zlaunch.cli.stop", "Stop a run, and wait for its end."),
    "signal": ("zlaunch.cli.signal_ranks", "Pass a signal on to the ranks of a run."),
    "wait": ("zlaunch.cli.wait", "Wait for the end of a run, and end with its exit code."),
    "rm": ("zlaunch.cli.remove:rm_app", "Remove runs that are over, logs and all."),
    "prune": ("zlaunch.cli.remove:prune_app", "Remove all runs that ended long ago."),
    "logs": ("zlaunch.cli.logs", "Show and follow what the ranks of a run write."),
    "diagnose": ("zlaunch.cli.diagnose", "Why a run ended: the rank, the cause, the way out."),
    "report": ("zlaunch.cli.report", "A page about a run: timeline, curves, memory, causes."),
    "stacks": ("zlaunch.cli.stacks", "Where the ranks of a run are; who is elsewhere."),
    "completion": ("zlaunch.cli.completion", "Complete commands, options, runs and hosts on Tab."),
    "__submitted": ("zlaunch.cli.submitted", ""),  # for batch scripts
}

# Typer does not export the base of its usage errors, and whether click is inside it or
# beside it depends on its version; both have this ancestor.
_UsageError: Any = typer.BadParameter.__mro__[2]


app = typer.Typer(
    cls=lazy_group(_COMMANDS, "zlaunch"),
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"zlaunch {__version__}")
        raise typer.Exit


@app.callback()
def zlaunch(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Start, watch and stop PyTorch and DeepSpeed ZeRO training."""


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit: 2 for wrong input, else as the command says."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _prepare_descriptors()
    try:
        if args is None and sys.argv[1:2] == ["run"]:
            from zlaunch.backends import early_agent

            early_agent.begin()
        command = typer.main.get_command(app)
        code = command.main(args, prog_name="zlaunch", standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            _print(error.format_message())
            sys.exit(2)
        _complain_of_usage(error)
        sys.exit(2)
    except ZlaunchError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        _complain("interrupted")
        sys.exit(130)
    except OSError as error:
        _complain(_why(error))
        os._exit(125)  # what Python still holds cannot be written at exit either
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 wraps it in a class's body
            _complain("interrupted")
            sys.exit(130)
        # A fault of ours: its traceback is wanted, but not the exit code of a rank.
        traceback.print_exc()
        sys.exit(125)
    sys.exit(code if isinstance(code, int) else 0)


def _prepare_descriptors() -> None:
    """Have 0, 1 and 2 open, and text that no encoding can refuse.

    A descriptor that was closed (`>&-`) would be given to the next file that is opened, and
    be written to as if it were the terminal.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or sys.stdout
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _why(error: OSError) -> str:
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return "too many files are open\n  hint: raise `ulimit -n`"
    return f"{error.filename or 'the output'}: {error.strerror}"


def _complain_of_usage(error: Any) -> None:
    """Whoever comes from another launcher is told what its option is called here."""
    from zlaunch.cli.peer_options import instead_of

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else ""
    option = getattr(error, "option_name", None)
    advice = instead_of(option, path) if option else None
    if advice is not None:
        _complain(f"No such option: {option}")
        _print(f"  hint: {advice}")
        return
    _complain(error.format_message())
    if path:
        _print(f"  hint: {path} --help")


def _complain(message: str) -> None:
    _print(f"zlaunch: error: {message}")


def _print(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201
