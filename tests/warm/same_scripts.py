"""Scripts that print what they can see of themselves; pids and ports are compared, not printed."""

from __future__ import annotations

# What a run of its own differs in.
_QUIET = """
import os
for name in ("MASTER_PORT", "ZLAUNCH_RUN_ID", "ZLAUNCH_RUN_DIR", "TORCHELASTIC_RUN_ID",
             "TORCHELASTIC_ERROR_FILE", "TORCH_FR_DUMP_TEMP_FILE", "ZLAUNCH_DS_CONFIG",
             "ZLAUNCH_HOME", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"):
    os.environ[name] = str(name in os.environ)
"""

SEEN: dict[str, str] = {
    # The interpreter
    "argv": "import sys\nprint(sys.argv)",
    "orig argv": "import sys\nprint(sys.orig_argv)",
    "path": "import os, sys\nprint([p.replace(os.getcwd(), 'HERE') for p in sys.path])",
    "flags": "import sys\nprint(sys.flags, sys._xoptions, sys.warnoptions)",
    "executable": "import sys\nprint(sys.executable, sys.prefix, sys.exec_prefix, sys.platform)",
    "modules": "import sys\nprint(sorted(set(sys.modules) - {*sys.argv[-1].split(',')}))",
    "hooks": "import sys\nprint(sys.meta_path, sys.path_hooks[1:], sys.excepthook, sys.displayhook)",
    "path cache": "import sys\nprint(sorted(sys.path_importer_cache))",
    "recursion": "import sys\nprint(sys.getrecursionlimit(), sys.getswitchinterval())",
    "garbage": "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.garbage, gc.callbacks)",
    "tracing": "import sys, threading\nprint(sys.gettrace(), sys.getprofile(), threading.gettrace())",
    "warnings": "import warnings\nprint(warnings.filters)",
    "builtins": "import builtins\nprint(sorted(vars(builtins)))",
    "site": "import site\nprint(site.ENABLE_USER_SITE, site.USER_SITE)",
    "sitecustomize": "import sys\nprint('sitecustomize' in sys.modules)",
    "locale": "import locale, sys\nprint(locale.getlocale(), sys.getfilesystemencoding())",
    # __main__
    "main": "print({k: str(v) for k, v in globals().items()})",
    "main module": "import sys\nm = sys.modules['__main__']\nprint(m, sorted(vars(m)), vars(m) is globals())",
    "main spec": "print(__spec__, __name__, __file__, __package__, type(__loader__))",
    "code": "import sys\nprint(sys._getframe().f_code.co_filename, sys._getframe().f_back)",
    "pickle": (
        "import pickle\nclass Point:\n    x = 3\np = pickle.loads(pickle.dumps(Point()))\n"
        "print(type(p) is Point, p.x, pickle.dumps(Point))"
    ),
    "pickle function": "import pickle\ndef f(): return 7\nprint(pickle.loads(pickle.dumps(f))())",
    "inspect": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), inspect.getfile(f))",
    "dataclass": (
        "import dataclasses, typing\n"
        "@dataclasses.dataclass\nclass A:\n    x: int = 1\nprint(A(), typing.get_type_hints(A))"
    ),
    # The process
    "environment": f"{_QUIET}\nprint(sorted(os.environ.items()))",
    "environment of C": (
        f"{_QUIET}\nimport subprocess, sys\n"
        "out = subprocess.run(['env', '-0'], capture_output=True).stdout.split(b'\\0')\n"
        "print(sorted(out))"
    ),
    "getenv": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.getenv.restype = ctypes.c_char_p\n"
        "print([libc.getenv(n) for n in (b'RANK', b'LOCAL_RANK', b'WORLD_SIZE', b'PYTHONPATH')])"
    ),
    "working directory": "import os\nprint(os.getcwd(), os.path.samefile('/proc/self/cwd', '.'))",
    "session": (
        "import os\nprint(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(),"
        " os.path.exists(f'/proc/{os.getppid()}'))"
    ),
    "parent": (
        "import os\nwords = open(f'/proc/{os.getppid()}/cmdline').read().split('\\0')\n"
        "print(words[1:3], open('/proc/self/comm').read())"
    ),
    "command line": "print(open('/proc/self/cmdline').read().split('\\0'))",
    "descriptors": (
        "import os\nfor fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n    try:\n"
        "        kind = os.readlink(f'/proc/self/fd/{fd}').split(':')[0]\n"
        "    except OSError:\n        continue\n"
        "    print(fd, kind.rpartition('/')[0] if fd == 250 else kind, os.get_inheritable(fd))"
    ).replace("kind.rpartition('/')[0] if fd == 250 else kind", "'handler' if fd == 250 else kind"),
    "next descriptor": "import os\nprint(os.open('/', os.O_RDONLY), os.pipe())",
    "limits": "import resource as r\nprint([r.getrlimit(n) for n in range(16)])",
    "umask": "import os\nprint(oct(os.umask(0)))",
    "nice": "import os\nprint(os.nice(0), os.sched_getaffinity(0) == os.sched_getaffinity(os.getppid()))",
    "signals": (
        "import signal\nprint([(s.name, str(signal.getsignal(s))) for s in signal.valid_signals()"
        " if isinstance(s, signal.Signals)])\n"
        "print([l for l in open('/proc/self/status') if l.startswith(('Sig', 'ShdPnd'))"
        " and not l.startswith('SigQ')])"
    ),
    "signal mask": "import signal\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.sigpending())",
    "wakeup": "import signal\nprint(signal.set_wakeup_fd(-1), signal.getitimer(signal.ITIMER_REAL))",
    "capabilities": (
        "print([l for l in open('/proc/self/status') if l.startswith(('Cap', 'Uid', 'Gid', 'NoNew',"
        " 'Seccomp', 'Groups'))])"
    ),
    "death signal": (
        "import ctypes\nn = ctypes.c_int()\nctypes.CDLL(None).prctl(2, ctypes.byref(n))\nprint(n.value)"
    ),
    "children": "import os\nprint(open(f'/proc/self/task/{os.getpid()}/children').read())",
    "threads": "import os, threading\nprint(len(os.listdir('/proc/self/task')), threading.enumerate()[0].name,\n threading.main_thread() is threading.current_thread(), threading.get_native_id() == os.getpid())",
    "control group": "import os\nprint(len(open('/proc/self/cgroup').read()) > 0, 'zlaunch-' in open('/proc/self/cgroup').read())",
    "personality": "print(open('/proc/self/personality').read())",
    "oom": "print(open('/proc/self/oom_score_adj').read())",
    # Randomness
    "random is seeded": "import random\nrandom.seed(3)\nprint(random.random(), random.getrandbits(64))",
    "hash of numbers": "print(hash(3.5), hash((1, 2)), hash(2**61))",
    # Reading and writing
    "streams": (
        "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
        "    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through,"
        " s.isatty(), s.fileno(), type(s.buffer), s.seekable(), s is getattr(sys, f'__{s.name[1:-1]}__'))"
    ),
    "C stdio flushed": "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.puts(b'x')\nlibc.fflush(None)\nprint('y')",
    "stdin": "import sys\nprint(repr(sys.stdin.read()), repr(sys.stdin.readline()))",
    "one pipe": "import os\nprint(os.path.sameopenfile(1, 2), os.path.sameopenfile(0, 1))",
    "subprocess writes": "import subprocess\nprint('one')\nsubprocess.run(['echo', 'two'])\nprint('three')",
}
"""By what they look at: all of them in one script, each after a line with its name."""

