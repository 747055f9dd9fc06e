"""Causes: the script, its modules, files and arguments; the Hugging Face Hub; trackers."""

from __future__ import annotations

from zlaunch.insight.cause_table import Case, Row, Told

# Where the package is called otherwise than the module.
_PACKAGES = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "sklearn": "scikit-learn",
    "mpi4py": "mpi4py",
    "flash_attn": "flash-attn --no-build-isolation",
    "google.protobuf": "protobuf",
    "dotenv": "python-dotenv",
    "skimage": "scikit-image",
}
_HUB = "huggingface_hub|transformers|datasets|diffusers|peft"
_LOGIN = "`huggingface-cli login` on each host, or HF_TOKEN in the environment (--env HF_TOKEN)"


def _module(case: Case) -> Told:
    name = case.group("name")
    if name.partition(".")[0] in ("mpi4py",):
        return _mpi(case)
    top = name.partition(".")[0]
    package = _PACKAGES.get(name, _PACKAGES.get(top, top))
    hosts = case.evidence.hosts
    here = hosts.get(case.rank)
    others = sorted({host for host in hosts.values() if host != here})
    details: tuple[str, ...] = ()
    if here and others:
        details = (f"seen on {here}; compare its environment with that of {others[0]}",)
    return Told(
        f"the module {name} is missing",
        details,
        (
            f"pip install {package}, into the interpreter of the ranks (--python names another)",
            f"a module of your own: run from its directory, or PYTHONPATH ({name})",
        ),
    )


def _mpi(_: Case) -> Told:
    return Told(
        "DeepSpeed looked for MPI, since no launcher had set RANK and WORLD_SIZE; mpi4py is "
        "missing",
        (),
        (
            "start the script with `zlaunch run`, which sets them",
            "pip install mpi4py, where ranks are started by mpirun",
        ),
    )


def _missing_file(case: Case) -> Told:
    path = case.group("path")
    return Told(
        f"there is no file {path}",
        () if path.startswith("/") else ("the path is looked for in the directory of the ranks",),
        ("each host needs it at the same path; relative paths start where the ranks run",),
    )


