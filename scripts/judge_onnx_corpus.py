#!/usr/bin/env python3
"""Judges models that torch.onnx has made of exported programs: `slipway convert MODEL.onnx` to a library and to ONNX
again, run on the cases' inputs beside the saved outputs.

    judge_onnx_corpus.py CASES MODELS [--slipway FILE] [--to so,onnx] [--match RE] [--jobs N]

CASES has NAME.pt2 with NAME.safetensors beside it (input.N, output.N; input2.N, output2.N of other sizes). MODELS keeps
NAME.onnx from one run to the next. Where torch.onnx's model itself gives something else, by ONNX Runtime, that counts
as what is wanted. Prints what is not right, then how many were right, wrong, refused (by cause) and failed; exit code 1
where one is wrong.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE = {"float64": (1e-6, 1e-7), "float32": (1e-4, 3e-5), "float16": (1e-2, 5e-3), "bfloat16": (4e-2, 2e-2)}


def export(case, model):
    """torch.onnx's model of a case, made in a process of its own. False where it makes none."""
    note = model.with_suffix(".none")
    if model.exists() or note.exists():
        return model.exists()
    code = (
        "import sys, torch; torch.set_num_threads(1); p = torch.export.load(sys.argv[1]);"
        "torch.onnx.export(p, dynamo=True, verbose=False).save(sys.argv[2], external_data=False)"
    )
    part = model.with_suffix(".part")
    try:
        ran = subprocess.run([sys.executable, "-c", code, case, part], capture_output=True, text=True, timeout=300)
        why = "" if ran.returncode == 0 else ran.stderr.strip()
    except subprocess.TimeoutExpired:
        why = "no end in 300 s"
    if why or not part.exists():
        note.write_text(why)
        return False
    part.rename(model)
    return True


def sets_of(case):
    """The case's sets: tensors of inputs and of outputs."""
    from safetensors.torch import load_file

    data = load_file(case.with_suffix(".safetensors"))

    def values(kind):
        numbers = sorted(int(k.split(".")[1]) for k in data if k.startswith(kind + "."))
        return [data[f"{kind}.{n}"] for n in numbers]

    return [
        (values(f"input{s}"), values(f"output{s}")) for s in ("", "2") if any(k.startswith(f"output{s}.") for k in data)
    ]


def difference(got, wanted):
    """None where they are equal within the type's tolerance."""
    import torch

    if len(got) != len(wanted):
        return f"{len(got)} outputs instead of {len(wanted)}"
    for i, (g, w) in enumerate(zip(got, wanted)):
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"output {i}: {g.dtype} {list(g.shape)} instead of {w.dtype} {list(w.shape)}"
        if w.is_complex():
            g, w = torch.view_as_real(g.resolve_conj()), torch.view_as_real(w.resolve_conj())
        if not w.is_floating_point():
            if not torch.equal(g, w):
                return f"output {i}: {int((g != w).sum())} of {w.numel()} integers differ"
            continue
        rtol, atol = TOLERANCE.get(str(w.dtype).split(".")[1], (1e-1, 1e-1))
        g, w = g.double(), w.double()
        finite = w[w.isfinite()]
        rms = finite.square().mean().sqrt().item() if finite.numel() else 1.0
        if not torch.allclose(g, w, rtol, atol * rms + 1e-9, equal_nan=True):
            return f"output {i}: differs by {(g - w).abs().nan_to_num(9e9).max().item():.3g}, rms {rms:.3g}"
    return None


