"""Options that several commands declare alike."""

from __future__ import annotations

from typing import Annotated

import typer

from zlaunch.cli.request import OnHang, StartChoice

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
HangTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--hang-timeout", metavar="MINUTES", help="Call the roll where no rank makes progress."
    ),
]
OnHangOption = Annotated[
    OnHang, typer.Option("--on-hang", help="Then go on, or end the run with exit code 124.")
]
StacksOption = Annotated[
    bool, typer.Option("--stacks/--no-stacks", help="Let ranks be asked for their Python stacks.")
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        help="Loss, steps and so on for Prometheus; 0: any.",
    ),
]
BuildOpsOption = Annotated[
    bool,
    typer.Option(
        "--build-ops/--no-build-ops", help="Compile DeepSpeed's operators before ranks wait."
    ),
]
LiveOption = Annotated[
    bool, typer.Option("--live", help="Show the ranks below their lines, as `zlaunch top` does.")
]
StartOption = Annotated[
    StartChoice,
    typer.Option(
        "--start", help="warm: one process a node imports for all ranks; auto: where that is sure."
    ),
]
OnExitOption = Annotated[
    str | None,
    typer.Option(
        "--on-exit",
        metavar="COMMAND",
        help="Run it here at the end; ZLAUNCH_STATE and others say how.",
    ),
]
PreloadOption = Annotated[
    str | None,
    typer.Option("--preload", metavar="MODULES", help="A warm start imports these too."),
]
LogMaxOption = Annotated[
    str | None,
    typer.Option("--log-max", metavar="SIZE", help="Keep the newest 100M, say, of each rank."),
]
IdleOption = Annotated[
    bool,
    typer.Option("--idle", help="GPUs that nobody uses, the first N of the visible ones, or all."),
]
WaitOption = Annotated[
    str | None,
    typer.Option(
        "--wait", metavar="[DURATION]", help="Queue until they are free, for 90s, 15m, 2h at most."
    ),
]
ShareGpusOption = Annotated[
    bool, typer.Option("--share-gpus", help="Take no lease, and use GPUs that others hold.")
]
LeaseDirOption = Annotated[
    str | None,
    typer.Option(
        "--lease-dir", metavar="DIR", help="Where leases are; users share one of mode 1777."
    ),
]
