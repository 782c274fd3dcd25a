#!/usr/bin/env python3
"""Native libraries beside torch eager, AOTInductor and ONNX Runtime: whole models, each library in a process of its own.

    python scripts/bench_native.py [--threads 1 2] [--match RE] [--kept FOLDER] [--aoti] [--minilm model.safetensors] [--seconds 1.5]

No library gets settings but its number of threads; SLIPWAY_ISA holds for slipway. Processes take turns, twice, and the least wall
time of a run counts. One line a case as it is measured: milliseconds of each, how many times as long the fastest of the others takes,
and the largest difference of slipway's result from torch's, relative to the largest number. Then all cases, the worst first.

Cases are those of bench_models.py and, where timm and transformers can be imported, programs that these build (pip install timm
transformers; their models get random weights, nothing is downloaded). --kept keeps what is exported and converted.
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "samples"), str(ROOT / "samples" / "native"), str(ROOT / "scripts")]

import numpy as np

# What timm builds, by family.
TIMM = """
    mobilenetv2_100 mobilenetv3_large_100 mobilenetv3_small_100 efficientnet_b0 efficientnet_lite0 ghostnet_100 lcnet_100 mnasnet_100
    resnext50_32x4d regnetx_008 regnety_008 repvgg_a0 mobileone_s1 convnext_atto edgenext_x_small tf_efficientnetv2_b0
    mobilevit_s levit_128 resnet50 vgg11_bn densenet121 hardcorenas_a mixer_s16_224 vit_small_patch16_224 poolformer_s12
""".split()


def timm_cases():
    try:
        import timm
        import torch
    except ImportError:
        print("timm is not installed (or not torchvision, which it needs): its programs are left out", file=sys.stderr)
        return {}

    def make(name):
        return lambda: (timm.create_model(name, pretrained=False), (torch.randn(1, 3, 256, 256) if name.startswith("mobilevit") else torch.randn(1, 3, 224, 224),))

    return {f"timm {name}": make(name) for name in TIMM}


def transformers_cases():
    try:
        import torch
        import transformers as tf
    except ImportError:
        print("transformers is not installed: its programs are left out", file=sys.stderr)
        return {}

    class Last(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, *x):
            return self.net(*x).last_hidden_state

    def bert():
        config = tf.BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
        ids = torch.randint(0, 30000, (1, 128))
        return Last(tf.BertModel(config, add_pooling_layer=False)), (ids, torch.ones_like(ids))

    def whisper():
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        return Last(WhisperEncoder(tf.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536))), (torch.randn(1, 80, 3000),)

    return {"text encoder, 6 layers of 384": bert, "audio encoder, 1500 positions": whisper}


def minilm(path):
    """MiniLM's cases: its real weights and the program that is checked in."""
    import torch

    def make(batch, length):
        from make_minilm import MiniLM
        from safetensors.torch import load_file

        net = MiniLM()
        net.load_state_dict(load_file(path), strict=False)
        ids = torch.randint(0, 30000, (batch, length))
        return net, (ids, torch.ones_like(ids))

    return {f"MiniLM ({b},{n})": lambda b=b, n=n: make(b, n) for b, n in ((1, 16), (1, 128), (8, 128))}


def everything(args):
    from bench_models import cases

    return cases() | timm_cases() | transformers_cases() | (minilm(args.minilm) if args.minilm else {})


def build(args, name):
    import torch

    torch.manual_seed(0)
    net, inputs = everything(args)[name]()
    return net.eval(), inputs


def flat(x):
    """The first tensor of a result."""
    import torch

    while not isinstance(x, torch.Tensor):
        x = next(iter(x.values())) if isinstance(x, dict) else x[0]
    return x


def prepare(args, name, net, inputs, base):
    """Files of one case: inputs and torch's result, the library, the ONNX model, AOTInductor's package."""
    import torch

    with torch.no_grad():
        np.savez(base.with_suffix(".npz"), *[t.numpy() for t in inputs], want=flat(net(*inputs)).numpy())
        archive, more = base.with_suffix(".pt2"), []
        if name.startswith("MiniLM"):
            archive, more = ROOT / "samples" / "minilm.pt2", ["--weights", args.minilm]
        elif not archive.exists():
            torch.export.save(torch.export.export(net, inputs), archive)
        for suffix in (".so", ".onnx"):
            subprocess.run([args.slipway, "convert", str(archive), *more, "-o", str(base.with_suffix(suffix))], check=True, capture_output=True)
        compiled = base.with_suffix(".aoti.pt2")
        if args.aoti and not compiled.exists():
            with torch._inductor.config.patch({"cpp.dynamic_threads": True}):
                torch._inductor.aoti_compile_and_package(torch.export.export(net, inputs), package_path=str(compiled))