def by_onnxruntime(model, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    if len(names) != len(inputs):
        raise ValueError(f"the model has {len(names)} inputs, the case {len(inputs)}")
    out = session.run_with_ort_values([o.name for o in session.get_outputs()],
                                      {n: ort_value(x) for n, x in zip(names, inputs)})  # fmt: skip
    return [tensor_of(x) for x in out]


def onnx_types():
    """ONNX's numbers of torch's types."""
    import onnx
    import torch

    t = onnx.TensorProto
    return {
        torch.float32: t.FLOAT, torch.float64: t.DOUBLE, torch.float16: t.FLOAT16, torch.bfloat16: t.BFLOAT16,
        torch.float8_e4m3fn: t.FLOAT8E4M3FN, torch.float8_e5m2: t.FLOAT8E5M2, torch.bool: t.BOOL,
        torch.int8: t.INT8, torch.int16: t.INT16, torch.int32: t.INT32, torch.int64: t.INT64, torch.uint8: t.UINT8,
        torch.uint16: t.UINT16, torch.uint32: t.UINT32, torch.uint64: t.UINT64,
    }  # fmt: skip


def ort_value(x):
    """A tensor for ONNX Runtime, of a type that NumPy has not, too."""
    import onnxruntime
    import torch

    x = x.contiguous()
    if x.dtype == torch.bfloat16 or str(x.dtype).startswith("torch.float8"):
        bits = x.view(torch.int16 if x.dtype == torch.bfloat16 else torch.uint8).numpy()
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx_types()[x.dtype])
    return onnxruntime.OrtValue.ortvalue_from_numpy(x.numpy())


def tensor_of(value):
    import ctypes
    import math

    import torch

    [dtype] = [t for t, number in onnx_types().items() if number == value.element_type()]
    shape = value.shape()
    size = math.prod(shape) * dtype.itemsize
    if size == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(ctypes.string_at(value.data_ptr(), size)), dtype=dtype).reshape(shape)


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.startswith("error")] or text.strip().splitlines()
    return lines[0][:300] if lines else "said nothing"


def judge(slipway, model, kind, sets):
    from safetensors.torch import load_file, save_file

    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / f"m.{kind}"
        made = subprocess.run([slipway, "convert", model, "-o", out, "-q"], capture_output=True, text=True, timeout=300)
        if made.returncode != 0:
            return ("refused" if made.returncode == 4 else "failed"), last_line(made.stderr)
        for inputs, wanted in sets:
            try:
                if kind == "onnx":
                    got = by_onnxruntime(out, inputs)
                else:
                    save_file({f"input.{i}": x.contiguous() for i, x in enumerate(inputs)}, f"{work}/in.st")
                    command = [slipway, "run", out, "--inputs", f"{work}/in.st", "--outputs", f"{work}/out.st"]
                    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
                    if ran.returncode != 0:
                        return ("refused" if ran.returncode == 4 else "failed"), "run: " + last_line(ran.stderr)
                    result = load_file(f"{work}/out.st")
                    got = [result[f"output.{i}"] for i in range(len(result))]
            except Exception as e:
                why = f"run: {last_line(str(e))}"
                try:
                    by_onnxruntime(model, inputs)
                except Exception:  # bfloat16, of which its processors' kernels are few
                    return "skipped", f"nor does torch.onnx's model {why}"
                return "failed", why
            why = difference(got, wanted)
            if why:
                try:
                    theirs = by_onnxruntime(model, inputs)
                except Exception as e:
                    return "skipped", f"torch.onnx's model does not run: {last_line(str(e))}"
                if difference(theirs, wanted) is None or difference(got, theirs) is not None:
                    return "wrong", why
    return "right", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--slipway", default=os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway")))
    parser.add_argument("--to", default="so,onnx")
    parser.add_argument("--match", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only-export", action="store_true")
    options = parser.parse_args()
    options.models.mkdir(parents=True, exist_ok=True)
    cases = [c for c in sorted(options.cases.glob("*.pt2")) if re.search(options.match, c.name)]

    def work(case):
        model = options.models / f"{case.stem}.onnx"
        try:
            if not export(case, model):
                return {}
            if options.only_export:
                return {}
            sets = sets_of(case)
            return {kind: judge(options.slipway, model, kind, sets) for kind in options.to.split(",")}
        except Exception as e:
            return {"": ("failed", f"{type(e).__name__}: {e}")}

    counts, causes = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, results in zip(cases, pool.map(work, cases)):
            if not results:
                counts["no model by torch.onnx"] += 1
            for kind, (result, why) in results.items():
                counts[f"{kind} {result}"] += 1
                if result == "refused":
                    causes[re.sub(r" \(node '.*?'\)", "", why)] += 1
                if result != "right":
                    print(f"{kind} {result} {case.stem}: {why}", flush=True)
    for why, count in causes.most_common():
        print(f"refused {count}: {why}")
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())), "of", len(cases))
    return 1 if any("wrong" in c for c in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
