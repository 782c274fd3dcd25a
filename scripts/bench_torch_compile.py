#!/usr/bin/env python3
"""torch.compile(backend="slipway") beside torch eager and Inductor: models of timm and transformers, one image or text,
each library in a process of its own.

    python scripts/bench_torch_compile.py --package FOLDER [--threads 2] [--match RE] [--who eager slipway]
    [--seconds 3]

FOLDER is where `slipway` can be imported from: an installed wheel's site-packages, or a copy of
packaging/python/slipway with lib/libslipway.so.0 and bin/slipway in it. Models are those that timm and transformers
build (pip install timm transformers torchvision), with random weights; nothing is downloaded. Both compilers begin with
empty caches.

One line a case: milliseconds of a call of each (the least; processes take turns and are stopped while another one
runs), seconds of the first call with torch.compile, graphs that ran in eager mode, and the largest difference of the
result from eager's, relative to the largest number. Then the geometric means and the worst.
"""

import argparse
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import bench_build
from bench_process import least

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHO = ("eager", "inductor", "slipway")

TIMM = """
    resnet18 resnet50 mobilenetv2_100 mobilenetv3_large_100 efficientnet_b0 convnext_atto regnety_008 densenet121
    vit_tiny_patch16_224 swin_tiny_patch4_window7_224 mixer_s16_224 mobilevit_s
""".split()

# Transformers' models of a text: class, its configuration's class and sizes, length of the text.
TEXTS = {
    "BertModel": ("BertConfig", dict(num_hidden_layers=6, hidden_size=384, num_attention_heads=12), 128),
    "DistilBertModel": ("DistilBertConfig", dict(n_layers=4, dim=384, n_heads=6, hidden_dim=1536), 128),
    "RobertaForSequenceClassification": (
        "RobertaConfig",
        dict(num_hidden_layers=4, hidden_size=256, num_attention_heads=8, intermediate_size=1024, vocab_size=50265),
        64,
    ),
    "AlbertModel": ("AlbertConfig", dict(hidden_size=384, num_attention_heads=6, intermediate_size=1536), 128),
    "GPT2LMHeadModel": ("GPT2Config", dict(n_layer=4, n_embd=256, n_head=8, vocab_size=8000), 64),
    "LlamaForCausalLM": (
        "LlamaConfig",
        dict(
            num_hidden_layers=4,
            hidden_size=512,
            num_attention_heads=8,
            num_key_value_heads=4,
            intermediate_size=1376,
            vocab_size=8000,
        ),
        64,
    ),
    "Qwen2ForCausalLM": (
        "Qwen2Config",
        dict(
            num_hidden_layers=4,
            hidden_size=512,
            num_attention_heads=8,
            num_key_value_heads=2,
            intermediate_size=1376,
            vocab_size=8000,
        ),
        64,
    ),
    "T5EncoderModel": ("T5Config", dict(num_layers=4, d_model=256, d_ff=1024, num_heads=8, d_kv=32), 64),
}


def timm_case(name):
    import timm
    import torch

    size = 256 if name.startswith("mobilevit") else 224
    return timm.create_model(name, pretrained=False), (torch.randn(1, 3, size, size),), {}


def text_case(name):
    import torch
    import transformers

    config, sizes, length = TEXTS[name]
    config = getattr(transformers, config)(**sizes)
    ids = torch.randint(5, 1000, (1, length))
    extra = {"use_cache": False} if "CausalLM" in name or "LMHead" in name else {}
    return getattr(transformers, name)(config), (ids,), extra


def cases():
    return {f"timm {n}": lambda n=n: timm_case(n) for n in TIMM} | {n: lambda n=n: text_case(n) for n in TEXTS}


def tensors_of(result):
    import torch

    if isinstance(result, torch.Tensor):
        return [result]
    values = result.values() if isinstance(result, dict) else result if isinstance(result, (list, tuple)) else ()
    return [t for value in values for t in tensors_of(value)]


