#!/usr/bin/env python3
"""A decoder of billions of parameters from a program without weights and a folder of shards to a quantized library:
time, memory and processor time of the conversion, time to open the library, time of a token and the share of the
memory's bandwidth that it reads weights at.

    python scripts/bench_large_model.py --slipway build/slipway --folder build/large [--config 8da4w] [--layers 32]

The model has Llama's sizes (8 B at 32 layers) and random weights; the folder gets program.pt2, model-*.safetensors with
their index, and model.so: about 22 GB for 8 B in bf16. What is there already is used again. Bandwidth is that of one
core that sums an array of 1 GiB, measured by the same process before and after.
"""

import argparse
import ctypes
import json
import pathlib
import re
import resource
import subprocess
import time

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.export import Dim, export

WIDTH, HEADS, KEPT, HIDDEN, WORDS, HEAD = 4096, 32, 8, 14336, 128256, 128
SHARD = 4 << 30


def repeat(x):
    return x[:, :, None].expand(-1, -1, HEADS // KEPT, -1, -1).flatten(1, 2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k = nn.Linear(WIDTH, KEPT * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, KEPT * HEAD, bias=False)
        self.o = nn.Linear(HEADS * HEAD, WIDTH, bias=False)

    def forward(self, x, turn, past):
        q, k, v = (f(x).unflatten(2, (-1, HEAD)).transpose(1, 2) for f in (self.q, self.k, self.v))
        k, v = torch.cat([past[0], k * turn], 2), torch.cat([past[1], v], 2)
        y = nn.functional.scaled_dot_product_attention(q * turn, repeat(k), repeat(v))
        return self.o(y.transpose(1, 2).flatten(2)), k, v


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = Attention()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, turn, past):
        y, k, v = self.attention(self.norm1(x), turn, past)
        x = x + y
        z = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(z)) * self.up(z)), k, v


class Decoder(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids, past):
        x, kept = self.embed(ids), []
        turn = (torch.arange(HEAD, device=ids.device) * 0.01 * past[0].shape[2]).cos().to(x.dtype)
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, turn, (past[2 * i], past[2 * i + 1]))
            kept += [k, v]
        return self.head(self.norm(x[:, -1:])), kept


def write_program(layers, path):
    with torch.device("meta"):
        model = Decoder(layers).to(torch.bfloat16).eval()
        past = [torch.zeros(1, KEPT, 7, HEAD, dtype=torch.bfloat16) for _ in range(2 * layers)]
        program = export(
            model,
            (torch.zeros(1, 1, dtype=torch.long), past),
            dynamic_shapes=({}, [{2: Dim.AUTO}] * (2 * layers)),
            strict=False,
        )
    torch.export.save(program, path)
    return {name: list(p.shape) for name, p in model.named_parameters()}


def write_shards(sizes, folder):
    """Numbers around 1 / sqrt(inputs), the same block again and again from another place on."""
    rng = np.random.default_rng(0)
    block = torch.from_numpy(rng.standard_normal(1 << 25, dtype=np.float32))
    shards, room = [[]], SHARD
    for name, shape in sizes.items():
        n = 2 * int(np.prod(shape))
        if n > room and shards[-1]:
            shards.append([])
            room = SHARD
        shards[-1].append((name, shape, n))
        room -= n
    where = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        header, at = {}, 0
        for name, shape, n in shard:
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
            where[name], at = file, at + n
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file, "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text)
            for number, (_name, shape, n) in enumerate(shard):
                scaled = (block * shape[-1] ** -0.5 if len(shape) > 1 else torch.ones_like(block)).bfloat16()
                scaled = scaled.roll(number * 4099).view(torch.uint8).numpy()
                for _ in range(n // scaled.nbytes):
                    f.write(scaled)
                f.write(scaled[: n % scaled.nbytes])
    index = {"metadata": {"total_size": sum(n for s in shards for _, _, n in s)}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def bandwidth():
    x = np.ones(1 << 27)
    best = min(timed(x.sum) for _ in range(5))
    return x.nbytes / best


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def convert(args, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [args.slipway, "convert", folder / "program.pt2", "--weights", folder, "--quantize", args.config]
    command += ["--state", "auto", "-o", folder / "model.so"]
    start = time.perf_counter()
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": wall,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
        "peak": re.search(r"peak ([\d.]+ .B)", said)[1],
        "library_bytes": (folder / "model.so").stat().st_size,
    }


def run(args, folder):
    save_file({"input.0": torch.zeros(1, 1, dtype=torch.long)}, folder / "token.safetensors")
    command = [args.slipway, "run", folder / "model.so", "--inputs", folder / "token.safetensors", "--outputs"]
    command += [folder / "out.safetensors", "--repeat", str(args.repeat), "--json", "--threads", str(args.threads)]
    seconds = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["run_s"]
    return {"token_s": min(seconds[1:])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slipway", default="build/slipway")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--config", default="8da4w")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=8)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if not (args.folder / "model.safetensors.index.json").exists():
        write_shards(write_program(args.layers, args.folder / "program.pt2"), args.folder)
    found = convert(args, args.folder)
    found["open_s"] = timed(lambda: ctypes.CDLL(str(args.folder / "model.so")))
    read = bandwidth()
    found |= run(args, args.folder)
    read = max(read, bandwidth())
    found["bandwidth_share"] = (
        (found["library_bytes"] - 2 * WORDS * WIDTH) / found["token_s"] / read
    )  # one row of the embedding
    found["bandwidth_gb_s"] = read / 1e9
    print(json.dumps(found))


if __name__ == "__main__":
    main()
