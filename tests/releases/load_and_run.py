"""Converts every case of a folder with slipway and runs it with the torch of this interpreter: see check.sh beside
this.

    python load_and_run.py SLIPWAY TARGET CASES SCRATCH
"""

import json
import pathlib
import subprocess
import sys
import warnings
import zipfile

import torch
from safetensors import safe_open
from torch.utils import _pytree as pytree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from diagnostics import cause  # noqa: E402

SLIPWAY, TARGET, CASES, SCRATCH = sys.argv[1:]
warnings.simplefilter("ignore")


def signature(path):
    """(kinds of inputs in flattened order, their constants, in_spec or None, kinds of outputs)"""
    with zipfile.ZipFile(path) as z:
        name = next(
            n
            for n in z.namelist()
            if n == "serialized_exported_program.json" or ("/models/" in n and n.endswith(".json"))
        )
        graph = json.loads(z.read(name))["graph_module"]

    def kind(arg):
        ((tag, value),) = [(t, v) for t, v in arg.items() if v is not None] or [("as_none", None)]
        if tag == "as_tensor":
            return "tensor", None
        if tag.startswith("as_sym") and "as_name" in value:
            return "number", None
        return "constant", None if tag == "as_none" else value

    inputs = []
    for spec in graph["signature"]["input_specs"]:
        if spec.get("constant_input"):
            inputs.append(("constant", kind(spec["constant_input"]["value"])[1]))
        elif spec.get("user_input"):
            inputs.append(kind(spec["user_input"]["arg"]))
    outputs = [kind(s["user_output"]["arg"])[0] for s in graph["signature"]["output_specs"] if s.get("user_output")]
    root = next((m for m in graph["module_call_graph"] if m["fqn"] == "" and m.get("signature")), None)
    return inputs, root and root["signature"]["in_spec"], outputs


def run(source, archive):
    inputs, in_spec, outputs = signature(source)
    with safe_open(str(source.with_suffix(".safetensors")), "pt") as f:
        names = set(f.keys())

        def numbered(stem):
            found = sorted(int(n.split(".")[1]) for n in names if n.split(".")[0] == stem and n.count(".") == 1)
            return [f.get_tensor(f"{stem}.{i}") for i in found]

        given, want = iter(numbered("input")), numbered("output")
    leaves = [c if k == "constant" else next(given).item() if k == "number" else next(given) for k, c in inputs]
    args, kwargs = pytree.tree_unflatten(leaves, pytree.treespec_loads(in_spec)) if in_spec else (tuple(leaves), {})
    with torch.no_grad():
        result = torch.export.load(str(archive)).module()(*args, **kwargs)
    got = [
        x if isinstance(x, torch.Tensor) else torch.tensor(x)
        for x, k in zip(pytree.tree_leaves(result), outputs)
        if k != "constant"
    ]
    assert len(got) == len(want), f"{len(got)} outputs, not {len(want)}"
    for g, w in zip(got, want):
        torch.testing.assert_close(g.to(w.dtype), w, rtol=1e-3, atol=1e-4, equal_nan=True)


passed = failed = 0
for source in sorted(pathlib.Path(CASES).rglob("*.pt2")):
    if not source.with_suffix(".safetensors").exists():
        continue
    archive = pathlib.Path(SCRATCH) / "case.pt2"
    try:
        subprocess.run(
            [SLIPWAY, "convert", source, "-o", archive, "--torch", TARGET, "--quiet"],
            check=True,
            capture_output=True,
            text=True,
        )
        run(source, archive)
        passed += 1
    except subprocess.CalledProcessError as error:
        failed += 1
        print(f"{source.stem}: convert: {cause(error.stderr)}", flush=True)
    except Exception as error:
        failed += 1
        print(
            f"{source.stem}: {type(error).__name__}: "
            f"{str(error).strip().splitlines()[0][:300] if str(error).strip() else ''}",
            flush=True,
        )
print(f"{passed} passed, {failed} failed", flush=True)
sys.exit(failed > 0)
