#!/usr/bin/env python3
"""Counts the inputs and outputs of converted programs that have the names the programs give them (onnx).

    scripts/check_onnx_names.py FOLDER [--slipway build/slipway]     # of .pt2; exit 1 where one is missed

An input is named by its placeholder, an output by the keys of the container that is returned (a dict, a named tuple, a
dataclass, transformers' ModelOutput), else by its node. ONNX's names are distinct, so a name that an input or an
earlier output has cannot be given again: those are counted apart.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import onnx


def leaves(spec, tuples, path=()):
    """The path of each leaf: keys and places."""
    if spec["type"] is None:
        return [path]
    children, keys = spec["children_spec"], None
    if spec["context"] in tuples:
        keys = tuples[spec["context"]]["field_names"]
    elif isinstance(context := json.loads(spec["context"]), (list, dict)):
        keys = context.get("dict_context") if isinstance(context, dict) else context
        if keys and len(keys) == 2 and isinstance(keys[0], list) and isinstance(keys[1], list):
            keys = keys[0]  # a dataclass: its fields, and those that are None
    if not keys or len(keys) != len(children):
        keys = range(len(children))
    return [leaf for key, child in zip(keys, children) for leaf in leaves(child, tuples, (*path, key))]


def named(path):
    """The path from its first key on."""
    while path and not isinstance(path[0], str):
        path = path[1:]
    return "_".join(map(str, path))


def wanted(archive):
    """Names of inputs and outputs that are values."""
    with zipfile.ZipFile(archive) as z:
        members = [
            n
            for n in z.namelist()
            if n == "serialized_exported_program.json" or re.search(r"(^|/)models/[^/]+\.json$", n)
        ]
        if len(members) != 1:
            return None
        module = json.loads(z.read(members[0]))["graph_module"]

    def name(arg):
        (value,) = arg.values()
        return value.get("name") or value.get("as_name") if isinstance(value, dict) else None

    signature = module["signature"]
    inputs = [name(s["user_input"]["arg"]) for s in signature["input_specs"] if "user_input" in s]
    outputs = [name(s["user_output"]["arg"]) for s in signature["output_specs"] if "user_output" in s]
    root = next((c for c in module["module_call_graph"] if c["fqn"] == "" and c.get("signature")), None)
    paths = (
        leaves(json.loads(root["signature"]["out_spec"])[1], module.get("treespec_namedtuple_fields") or {})
        if root
        else []
    )
    keys = [named(p) for p in paths] if len(paths) == len(outputs) else []
    given = [k for k, o in zip(keys, outputs) if k and o]
    if len(set(given)) == len(given):
        outputs = [o and (k or o) for k, o in zip(keys or outputs, outputs)]
    return [n for n in inputs if n], [n for n in outputs if n]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--slipway", default="build/slipway")
    args = parser.parse_args()
    counts = {"inputs": [0, 0], "outputs": [0, 0]}
    taken = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for archive in sorted(args.folder.rglob("*.pt2")):
            names = wanted(archive)
            out = pathlib.Path(folder) / "model.onnx"
            done = subprocess.run([args.slipway, "convert", str(archive), "-o", str(out)], capture_output=True)
            if not names or done.returncode != 0:
                refused += 1
                continue
            graph = onnx.load(str(out), load_external_data=False).graph
            seen = set()
            for kind, want, got in (("inputs", names[0], graph.input), ("outputs", names[1], graph.output)):
                if len(want) != len(got):
                    print(f"{archive.name}: {len(got)} {kind} for {len(want)}")
                    counts[kind][1] += len(want)
                    continue
                for name, value in zip(want, got):
                    if name in seen:
                        taken += 1
                        continue
                    seen.add(name)
                    counts[kind][1] += 1
                    counts[kind][0] += name == value.name
                    if name != value.name:
                        print(f"{archive.name}: {kind[:-1]} {name} is {value.name}")
    for kind, (right, total) in counts.items():
        print(f"{right} of {total} {kind} have the program's names")
    print(f"{taken} names are those of an input or an earlier output; {refused} programs are not converted or not read")
    return any(right != total for right, total in counts.values())


if __name__ == "__main__":
    sys.exit(main())
