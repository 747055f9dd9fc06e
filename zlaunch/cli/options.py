"""Options that several commands declare alike."""

from __future__ import annotations

from typing import Annotated

import typer

OverridesOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="zero_optimization.stage=3; repeatable."),
]
MicroBatchOption = Annotated[
    int | None, typer.Option("--micro-batch", metavar="N", help="Samples a step and GPU.")
]
GlobalBatchOption = Annotated[
    int | None, typer.Option("--global-batch", metavar="N", help="Samples an update.")
]
AccumulateOption = Annotated[
    int | None, typer.Option("--accumulate", metavar="N", help="Micro steps an update.")
]
PreflightOption = Annotated[
    bool, typer.Option("--preflight/--no-preflight", help="Look at all nodes before the start.")
]
AllowOption = Annotated[
    str | None,
    typer.Option(
        "--allow", metavar="CODES", help="Start although this is wrong: gpu-in-use,versions or all."
    ),
]