ENDINGS: dict[str, str] = {
    "usage": "import resource\nu = resource.getrusage(resource.RUSAGE_CHILDREN)\nprint(u.ru_utime, u.ru_maxrss)",
    "stack": "import traceback\ntraceback.print_stack()",
    "unbuffered": (
        "import os, sys\nprint('a', end='')\nos.write(1, b'b')\nsys.stderr.write('c')\nos.write(2, b'd')\n"
        "sys.stdout.write('e\\n')"
    ),
    "C stdio": (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\nlibc.puts(b'from C')\nprint('from Python')\n"
        "os.write(1, b'from the system\\n')\nlibc.puts(b'again')"
    ),
    "input": "input()",
    "closed stdout": "import sys\nsys.stdout.close()\nprint('x', file=sys.stderr)",
    "surrogates": "print('\\udcff')",
    "bytes": "import sys\nsys.stdout.buffer.write(bytes(range(256)))",
    "end": "print('done')",
    "atexit": (
        "import atexit\natexit.register(print, 'first')\natexit.register(print, 'second')\nprint('body')"
    ),
    "exit 0": "import sys\nsys.exit(0)",
    "exit 3": "import sys, atexit\natexit.register(print, 'bye')\nsys.exit(3)",
    "exit text": "import sys\nsys.exit('what went wrong')",
    "exit none": "import sys\nsys.exit(None)",
    "exit 256": "import sys\nsys.exit(256)",
    "exit negative": "import sys\nsys.exit(-1)",
    "exit tuple": "raise SystemExit(1, 2)",
    "exit builtin": "exit(4)",
    "os exit": "import os, atexit\natexit.register(print, 'never')\nos._exit(5)",
    "abort": "import os\nos.abort()",
    "segmentation": "import ctypes\nctypes.string_at(0)",
    "future": (
        "from __future__ import annotations\nimport dataclasses\n"
        "@dataclasses.dataclass\nclass A:\n    x: Any = 1\nprint(A())"
    ),
    "killed": "import os\nos.kill(os.getpid(), 9)",
    "terminated": "import os\nos.kill(os.getpid(), 15)",
    "interrupted": "import os\nos.kill(os.getpid(), 2)\nimport time\ntime.sleep(9)",
    "interrupt caught": (
        "import os, time\ntry:\n    os.kill(os.getpid(), 2)\n    time.sleep(9)\n"
        "except KeyboardInterrupt:\n    print('caught')"
    ),
    "broken pipe": "import os\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')",
    "exception": "def f(n):\n    return 1 / n\n\n\nf(0)",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e",
    "context": "try:\n    {}['a']\nexcept KeyError:\n    [][0]",
    "in a module": "import json\njson.loads('{')",
    "import error": "import not_there_at_all",
    "syntax error": "eval('1 +')",
    "recursion error": "def f(): f()\nf()",
    "excepthook": "import sys\nsys.excepthook = lambda t, v, b: print('hook', t, v)\n1 / 0",
    "exception at exit": "import atexit\natexit.register(lambda: 1 / 0)",
    "exception in a thread": (
        "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()\nt.join()"
    ),
    "thread at the end": (
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()"
    ),
    "del at the end": "class A:\n    def __del__(self): print('del')\na = A()",
    "fork": (
        "import os\npid = os.fork()\nif pid == 0:\n    print('child', os.getppid() == os.getsid(0))\n"
        "    os._exit(0)\nos.waitpid(pid, 0)\nprint('parent')"
    ),
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 1\nprint(asyncio.run(f()))",
    "faulthandler": "import faulthandler\nfaulthandler.dump_traceback()\nprint(faulthandler.is_enabled())",
    "logging": "import logging\nlogging.warning('w')\nprint(logging.root.handlers)",
    "argparse": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x')\np.parse_args(['--y'])",
    "temporary": "import tempfile, os\nwith tempfile.TemporaryDirectory() as d: print(os.path.isdir(d))",
    "sleep and time": "import time\nprint(time.process_time() < 5, time.get_clock_info('time').adjustable)",
}
"""By how they end, or what they do on the way: each a script of its own."""

