#!/usr/bin/env python3
"""Native libraries beside torch eager, AOTInductor and ONNX Runtime: whole models, each library in a process of its
own.

    python scripts/bench_native.py [--threads 1 2] [--match RE] [--kept FOLDER] [--aoti] [--minilm model.safetensors]
    [--seconds 3]

Processes take turns (bench_process.py), and the least wall time of a run counts. One line a case as it is measured:
milliseconds of each, how many times as long the fastest of the others takes, and the largest difference of slipway's
result from torch's, relative to the largest number. Then all cases, the worst first.

Cases are those of bench_models.py and, where timm and transformers can be imported, programs that these build (pip
install timm transformers; their models get random weights, nothing is downloaded). --kept keeps what is exported and
converted.
"""

import argparse
import math
import os
import pathlib
import re
import sys
import tempfile
import warnings

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "samples"), str(ROOT / "scripts")]

from bench_process import Libraries, save

# What timm builds, by family.
TIMM = """
    mobilenetv2_100 mobilenetv3_large_100 mobilenetv3_small_100 efficientnet_b0 efficientnet_lite0 ghostnet_100
    lcnet_100 mnasnet_100 resnext50_32x4d regnetx_008 regnety_008 repvgg_a0 mobileone_s1 convnext_atto
    edgenext_x_small tf_efficientnetv2_b0 mobilevit_s levit_128 resnet50 vgg11_bn densenet121 hardcorenas_a
    mixer_s16_224 vit_small_patch16_224 poolformer_s12
""".split()


def timm_cases():
    try:
        import timm
        import torch
    except ImportError:
        print("timm is not installed (or not torchvision, which it needs): its programs are left out", file=sys.stderr)
        return {}

    def make(name):
        return lambda: (
            timm.create_model(name, pretrained=False),
            (torch.randn(1, 3, 256, 256) if name.startswith("mobilevit") else torch.randn(1, 3, 224, 224),),
        )

    return {f"timm {name}": make(name) for name in TIMM}


def transformers_cases():
    try:
        import torch
        import transformers as tf
    except ImportError:
        print("transformers is not installed: its programs are left out", file=sys.stderr)
        return {}

    from bench_models import LastHiddenState

    def bert():
        config = tf.BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
        ids = torch.randint(0, 30000, (1, 128))
        return LastHiddenState(tf.BertModel(config, add_pooling_layer=False)), (ids, torch.ones_like(ids))

    def whisper():
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        return LastHiddenState(
            WhisperEncoder(
                tf.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
            )
        ), (torch.randn(1, 80, 3000),)

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


def prepare(args, name, base):
    import torch

    torch.manual_seed(0)
    net, inputs = everything(args)[name]()
    program = {}
    if name.startswith("MiniLM"):
        program = {"archive": ROOT / "samples" / "minilm.pt2", "more": ["--weights", args.minilm]}
    save(base, net.eval(), inputs, args.slipway, aoti=args.aoti, **program)


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--match", default="", help="regular expression of cases")
    parser.add_argument(
        "--kept", metavar="FOLDER", help="keeps programs and packages there, and takes those that are there"
    )
    parser.add_argument(
        "--aoti", action="store_true", help="measure AOTInductor too: each package takes a compiler about a minute"
    )
    parser.add_argument("--minilm", help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--seconds", type=float, default=3, help="for each library")
    bench_build.flags(parser)
    args = parser.parse_args()
    bench_build.announce(args.slipway, args.record)
    cpu = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    print(f"{cpu[0]}, {len(os.sched_getaffinity(0))} processors")
    rows = []
    names = ["torch", "ort", *(["aoti"] if args.aoti else []), "slipway"]
    with tempfile.TemporaryDirectory() as folder:
        for name in everything(args):
            if not re.search(args.match, name):
                continue
            base = pathlib.Path(args.kept or folder) / re.sub("[^A-Za-z0-9]+", "_", name)
            base.parent.mkdir(parents=True, exist_ok=True)
            prepare(args, name, base)
            for threads in args.threads:
                with Libraries(names, threads) as libraries:
                    best, error = libraries.measure(base, args.seconds, rounds=6)
                bench_build.record(name, threads, **{f"{who}_s": t for who, t in best.items()})
                ratio = min(t for who, t in best.items() if who != "slipway") / best["slipway"]
                shown = "  ".join(f"{who} {t * 1e3:8.3f}" for who, t in best.items())
                rows.append(
                    (ratio, threads, f"{name:34} {threads}T  {shown} ms  best/slipway {ratio:.2f}  err {error:.0e}")
                )
                print(rows[-1][2], flush=True)
    print("\nThe worst first:")
    for ratio, threads, line in sorted(rows):
        print(line)
    for threads in args.threads:
        r = [ratio for ratio, t, _ in rows if t == threads]
        if r:
            print(
                f"{threads} threads: geometric mean {math.exp(sum(map(math.log, r)) / len(r)):.2f}, least "
                f"{min(r):.2f}, {len(r)} cases"
            )


if __name__ == "__main__":
    main()
