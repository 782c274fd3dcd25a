#!/usr/bin/env python3
"""Static exports made dynamic: the families of tests/interop/sized_models.py, each exported at two sizes and run at a
third.

    python scripts/unify_models.py [--slipway build/slipway] [--match RE]

For each model: `one`, `convert --dynamic auto` of the first export; `two`, `shapes A --unify B`. Each as ONNX
(onnxruntime), native library and PT2 archive (torch), compared with the module at the third sizes. A line says what
became of the inputs' dimensions.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "interop")]

import onnxruntime
import torch
from diagnostics import cause
from safetensors.torch import load_file, save_file
from sized_models import MODELS, export


def flat(result):
    return torch.utils._pytree.tree_leaves(result)[0]


def run(path, inputs, folder, slipway):
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return torch.from_numpy(session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)})[0])
    if path.suffix == ".pt2":
        return flat(torch.export.load(str(path)).module()(*inputs))
    save_file({f"input.{i}": x.contiguous() for i, x in enumerate(inputs)}, str(folder / "in.safetensors"))
    subprocess.run(
        [
            slipway,
            "run",
            str(path),
            "--inputs",
            str(folder / "in.safetensors"),
            "--outputs",
            str(folder / "out.safetensors"),
        ],
        check=True,
        capture_output=True,
    )
    return load_file(str(folder / "out.safetensors"))["output.0"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--match", default="")
    args = parser.parse_args()
    failed = 0
    for name, (make, inputs, sizes) in MODELS.items():
        if not re.search(args.match, name):
            continue
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            folder = pathlib.Path(folder)
            module = export(name, folder / "a.pt2", sizes[0])
            export(name, folder / "b.pt2", sizes[1])
            arguments = inputs(*sizes[2])
            expected = module(*arguments)
            expected = flat(expected)
            for way, flags in ("one", ["--dynamic", "auto"]), ("two", ["--unify", str(folder / "b.pt2")]):
                shapes = subprocess.run(
                    [args.slipway, "shapes", str(folder / "a.pt2"), *flags, "--json"], capture_output=True, text=True
                )
                if shapes.returncode:
                    print(f"{name:12} {way}  {cause(shapes.stderr)}")
                    failed += 1
                    continue
                dims = json.loads(shapes.stdout)["programs"][0]["dims"]
                said = []
                for suffix in (".onnx", ".so", ".pt2"):
                    out = folder / f"{way}{suffix}"
                    done = subprocess.run(
                        [args.slipway, "convert", str(folder / "a.pt2"), *flags, "-o", str(out)],
                        capture_output=True,
                        text=True,
                    )
                    try:
                        if done.returncode:
                            raise RuntimeError(cause(done.stderr))
                        result = run(out, arguments, folder, args.slipway)
                        error = float((result - expected).abs().max())
                        good = result.shape == expected.shape and error < 1e-3
                        said.append(f"{suffix[1:]} {error:.0e}" if good else f"{suffix[1:]} WRONG {error:.0e}")
                        failed += not good
                    except Exception as e:
                        failed += 1
                        said.append(f"{suffix[1:]} {str(e).splitlines()[0][:150]}")
                inputs_shown = ", ".join(f"{d['input']}.{d['axis']}={d['size']}" for d in dims)
                print(f"{name:12} {way}  {'; '.join(said)}   {inputs_shown}", flush=True)
    print(f"{failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