def work(args):
    """The process of one library: prints the least time of a run, and for slipway the difference from torch's result."""
    base, threads = pathlib.Path(args.base), args.threads[0]
    data = np.load(base.with_suffix(".npz"))
    arrays, error = [data[f"arr_{i}"] for i in range(len(data.files) - 1)], 0.0
    if args.worker == "slipway":
        from model import Model

        native = Model(str(base.with_suffix(".so")))
        native.set_threads(threads)
        outputs = native(*arrays)
        error = float(np.abs(outputs[0] - data["want"]).max() / max(1e-30, np.abs(data["want"]).max()))
        run = native.bind(arrays, outputs)
    elif args.worker == "ort":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(base.with_suffix(".onnx")), options, providers=["CPUExecutionProvider"])
        feed = {i.name: a for i, a in zip(session.get_inputs(), arrays)}
        run = lambda: session.run(None, feed)  # noqa: E731
    else:
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        inputs = [torch.from_numpy(a) for a in arrays]
        net = torch._inductor.aoti_load_package(str(base.with_suffix(".aoti.pt2"))) if args.worker == "aoti" else build(args, args.case)[0]
        run = lambda: net(*inputs)  # noqa: E731
    for _ in range(3):
        run()
    best, end, count = float("inf"), time.perf_counter() + args.seconds, 0
    while time.perf_counter() < end or count < 3:
        begin = time.perf_counter()
        run()
        best, count = min(best, time.perf_counter() - begin), count + 1
    print(json.dumps({"best": best, "error": error}))


def measure(args, name, base, threads):
    """The least seconds of each library, and slipway's error."""
    best, error = {}, 0.0
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    for _ in range(2):
        for who in ("torch", "ort", *(["aoti"] if args.aoti else []), "slipway"):
            command = [sys.executable, __file__, "--worker", who, "--base", str(base), "--case", name, "--threads", str(threads), "--seconds", str(args.seconds)]
            if args.minilm:
                command += ["--minilm", args.minilm]
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode != 0:
                raise RuntimeError(f"{who}: {done.stderr.strip().splitlines()[-1]}")
            result = json.loads(done.stdout.splitlines()[-1])
            best[who] = min(best.get(who, float("inf")), result["best"])
            error = max(error, result["error"])
    return best, error


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--match", default="", help="regular expression of cases")
    parser.add_argument("--kept", metavar="FOLDER", help="keeps programs and packages there, and takes those that are there")
    parser.add_argument("--aoti", action="store_true", help="measure AOTInductor too: each package takes a compiler about a minute")
    parser.add_argument("--minilm", help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each process")
    for hidden in ("--worker", "--base", "--case"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args)
    cpu = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    print(f"{cpu[0]}, {len(os.sched_getaffinity(0))} processors")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in everything(args):
            if not re.search(args.match, name):
                continue
            base = pathlib.Path(args.kept or folder) / re.sub("[^A-Za-z0-9]+", "_", name)
            base.parent.mkdir(parents=True, exist_ok=True)
            prepare(args, name, *build(args, name), base)
            for threads in args.threads:
                best, error = measure(args, name, base, threads)
                ratio = min(t for who, t in best.items() if who != "slipway") / best["slipway"]
                shown = "  ".join(f"{who} {t * 1e3:8.3f}" for who, t in best.items())
                rows.append((ratio, threads, f"{name:34} {threads}T  {shown} ms  best/slipway {ratio:.2f}  err {error:.0e}"))
                print(rows[-1][2], flush=True)
    print("\nThe worst first:")
    for ratio, threads, line in sorted(rows):
        print(line)
    for threads in args.threads:
        r = [ratio for ratio, t, _ in rows if t == threads]
        if r:
            print(f"{threads} threads: geometric mean {math.exp(sum(map(math.log, r)) / len(r)):.2f}, least {min(r):.2f}, {len(r)} cases")


if __name__ == "__main__":
    main()
