#!/usr/bin/env python3
"""`slipway quantize` beside torchao's quantize_: CPU seconds a GB of weights on one thread, and memory.

slipway reads and writes files; torchao's time is that of the call alone, on a model that is in memory, so that it is
favoured. Each library runs in its own process, in turns.

    python scripts/bench_quantize.py [--gb 2] [--dtypes bf16,f32] [--memory-gb 8] [--rounds 3] [--folder FOLDER]
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLIPWAY = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
SIDE = 4096

# Short names, and what makes the same with torchao; None where torchao has no way on a CPU.
CONFIGS = {
    "int8-weight-only": "ao.Int8WeightOnlyConfig(version=2)",
    "int8-weight-only:group=128": "ao.Int8WeightOnlyConfig(version=2, granularity=PerGroup(128))",
    "int8-dynamic": "ao.Int8DynamicActivationInt8WeightConfig(version=2)",
    "8da4w": "ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))",
    "int4-weight-only:group=128": "Int4(group_size=128)",
    "float8-weight-only": "ao.Float8WeightOnlyConfig(version=2)",
    "mxfp8": "MX()",
    "mxfp4": None,
    "nvfp4": "NVFP4()",
    "intx:bits=4,group=32,hqq": "ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32), "
    "intx_choose_qparams_algorithm=HQQ)",
    "int4-weight-only:group=128,hqq": "Int4(group_size=128, int4_choose_qparams_algorithm=Int4HQQ)",
}
# The slow ones of torchao are timed on one matrix.
SLOW = {"intx:bits=4,group=32,hqq", "int4-weight-only:group=128,hqq"}

TORCHAO = """
import sys, time, warnings, logging
warnings.filterwarnings("ignore"); logging.disable(logging.CRITICAL)
import torch, torchao.quantization as ao
from safetensors.torch import load_file
from torchao.prototype.mx_formats import MXDynamicActivationMXWeightConfig as MX, NVFP4WeightOnlyConfig as NVFP4
from torchao.prototype.quantization.int4 import PrototypeInt4WeightOnlyConfig as Int4
from torchao.quantization.granularity import PerGroup
from torchao.quantization.quantize_.workflows import Int4ChooseQParamsAlgorithm, IntxChooseQParamsAlgorithm
HQQ, Int4HQQ = IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY, Int4ChooseQParamsAlgorithm.HQQ
torch.set_num_threads(1)
weights = list(load_file(sys.argv[1]).values())[: int(sys.argv[3])]
model = torch.nn.Sequential()
for w in weights:
    layer = torch.nn.Linear(w.shape[1], w.shape[0], bias=False, device="meta")
    layer.weight = torch.nn.Parameter(w, requires_grad=False)
    model.append(layer)
size = sum(w.nbytes for w in weights) / 1e9
start = time.process_time()
ao.quantize_(model, eval(sys.argv[2]))
print((time.process_time() - start) / size)
"""


def make(path, gigabytes, dtype):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    kind = {"bf16": torch.bfloat16, "f32": torch.float32}[dtype]
    base = torch.randn(SIDE, SIDE) * 0.02
    count = round(gigabytes * 1e9 / (SIDE * SIDE * kind.itemsize))
    save_file(
        {f"layers.{i}.proj.weight": (torch.roll(base, 17 * i, 0) * (1 + i / 100)).to(kind) for i in range(count)}, path
    )
    return count * SIDE * SIDE * kind.itemsize / 1e9


def slipway(source, out, config, threads=1):
    """CPU seconds, and the most resident memory, in MB: as slipway says, since the system counts the parent's to the
    child."""
    command = [SLIPWAY, "quantize", str(source), "-o", str(out), "--config", config, "--threads", str(threads)]
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(command, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        said.seek(0)
        text = said.read()
    if status:
        sys.exit(f"slipway quantize --config {config} failed: {text}")
    return usage.ru_utime + usage.ru_stime, float(re.search(r"peak ([0-9.]+) MB", text)[1])


def torchao(source, config, layers):
    done = subprocess.run(
        [sys.executable, "-c", TORCHAO, str(source), config, str(layers)], capture_output=True, text=True
    )
    return float(done.stdout) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--dtypes", default="bf16,f32")
    parser.add_argument(
        "--memory-gb", type=float, default=0, help="also the memory that a checkpoint of this size takes"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--configs", default="", help="only these, with spaces between")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    bench_build.flags(parser)
    settings = parser.parse_args()
    bench_build.announce(SLIPWAY, settings.record)
    out = settings.folder / "bench_quantized.safetensors"
    chosen = settings.configs.split() or list(CONFIGS)
    for dtype in settings.dtypes.split(","):
        source = settings.folder / f"bench_{dtype}.safetensors"
        size = make(source, settings.gb, dtype)
        print(
            f"{dtype}, {size:.2f} GB, one thread: CPU s/GB, least of {settings.rounds}; ratio; slipway's peak memory "
            f"in MB"
        )
        for config in chosen:
            ours, theirs, memory = [], [], 0
            for _ in range(settings.rounds):
                seconds, memory = slipway(source, out, config)
                ours.append(seconds / size)
                if CONFIGS[config]:
                    theirs.append(torchao(source, CONFIGS[config], 1 if config in SLOW else 4))
            theirs = [t for t in theirs if t is not None]
            bench_build.record(
                f"{dtype} {config}",
                slipway_s_per_gb=min(ours),
                torchao_s_per_gb=min(theirs, default=None),
                slipway_peak_bytes=memory * 1e6,
            )
            other = f"{min(theirs):7.2f}  {min(theirs) / min(ours):6.1f}x" if theirs else "refused        "
            print(f"  {config:32} {min(ours):6.2f}  {other}  {memory:6.0f}", flush=True)
        source.unlink()
    if settings.memory_gb:
        source = settings.folder / "bench_large.safetensors"
        size = make(source, settings.memory_gb, "bf16")
        for config in chosen:
            print(
                f"  {size:.1f} GB, {config:32} peak {slipway(source, out, config, os.cpu_count())[1]:.0f} MB",
                flush=True,
            )
        source.unlink()
    out.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