def work(who, name, threads):
    """The process of a library: compiles, says how long the first call took and how far its result is from eager's,
    then answers each line with the least seconds of a call."""
    import torch

    if who == "slipway":
        import slipway

        assert slipway.__file__
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net, args, kwargs = cases()[name]()
    net.eval()
    for parameter in net.parameters():  # heads that begin as zeros would hide what is wrong
        if not parameter.any():
            torch.nn.init.normal_(parameter.data, std=0.02)
    taken, answer = net, {}
    with torch.no_grad():
        want = tensors_of(net(*args, **kwargs))
        if who != "eager":
            options = {"threads": threads} if who == "slipway" else None
            taken = torch.compile(net, backend=who, options=options)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                begin = time.perf_counter()
                got = tensors_of(taken(*args, **kwargs))
                answer["compile_s"] = time.perf_counter() - begin
            answer["eager"] = [str(w.message)[:300] for w in caught if "slipway" in str(w.message)]
            answer["graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
            assert len(got) == len(want)
            answer["error"] = max(
                float((g.double() - w.double()).abs().max()) / max(1e-30, float(w.abs().max()))
                for g, w in zip(got, want)
            )
        print(json.dumps(answer), flush=True)
        for line in sys.stdin:
            print(json.dumps(least(lambda: taken(*args, **kwargs), float(line))), flush=True)


class Process:
    def __init__(self, who, name, threads, package, caches):
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(caches, "inductor"),
            "XDG_CACHE_HOME": os.path.join(caches, "user"),
            "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
        }
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work", who, name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        self.compiled = self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError((self._errors.read().strip() or "ended").splitlines()[-1])
        self._process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def least(self, seconds):
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self):
        self._process.kill()
        self._process.wait()


def measure(args, name, threads):
    """The least seconds of a call of each library, and what each said of its first call."""
    best, compiled, processes = {}, {}, {}
    with tempfile.TemporaryDirectory() as caches:
        try:
            for who in args.who:
                processes[who] = Process(who, name, threads, args.package, caches)
                compiled[who] = processes[who].compiled
            for turn in range(args.rounds):
                for who in args.who if turn % 2 == 0 else reversed(args.who):
                    seconds = processes[who].least(args.seconds / args.rounds)
                    best[who] = min(best.get(who, math.inf), seconds)
        finally:
            for process in processes.values():
                process.close()
    return best, compiled


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", help="folder that slipway is imported from; else where Python finds it")
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"), help="names the build in records")
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--match", default="", help="regular expression of cases")
    parser.add_argument("--who", nargs="+", default=list(WHO), choices=WHO)
    parser.add_argument("--seconds", type=float, default=3, help="for each library")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    bench_build.flags(parser)
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], args.work[1], int(args.work[2]))
    bench_build.announce(args.slipway, args.record)
    rows, failed = [], 0
    for name in cases():
        if not re.search(args.match, name):
            continue
        for threads in args.threads:
            try:
                best, compiled = measure(args, name, threads)
            except RuntimeError as e:
                failed += 1
                print(f"{name:34} {threads}T  failed: {e}", flush=True)
                continue
            bench_build.record(
                name,
                threads,
                **{f"{who}_s": t for who, t in best.items()},
                **{f"{who}_compile_s": c["compile_s"] for who, c in compiled.items() if c},
            )
            rows.append((best, compiled))
            shown = "  ".join(f"{who} {t * 1e3:8.3f}" for who, t in best.items())
            first = "  ".join(f"{who} {c['compile_s']:5.1f}" for who, c in compiled.items() if c)
            own = compiled.get("slipway", {})
            said = f"  {own['graphs']} graphs, {len(own['eager'])} eager, error {own['error']:.0e}" if own else ""
            print(f"{name:34} {threads}T  {shown} ms  first call {first} s{said}", flush=True)
            for text in own.get("eager", ()):
                print(f"    {text}", flush=True)
    for other in ("eager", "inductor"):
        both = [r for r in rows if other in r[0] and "slipway" in r[0]]
        if both:
            ratios = [best[other] / best["slipway"] for best, _ in both]
            print(f"{other} / slipway: geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}, {len(both)} cases")
            if other == "inductor":
                times = [c["slipway"]["compile_s"] / c["inductor"]["compile_s"] for _, c in both]
                print(f"first call, slipway / inductor: geometric mean {mean(times):.2f}, most {max(times):.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