_TASK = """
import multiprocessing as mp, os, sys
class Thing:
    def __init__(self, n): self.n = n
def work(thing):
    return thing.n * 2, __name__, mp.current_process().name, mp.parent_process().name
if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        print(pool.map(work, [Thing(1), Thing(2)]))
    process = context.Process(target=print, args=("in a process",))
    process.start()
    process.join()
    print(process.exitcode, mp.current_process().name, mp.get_start_method())
"""

PROCESSES = dict.fromkeys(("fork", "spawn", "forkserver"), _TASK)

PRELOADED = "json,random,socket,decimal,multiprocessing.pool,logging.handlers,asyncio"

_GUARD = 'if __name__ == "__main__":\n    main()\n'

TORCH: dict[str, str] = {
    "numbers": (
        "import torch\nimport numpy as np\nprint(torch.rand(3).shape, torch.get_num_threads(),"
        " torch.get_num_interop_threads())\ntorch.manual_seed(1)\nnp.random.seed(1)\n"
        "print(torch.rand(2), np.random.rand(2), torch.__config__.parallel_info()[:200])\n"
        "a = torch.rand(300, 300)\nprint((a @ a).sum(), np.linalg.norm(a.numpy() @ a.numpy()))\n"
        "print(torch.cuda.is_available(), torch.cuda._is_in_bad_fork(), 'fine')"
    ),
    "threads": (
        "import torch\ntorch.set_num_threads(3)\na = torch.rand(700, 700)\n"
        "print((a @ a).shape, a.sum().backward.__name__, torch.get_num_threads(), 'fine')"
    ),
    "all-reduce": (
        "import torch\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "t = torch.ones(5) * dist.get_rank()\ndist.all_reduce(t)\nprint(t, 'fine')\n"
        "dist.barrier()\ndist.destroy_process_group()"
    ),
    "data loader": (
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "class Twice(TensorDataset):\n    def __getitem__(self, i):\n"
        "        return super().__getitem__(i)[0] * 2\n"
        "def main():\n    for m in ('fork', 'spawn'):\n"
        "        data = Twice(torch.arange(6))\n"
        "        loader = DataLoader(data, 2, num_workers=2, multiprocessing_context=m)\n"
        "        print([batch.tolist() for batch in loader])\n    print('fine')\n" + _GUARD
    ),
    "spawn": (
        "import torch\nimport torch.multiprocessing as mp\n"
        "def work(i, t):\n    t += 1\n"
        "def main():\n    t = torch.zeros(3).share_memory_()\n"
        "    mp.spawn(work, (t,), nprocs=2)\n    print(t, 'fine')\n" + _GUARD
    ),
    "compile": (
        "import torch\n@torch.compile(backend='eager')\ndef f(x):\n    return x.sin() + 1\n"
        "print(f(torch.zeros(3)), 'fine')"
    ),
    "autograd": (
        "import torch\ntorch.manual_seed(1)\nx = torch.ones(3, requires_grad=True)\n(x * x).sum().backward()\n"
        "m = torch.nn.Linear(3, 2)\no = torch.optim.AdamW(m.parameters())\nm(x).sum().backward()\n"
        "o.step()\nprint(x.grad, 'fine')"
    ),
    "deepspeed": (
        "import torch\nimport deepspeed\nimport os\n"
        "print(os.environ['PYTORCH_NVML_BASED_CUDA_CHECK'], deepspeed.get_accelerator(), 'fine')"
    ),
    "transformers": (
        "from accelerate import Accelerator\nfrom transformers import Trainer, TrainingArguments\n"
        "import os\nprint(Accelerator(cpu=True).num_processes, Trainer.__module__, 'fine')\n"
        "print(sorted(name for name in os.environ if 'ACCEL' in name or 'TORCH' in name))"
    ),
    "exception": "import torch\nprint('fine')\ntorch.rand(3) @ torch.rand(4)",
}
"""What is heavy; each says that it is fine."""
