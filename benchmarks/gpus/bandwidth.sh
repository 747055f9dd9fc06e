#!/usr/bin/env bash
# All-reduce over two GPUs and the links between them, as zlaunch sees them and as nvidia-smi does.
# Usage: benchmarks/gpus/bandwidth.sh RESULTS_DIR     (python3 with torch and what zlaunch needs)
set -u
out=$1; mkdir -p "$out"
here=$(cd "$(dirname "$0")/../.." && pwd); cd "$here"
export PYTHONPATH=$here:${PYTHONPATH-}
export ZLAUNCH_HOME; ZLAUNCH_HOME=$(mktemp -d)
step() { printf '\n=== %s\n' "$1"; }
links=$(mktemp --suffix .py); table=$(mktemp --suffix .py)
cat > "$links" <<'P'
import json
from zlaunch.system.gpu_links import gpu_links
found = gpu_links([0, 1])
print(json.dumps(found and found.to_json(), indent=1))
print("findings:", found and found.findings())
P
cat > "$table" <<'P'
import os, time
from zlaunch.cli.bandwidth import measure
from zlaunch.cli.bandwidth_table import print_bandwidth
from zlaunch.cli.find_place import find_place
from zlaunch.cli.request import Request
from zlaunch.system.gpu_links import gpu_links
begun = time.monotonic()
with find_place(Request("", num_gpus=2), os.environ, gather=None) as place:
    done = measure(place, os.environ)
print_bandwidth(done.bandwidth, {place.hosts[0].name: gpu_links([0, 1])})
print("failure:", done.failure, "after %.1f s" % (time.monotonic() - begun))
P
{
step "links, by NVML"; python3 "$links"; echo "exit $?"
step "links, by nvidia-smi"; nvidia-smi topo -m; nvidia-smi nvlink -s | head -24
nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max --format=csv
step "all-reduce over 2 GPUs"
( time timeout 180 python3 -m zlaunch run --num-gpus 2 --recipe ddp zlaunch/workers/all_reduce.py; echo "exit $?" ) 2>&1
step "one GPU has nothing to measure"
timeout 180 python3 -m zlaunch run --num-gpus 1 --recipe ddp zlaunch/workers/all_reduce.py; echo "exit $?"
step "the same without NVLink (NCCL_P2P_DISABLE=1)"
NCCL_P2P_DISABLE=1 timeout 180 python3 -m zlaunch run -q --num-gpus 2 --recipe ddp zlaunch/workers/all_reduce.py; echo "exit $?"
step "as the measurement shows it"; timeout 240 python3 "$table"; echo "exit $?"
step "a rank that hangs: ended by the time-out of the collective (here 10 s)"
hang=$(mktemp --suffix .py)
sed -e 's/timedelta(seconds=60)/timedelta(seconds=10)/' \
  -e 's/^    once(probe, handle)  # connects/    time.sleep(600 * meeting.rank)\n&/' zlaunch/workers/all_reduce.py > "$hang"
( time timeout 180 python3 -m zlaunch run -q --num-gpus 2 --recipe ddp "$hang"; echo "exit $?" ) 2>&1 | tail -40
step "left behind"; pgrep -af all_reduce || echo nothing; nvidia-smi --query-compute-apps=pid,name --format=csv
} > "$out/bandwidth.txt" 2>&1
