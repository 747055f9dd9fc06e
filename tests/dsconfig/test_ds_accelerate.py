"""Accelerate's configuration files, beside what the installed Accelerate makes of them.

Its own launcher reads each file and lays down its environment, and its own plugin builds the
config from that: in one process for all files, without a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zlaunch.cli.named_config import Named, recognise
from zlaunch.dsconfig.finding import Around, Finding
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.schema import own_schema

pytestmark = pytest.mark.deepspeed

GOOD = Path(__file__).parent / "accelerate"
HEAD = "distributed_type: DEEPSPEED\nnum_processes: 2\n"
FIELDS = "deepspeed_config:\n"
NAMED = f"{FIELDS}  deepspeed_config_file: zero3.json\n"

THEIRS = """
import json, os, sys
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DeepSpeedPlugin
from accelerate.utils.launch import prepare_deepspeed_cmd_env

def config(file):
    args = launch_command_parser().parse_args(["--config_file", file, "script.py"])
    args, defaults, from_file = _validate_launch_command(args)
    if not args.use_deepspeed:
        raise ValueError("not by DeepSpeed")
    fields = [*defaults.deepspeed_config, *(["mixed_precision"] if from_file else [])]
    args.deepspeed_fields_from_accelerate_config = ",".join(fields)
    args.main_process_port = 0
    _, env = prepare_deepspeed_cmd_env(args)
    os.environ.clear()
    os.environ.update(env)
    plugin = DeepSpeedPlugin()
    plugin.set_mixed_precision(os.environ["ACCELERATE_MIXED_PRECISION"])
    return {k: v for k, v in plugin.deepspeed_config.items() if k != "steps_per_print"}

before, results = dict(os.environ), {}
for file in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update(before)
    try:
        results[file] = config(file)
    except (Exception, SystemExit) as error:
        results[file] = f"{type(error).__name__}: {error}"
