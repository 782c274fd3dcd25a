#!/usr/bin/env python3
"""How far quantized weights take MiniLM's sentence embeddings from the float model's: mean of 1 - cosine.

64 sentences calibrate, 120 others evaluate; all are made from templates, one narrow kind of text. The 36 linear layers
of the encoder are quantized by slipway (tests/tools); torch runs the model with the numbers that the codes stand for.

    python scripts/bench_quantize_accuracy.py [CONFIG ...]
"""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import bench_build
import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "samples"))
import make_minilm  # noqa: E402
import minilm_similarity  # noqa: E402

# Configurations, and what 1 - cosine must not exceed.
TARGETS = {
    "int8-weight-only": 4e-4,
    "int4-weight-only:group=32": None,
    "int4-weight-only:group=128": None,
    "awq(int4-weight-only:group=32)": 1.6e-2,
    "awq(int4-weight-only:group=128)": None,
    "gptq(int4-weight-only:group=128)": 9e-3,
    "gptq(int4-weight-only:group=32)": None,
    "gptq(int8-weight-only)": None,
}
BUILD = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway")).parent
MINILM = pathlib.Path(os.environ.get("MINILM", ROOT / "build" / "deps" / "minilm"))

SUBJECTS = """the old sailor|a young doctor|my neighbour|the finance minister|our new colleague|a stray dog|the museum
guide|the chess player|a tired student|the orchestra|an engineer from Oslo|the bakery on the corner|a group of
tourists|the night train|the research team""".replace("\n", " ").split("|")
VERBS = """repaired|described|forgot about|carefully measured|was surprised by|argued over|painted a picture
of|published a report on|waited two hours for|finally understood|lost interest in|paid far too much for""".replace(
    "\n", " "
).split("|")
OBJECTS = """the broken engine|the price of bread|a letter from home|the results of the election|an unusual kind of
mushroom|the storm that hit the coast|a new treatment for asthma|the history of the harbour|the neural network|a
wooden bridge across the river|the final match of the season|yesterday's weather forecast""".replace("\n", " ").split(
    "|"
)
ENDINGS = [
    ".",
    " last summer.",
    " before breakfast.",
    ", although nobody had asked.",
    " in a small town near the border.",
    "!",
]


def sentences():
    """64 sentences to calibrate with and 120 to evaluate with, none of them twice."""
    parts = random.Random(0)
    made = {}
    while len(made) < 184:
        text = f"{parts.choice(SUBJECTS)} {parts.choice(VERBS)} {parts.choice(OBJECTS)}{parts.choice(ENDINGS)}"
        made[text[0].upper() + text[1:]] = None
    made = list(made)
    return made[:64], made[64:]


def call(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", metavar="CONFIG", default=list(TARGETS))
    bench_build.flags(parser)
    args = parser.parse_args()
    bench_build.announce(BUILD / "slipway", args.record)
    vocabulary = {line.rstrip("\n"): i for i, line in enumerate((MINILM / "vocab.txt").open(encoding="utf-8"))}
    weights = load_file(MINILM / "model.safetensors")
    model = make_minilm.MiniLM().eval()
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    layers = [name for name in model.state_dict() if re.fullmatch(r"encoder\..*(query|key|value|dense)\.weight", name)]
    calibration, evaluation = sentences()
    tokens = [torch.from_numpy(t) for t in minilm_similarity.tokenize(evaluation, vocabulary)]

    @torch.no_grad()
    def embed():
        return model(*tokens)["sentence_embedding"]

    wanted = embed()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        call(
            BUILD / "slipway",
            "convert",
            ROOT / "samples/minilm.pt2",
            "--weights",
            MINILM / "model.safetensors",
            "-o",
            folder / "model.pt2",
        )
        samples = {}
        for i, s in enumerate(calibration):
            for j, t in enumerate(minilm_similarity.tokenize([s], vocabulary)):
                samples[f"sample{i}.input.{j}"] = torch.from_numpy(t)
        save_file(samples, folder / "calibration.safetensors")
        save_file({name: weights[name] for name in layers}, folder / "weights.safetensors")
        print(f"{len(layers)} layers\n{'configuration':36}{'1 - cos':>10}{'least cos':>11}{'seconds':>9}  target")
        for config in args.configs:
            begin, out = time.monotonic(), folder / "out.safetensors"
            if "(" in config:
                call(
                    BUILD / "calibrate_weights",
                    config,
                    folder / "model.pt2",
                    folder / "calibration.safetensors",
                    out,
                    "weight=encoder.",
                    f"threads={os.cpu_count()}",
                )
            else:
                call(BUILD / "quantize_tensor", config, folder / "weights.safetensors", out)
            seconds = time.monotonic() - begin
            made = load_file(out)
            with torch.no_grad():
                for name in layers:
                    model.get_parameter(name).copy_(
                        made[f"{name}.dequant"] * made.get(f"{name}.act_pre_scale", torch.ones(1))
                    )
            cosine = (embed() * wanted).sum(-1)
            bench_build.record(
                config, os.cpu_count(), slipway_error=(1 - cosine).mean().item(), slipway_quantize_s=seconds
            )
            target = TARGETS.get(config)
            verdict = (
                "" if target is None else f"{target:.1e} {'reached' if (1 - cosine).mean() <= target else 'MISSED'}"
            )
            print(f"{config:36}{(1 - cosine).mean():10.2e}{cosine.min():11.5f}{seconds:9.1f}  {verdict}", flush=True)


if __name__ == "__main__":
    main()