ROWS = (
    Row(
        "module-missing",
        r"^(?:ModuleNotFoundError|ImportError): No module named '?(?P<name>[\w.]+)",
        tell=_module,
    ),
    Row(
        "import-failed",
        r"^ImportError: (?P<what>cannot import name '[^\n]*|/[^\n]*: undefined symbol[^\n]*|"
        r"lib[^\n]*cannot open shared object file[^\n]*|[^\n]*GLIBC[^\n]*)",
        "an import failed: {what}",
        (
            "versions that do not go together, as a rule: `pip check`",
            "a file of your own with the name of the module hides it",
        ),
    ),
    Row(
        "package-missing",
        r"(?:ImportError|OSError|RuntimeError|ValueError): (?P<what>[^\n]*(?:requires? the \w+ "
        r"library|(?:is|are) not installed|needs? to be installed|seems? to be (?:not )?"
        r"installed|requires? (?:bitsandbytes|accelerate|flash)|pip install)[^\n]*)",
        "a package is missing: {what}",
        ("pip install it, into the interpreter of the ranks (--python names another)",),
    ),
    Row(
        "syntax-error",
        r"^(?P<what>(?:Syntax|Indentation|Tab)Error: [^\n]*)",
        "{what}",
    ),
    Row(
        "hub-gated",
        r"^GatedRepoError|trying to access a gated repo|Cannot access gated repo|403 Client Error",
        "Hugging Face: access to this repository has to be asked for",
        ("accept its terms on its page on the Hub", _LOGIN),
        where=_HUB,
    ),
    Row(
        "hub-not-found",
        r"Repo id must (?:use|be in).{0,200}?: '(?P<what>[^']+)'",
        "{what} is neither a directory here nor a name on the Hub",
        ("a path has to be right for the directory in which the ranks run, on each host",),
        where=_HUB,
    ),
    Row(
        "hub-not-found",
        r"RepositoryNotFoundError|is not a local folder and is not a valid model identifier|"
        r"Repository Not Found|404 Client Error|EntryNotFoundError: 404",
        "Hugging Face: there is no such repository, or the token may not see it",
        ("the name, and the directory if a local model is meant", "a private one: " + _LOGIN),
        where=_HUB,
    ),
    Row(
        "hub-unauthorised",
        r"401 Client Error|Invalid user token|Token is required|LocalTokenNotFoundError",
        "Hugging Face: the token is missing or not accepted",
        (_LOGIN,),
        where=_HUB,
    ),
    Row(
        "hub-offline",
        r"OfflineModeIsEnabled|LocalEntryNotFoundError|couldn't connect to 'https?://|"
        r"We couldn't connect|Cannot (?:reach|find the requested files in the disk cache)|"
        r"HTTPS?ConnectionPool\(host='[^']*huggingface|outgoing traffic has been disabled",
        "Hugging Face: the files are not in the cache, and the Hub was not reached",
        (
            (
                "download them once where there is a network, and share the cache: HF_HOME on a "
                "shared disk"
            ),
            "unset HF_HUB_OFFLINE and local_files_only where there is a network; HTTPS_PROXY",
        ),
        where=_HUB,
    ),
    Row(
        "model-unknown",
        r"model type `?(?P<what>\S+?)`? but Transformers does not recognize|"
        r"Unrecognized (?:model|configuration class) (?:in )?(?P<where>\S*[^\s.])",
        "Transformers does not know the model {what}{where}",
        ("a newer Transformers, or trust_remote_code=True where the repository brings its code",),
    ),
    Row(
        "model-files-missing",
        r"(?P<what>no file named [^\n]*?(?:bin|safetensors|msgpack|h5)[^\n]*?) found in|"
        r"does not appear to have a file named (?P<file>\S+)|Can't load (?:the )?"
        r"(?P<part>tokenizer|model|config\w*|image processor)",
        "a file of the model is missing: {what}{file}{part}",
        ("the directory has to be one that save_pretrained() wrote; download it again",),
    ),
    Row(
        "tokenizer",
        r"Couldn't instantiate the backend tokenizer|requires the SentencePiece library|"
        r"Error parsing line .{0,80}tokenizer|data did not match any variant of untagged enum|"
        r"sentencepiece|could not parse ModelProto",
        "the tokenizer cannot be built",
        ("pip install sentencepiece protobuf tiktoken; a newer tokenizers and transformers",),
        where="transformers|tokenizers|sentencepiece",
    ),
    Row(
        "tracker-login",
        r"api_key not configured|No API key configured|wandb.{0,80}(?:login|API key)|"
        r"UsageError:.{0,80}api_key|CommError: .{0,200}(?:permission|40[134])",
        "Weights & Biases: not logged in, and a rank cannot be asked",
        (
            (
                "`wandb login` before the start, or WANDB_API_KEY in the environment "
                "(--env WANDB_API_KEY)"
            ),
            "WANDB_MODE=offline, or report_to='none' for the Trainer",
        ),
        where="wandb",
    ),
    Row(
        "permission-denied",
        r"^PermissionError: \[Errno (?:13|1)\] (?:Permission denied|Operation not permitted)"
        r"(?:: '?(?P<path>[^'\n]+))?",
        "permission denied: {path}",
        ("`ls -ld` of it, on the rank's host and as its user",),
    ),
    Row(
        "read-only-disk",
        r"Errno 30\] Read-only file system(?:: '?(?P<path>[^'\n]+))?",
        "the file system is read-only: {path}",
        ("write somewhere else",),
    ),
    Row(
        "file-not-found",
        r"^(?:FileNotFoundError|NotADirectoryError): (?:\[Errno \d+\] [^:\n]*: )?"
        r"'?(?P<path>[^'\n]+)",
        tell=_missing_file,
    ),
    Row(
        "json-broken",
        r"^JSONDecodeError: (?P<what>[^\n]*)",
        "a JSON file cannot be read: {what}",
        ("a ds_config: `zlaunch config check FILE` shows the place",),
    ),
    Row("interrupted", r"^KeyboardInterrupt", "interrupted from the keyboard (SIGINT)"),
    Row("recursion", r"^RecursionError", "a function calls itself without an end"),
)