print("RESULT", json.dumps(results))
"""


def theirs(folder: Path, files: list[str]) -> dict[str, Any]:
    pytest.importorskip("accelerate")
    env = {k: v for k, v in os.environ.items() if not k.startswith("ACCELERATE_")}
    env |= {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", THEIRS], input=json.dumps(files), cwd=folder, env=env,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr
    results: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return results


def without_nothing(config: dict[str, Any]) -> dict[str, Any]:
    """Without what says no more than its absence."""
    zero = dict(config["zero_optimization"])
    for part in ("offload_optimizer", "offload_param"):
        section = {k: v for k, v in zero.pop(part, {}).items() if v is not None}
        if section.get("device", "none") != "none":
            zero[part] = section
    if not zero.get("stage3_gather_16bit_weights_on_model_save"):
        zero.pop("stage3_gather_16bit_weights_on_model_save", None)
    halves = {k: v for k in ("fp16", "bf16") if (v := config.get(k, {})).get("enabled") is True}
    rest = {k: v for k, v in config.items() if k not in ("fp16", "bf16", "zero_optimization")}
    return {**rest, "zero_optimization": zero, **halves}


def judged(named: Named) -> list[Finding]:
    around = Around(own_schema(), "accelerate", named.imported.processes)
    return [f for part in named.parts(lint(named.document, around)) for f in part.findings]


def ours(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Named:
    monkeypatch.chdir(folder)
    return recognise((folder / name).read_text("utf-8"), name)


def test_good_files_mean_what_accelerate_makes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(path.name for path in GOOD.glob("*.yaml"))
    results = theirs(GOOD, names)
    for name in names:
        named = ours(GOOD, name, monkeypatch)
        assert not [f for f in judged(named) if f.level != "note"], name
        assert not isinstance(results[name], str), (name, results[name])
        expected = results[name]
        if named.below is not None:  # auto is filled where it is read
            expected = {**expected, **{k: named.config[k] for k in ("fp16", "bf16")}}
            assert named.config == expected, name
        else:
            assert without_nothing(dict(named.config)) == without_nothing(expected), name


# Fields that Accelerate reads, however they are spelled.
SAME = {
    "no fields": f"{FIELDS[:-1]} {{}}\n",
    "null": f"{FIELDS[:-1]} null\n",
    "texts": f'{FIELDS}  zero_stage: "3"\n  gradient_accumulation_steps: "4"\n',
    "nulls": f"{FIELDS}  zero_stage: null\n  offload_optimizer_device: null\n",
    "autos": f"{FIELDS}  gradient_accumulation_steps: auto\n  gradient_clipping: auto\n",
    "capitals": f"mixed_precision: FP16\n{FIELDS}  offload_optimizer_device: CPU\n",
    "no file": f"mixed_precision: bf16\n{FIELDS}  deepspeed_config_file: none\n  zero_stage: 3\n",
    "old precision": f"fp16: true\n{FIELDS}  zero_stage: 1\n",
    "quoted no": f"mixed_precision: 'no'\n{FIELDS}  zero_stage: 1\n",
    "moved": f"{FIELDS}  mixed_precision: bf16\n  num_processes: 4\n",
    "short number": f"{FIELDS}  gradient_clipping: 5e-1\n",
    "octal": f"{FIELDS}  zero_stage: 03\n",
    "no clipping": f"{FIELDS}  gradient_clipping: 0\n",
    "switch": f"{FIELDS}  zero_stage: 3\n  zero3_save_16bit_model: yes\n",
    "saved in two": f"{FIELDS}  zero_stage: 2\n  zero3_save_16bit_model: true\n",
    "init in two": f"{FIELDS}  zero_stage: 2\n  zero3_init_flag: on\n",
}

# What Accelerate refuses: the code of our error, its path, its line.
REFUSED = {
    **{
        f"beside {name}": (f"{NAMED}  {name}: 1\n", "beside-config-file", 5)
        for name in (
            *("gradient_accumulation_steps", "gradient_clipping", "zero_stage"),
            *("offload_optimizer_device", "offload_param_device", "zero3_save_16bit_model"),
            *("offload_optimizer_nvme_path", "offload_param_nvme_path", "ZERO_STAGE"),
        )
    },
    "beside null": (f"{NAMED}  zero_stage: null\n", "beside-config-file", 5),
    "beside precision": (f"mixed_precision: bf16\n{NAMED}", "beside-config-file", 3),
    "beside no": (f"mixed_precision: 'no'\n{NAMED}", "beside-config-file", 3),
    "beside fp16": (f"fp16: true\n{NAMED}", "beside-config-file", 3),
    "beside moved": (f"{NAMED}  mixed_precision: bf16\n", "beside-config-file", 5),
    "missing file": (f"{FIELDS}  deepspeed_config_file: nowhere.json\n", "missing-file", 4),
    "top": (f"num_proceses: 3\n{FIELDS}  zero_stage: 1\n", "unknown-field", 3),
    "top ds key": (f"zero_stage: 3\n{FIELDS}  zero_stage: 1\n", "unknown-field", 3),
    "bare no": (f"mixed_precision: no\n{FIELDS}  zero_stage: 1\n", "wrong-value", 3),
    "fp32": (f"mixed_precision: fp32\n{FIELDS}  zero_stage: 1\n", "wrong-value", 3),
    "clipping": (f"{FIELDS}  gradient_clipping: none\n", "wrong-value", 4),
    "stage 3.0": (f"{FIELDS}  zero_stage: 3.0\n", "wrong-value", 4),
    "stage 1e0": (f"{FIELDS}  zero_stage: 1e0\n", "wrong-value", 4),
    "stage true": (f"{FIELDS}  zero_stage: true\n", "wrong-value", 4),
    "flag": (f"{FIELDS}  zero3_init_flag: maybe\n", "wrong-value", 4),
    "list": (f"{FIELDS[:-1]} [1]\n", "wrong-type", 3),
}

# What Accelerate takes without a word, and trains something else.
SILENT = {
    "typo": (f"{FIELDS}  zero_stge: 3\n", "unknown-field", 4),
    "ds key": (f"{FIELDS}  train_micro_batch_size_per_gpu: 2\n", "unknown-field", 4),
    "ds key below": (f"{FIELDS}  overlap_comm: true\n", "unknown-field", 4),
    "section": (f"{FIELDS}  zero_optimization: {{stage: 3}}\n", "unknown-field", 4),
    "device no": (f"{FIELDS}  offload_optimizer_device: no\n", "wrong-value", 4),
    "steps 4.0": (f"{FIELDS}  gradient_accumulation_steps: 4.0\n", "wrong-value", 4),
    "steps -4": (f"{FIELDS}  gradient_accumulation_steps: -4\n", "wrong-value", 4),
    "clipping nan": (f"{FIELDS}  gradient_clipping: .nan\n", "nan", 4),
    "saves": (f'{FIELDS}  zero_stage: 3\n  zero3_save_16bit_model: "yes"\n', "wrong-value", 5),
    "stage 5": (f"{FIELDS}  zero_stage: 5\n", "unknown-value", 4),
    "twice": (f"{FIELDS}  zero_stage: 3\n  zero_stage: 1\n", "duplicate-key", 5),
}


def written(folder: Path, texts: dict[str, str]) -> dict[str, str]:
    (folder / "zero3.json").write_text((GOOD / "zero3.json").read_text())
    names = {what: f"{number}.yaml" for number, what in enumerate(texts)}
    for what, name in names.items():
        (folder / name).write_text(HEAD + texts[what])
    return names


def test_the_fields_as_accelerate_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = written(tmp_path, SAME)
    results = theirs(tmp_path, list(names.values()))
    for what, name in names.items():
        named = ours(tmp_path, name, monkeypatch)
        assert not [f for f in judged(named) if f.level == "error"], what
        assert not isinstance(results[name], str), (what, results[name])
        assert without_nothing(dict(named.config)) == without_nothing(results[name]), what


@pytest.mark.parametrize("kind", ["refused", "silent"])
def test_what_accelerate_refuses_or_takes_for_something_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = REFUSED if kind == "refused" else SILENT
    names = written(tmp_path, {what: text for what, (text, _, _) in table.items()})
    results = theirs(tmp_path, list(names.values()))
    for what, name in names.items():
        _, code, line = table[what]
        errors = [f for f in judged(ours(tmp_path, name, monkeypatch)) if f.level == "error"]
        places = [(error.code, error.place.line if error.place else None) for error in errors]
        assert places == [(code, line)], (what, errors)
        assert isinstance(results[name], str) == (kind == "refused"), (what, results[name])


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("num_processes: 2\ndeepspeed_config: {}\n", "needs-key"),
        ("distributed_type: deepspeed\nnum_processes: 2\ndeepspeed_config: {}\n", "wrong-value"),
        ("distributed_type: MULTI_GPU\nnum_processes: 2\ndeepspeed_config: {}\n", "not-deepspeed"),
        ("distributed_type: 'NO'\nnum_processes: 1\ndeepspeed_config: {}\n", "not-deepspeed"),
        ("distributed_type: NO\nnum_processes: 1\ndeepspeed_config: {}\n", "not-deepspeed"),
        ("distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {}\n", "not-deepspeed"),
    ],
)
def test_a_file_that_does_not_start_deepspeed(tmp_path: Path, head: str, code: str) -> None:
    (tmp_path / "a.yaml").write_text(head)
    [result] = theirs(tmp_path, ["a.yaml"]).values()
    assert isinstance(result, str), result
    assert code in [f.code for f in judged(recognise(head, "a.yaml")) if f.level == "error"]


def test_a_path_for_nvme_that_accelerate_loses(tmp_path: Path) -> None:
    """Its launcher sets no variable for it; a ds_config that we write has the path."""
    text = f"{HEAD}{FIELDS}  zero_stage: 3\n  offload_param_device: nvme\n"
    text += "  offload_param_nvme_path: /local_nvme\n"
    (tmp_path / "a.yaml").write_text(text)
    [result] = theirs(tmp_path, ["a.yaml"]).values()
    assert result["zero_optimization"]["offload_param"]["nvme_path"] == "none"
    named = recognise(text, "a.yaml")
    section = named.config["zero_optimization"]["offload_param"]
    assert section == {"device": "nvme", "nvme_path": "/local_nvme"}
    assert ("other-effect", 6) in [(f.code, f.place.line) for f in judged(named) if f.place]


def test_fp8_computes_in_bf16_beside_its_own_layers() -> None:
    """The plugin alone is asked: the launcher wants a library for fp8 to be there."""
    code = "from accelerate.utils import DeepSpeedPlugin; plugin = DeepSpeedPlugin(zero_stage=1);"
    code += "plugin.set_mixed_precision('fp8'); print(plugin.deepspeed_config['bf16'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "DS_ACCELERATOR": "cpu"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["{'enabled': True}"], done.stderr
    named = recognise(f"{HEAD}mixed_precision: fp8\n{FIELDS}  zero_stage: 1\n", "a.yaml")
    assert named.config["bf16"] == {"enabled": True}


def test_a_file_in_json_is_one_as_well() -> None:
    data = {
        "distributed_type": "DEEPSPEED",
        "num_processes": 4,
        "deepspeed_config": {"zero_stag": 1},
    }
    named = recognise(json.dumps(data, indent=1), "default_config.json")
    assert named.imported.kind == "Accelerate"
    [finding] = named.imported.findings
    assert (finding.code, finding.place.line if finding.place else 0) == ("unknown-field", 5)


def test_processes_and_machines() -> None:
    def said(head: str) -> tuple[list[str], tuple[str, ...]]:
        text = f"distributed_type: DEEPSPEED\n{head}deepspeed_config: {{zero_stage: 1}}\n"
        found = recognise(text, "a.yaml").imported
        return [finding.text for finding in found.findings], found.notes

    assert said("num_processes: 4\n") == (
        [], ("4 processes on one machine: zlaunch run --num-gpus 4",)
    )  # fmt: skip
    assert said("num_processes: 16\nnum_machines: 2\n") == (
        [], ("16 processes on 2 machines, so 8 on each: zlaunch multinode --nproc 8",)
    )  # fmt: skip
    assert said("num_processes: 9\nnum_machines: 2\n")[0] == [
        "9 processes do not divide by 2 machines: Accelerate starts 4 on each"
    ]
    assert said("num_processes: -1\n") == ([], ())
    assert said("") == ([], ())
    for wrong in ("two", "0", "-2", "true", "2.0"):
        [text] = said(f"num_processes: {wrong}\n")[0]
        assert "not a number of processes" in text
