"""`zlaunch doctor`: looks at this machine, or at many hosts; starts nothing unless asked to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from zlaunch.cli.allocation import for_many
from zlaunch.cli.bandwidth import measure
from zlaunch.cli.doctor_operators import Built, build, needed
from zlaunch.cli.doctor_table import as_json, print_built, print_measured, print_table
from zlaunch.cli.find_place import find_place
from zlaunch.cli.look import look
from zlaunch.cli.multinode import multinode
from zlaunch.cli.place import Place
from zlaunch.cli.question import KNOWN, allowed, nvml_source
from zlaunch.cli.request import ManyHosts, Request, check
from zlaunch.cli.signature import borrow, parameters_of
from zlaunch.errors import InputError
from zlaunch.launcher.examination import Examined
from zlaunch.launcher.preflight import Asked
from zlaunch.spec.facts import Question
from zlaunch.system.gpus import discover

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_WRONG = 2  # the exit code where something would make training fail
_OF_MANY = (
    *("hostfile", "hosts", "num_nodes", "force_ssh", "ssh", "ssh_host_keys", "connect_timeout"),
    *("env", "env_file", "setup", "backend", "allow"),
)
_OF_RUN = (
    *("num_gpus", "include", "exclude", "cpu", "device", "nproc", "python", "master_addr"),
    "master_port",
)


def doctor(
    json: Annotated[bool, typer.Option("--json", help="What was found, as data.")] = False,
    bandwidth: Annotated[
        bool, typer.Option("--bandwidth", help="Also run an all-reduce, and name the slow host.")
    ] = False,
    build_ops: Annotated[
        bool, typer.Option("--build-ops", help="Also compile DeepSpeed's operators on each host.")
    ] = False,
    ds_config: Annotated[
        str | None,
        typer.Option(
            "--ds-config", metavar="FILE", help="Those that this needs, not the usual recipes."
        ),
    ] = None,
    **options: Any,
) -> None:
    """Look at this machine, or at the hosts of a hostfile: what would make training fail.

    The same look that `multinode` takes before each start, and a table of what is there.
    """
    codes = allowed(options["allow"])
    request = _request(options)
    check(request)
    if ds_config is not None and not build_ops:
        raise InputError("--ds-config says what --build-ops is to build", hint="give both")
    env = dict(os.environ)
    built: Built | None = None
    with find_place(request, env, gather=lambda _: None) as place:
        names = needed(place.devices.kind, ds_config) if build_ops else ()
        found = _examine(request, place, links=bandwidth)
        wrong = [f for f in found.findings if not f.warning and f.code not in codes]
        if build_ops and not wrong:
            if names and not json:
                typer.echo(f"building, where missing: {', '.join(names)}", err=True)
            built = build(names, place, env, python=request.python)
        measured = measure(place, env, python=request.python) if bandwidth and not wrong else None
    if json:
        typer.echo(as_json(place, found, measured, codes, built))
    else:
        print_table(place, found, codes)
        if build_ops:
            print_built(built)
        if bandwidth:
            print_measured(found, measured)
    if wrong:
        raise typer.Exit(_WRONG)
    failed = measured.failure.exit_code if measured and measured.failure else 0
    raise typer.Exit(failed or (built.exit_code if built else 0))


borrow(
    doctor,
    multinode,
    only={*_OF_MANY, *_OF_RUN},
    helps={"allow": "What may be wrong: gpu-in-use,versions or all."},
)
app.command(context_settings={"help_option_names": ["-h", "--help"]})(doctor)


def _request(options: Mapping[str, Any]) -> Request:
    """The request of a run that has no script, on these hosts or here."""
    many, allocation = None, for_many(options["backend"])
    named = options["hostfile"] is not None or options["hosts"] is not None
    if named or allocation is not None:
        names = [name for name in _OF_MANY if name in ManyHosts.__dataclass_fields__]
        env, env_files = (tuple(options[name] or ()) for name in ("env", "env_file"))
        shared = {name: options[name] for name in names}
        many = ManyHosts(
            **{
                **shared,
                "env": env,
                "env_files": env_files,
                "uncounted": 1,
                "allocation": allocation,
            }
        )
    elif alone := _only_for_hosts(options):
        raise InputError(f"{alone} is about hosts", hint="give --hostfile FILE or --hosts A,B")
    given = {name: options[name] for name in _OF_RUN}
    request = Request(script="", many=many, **given)
    if many is None and _has_no_gpu(request):
        return replace(request, device="cpu")
    return request


def _only_for_hosts(options: Mapping[str, Any]) -> str | None:
    """An option that means nothing on this machine alone, and was given all the same."""
    defaults = parameters_of(multinode)
    for name in _OF_MANY:
        if name != "allow" and options[name] != defaults[name].default:
            return f"--{name.replace('_', '-')}"
    return None


def _has_no_gpu(request: Request) -> bool:
    asked = request.device == "cuda" or request.num_gpus or request.include or request.exclude
    return not asked and request.cpu is None and not discover()


def _examine(request: Request, place: Place, *, links: bool) -> Examined:
    gpus = place.devices.kind == "cuda"
    nvml = nvml_source() if gpus else ""
    question = Question(packages=KNOWN, gpus=gpus, links=links and gpus, nvml=nvml)
    return look(request, place, Asked(question, needed=("torch", "deepspeed")))
