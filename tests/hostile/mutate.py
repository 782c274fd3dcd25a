#!/usr/bin/env python3
"""Mutants of what slipway reads, each given to its commands; what must never happen is counted, and kept with its
command.

    mutate.py --seed 1 --count 10000 --jobs 2 [--binary build/slipway] [--seeds FOLDER] [--commands onnx,so] [--kinds
    program] mutate.py --seed 1 --count 100000 --batch 50 --binary build/asan/slipway --mending build/slipway   # the C
    API, sanitized

Mutant N of a seed is the same in every run, so that `--first N --count 1` makes it again. It is a good file, changed in
a few places: the JSON of a program (sizes, dtypes, ranks, strides, arguments, nodes, names, keys, the bodies of cond,
while_loop and scan), the archive around it, a pickle's opcodes, a safetensors header, the index of a folder, the
payload of a native library, an ONNX model's messages, a text form. The good files come from FOLDER, which
mutate_seeds.py fills with torch where it is empty: models of many families, a program for each operator, checkpoints,
libraries. Nothing here imports torch.

A run of a command is a fault where it
  crashes            ends by a signal, or a sanitizer reports
  says a bug         exits 70
  says something odd an exit code that no file can cause (2, 5), no diagnostic, text that is not UTF-8 or holds escapes
  takes long         more than 5 s of a processor (50 s in a sanitized binary)
  takes memory       more than 4 times the input, 64 MB and what the binary takes for nothing (not looked at in a
  sanitized binary) leaves a part      a failure left files behind, or what a success wrote is no such file
Faults are told apart by what they say; the first of each lies in the folder --keep with the command that shows it.

Long because it holds the changes of every format that slipway reads.
"""

import argparse
import collections
import copy
import dataclasses
import functools
import hashlib
import io
import json
import multiprocessing
import os
import pathlib
import pickletools
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MB = 1 << 20
LIMIT_S, SANITIZED_LIMIT_S = 5, 50
MEMORY = 64 * MB
LIMIT_ADDRESSES = 8 << 30  # so that a mutant that asks for everything takes this process's machine from nobody
LIMIT_FILE = 1 << 30
LONGEST_SAID = 30000
MENDINGS = 12
INTS = (
    -1, 0, 1, 2, 3, 4, 5, 7, 8, 13, -2, -3, 64, 65, 255, 1000, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**60,
    2**61 - 1, 2**61,
    2**62, 2**63 - 1, -(2**63), 2**63, 10**30,
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.5, 0.5, 1e-300, 1e300, 2.0**63, "Infinity", "-Infinity", "NaN")
DTYPES = range(0, 45)  # numbers of torch's ScalarType, with some beyond
KEYS = ("as_int", "as_float", "as_bool", "as_string", "as_none", "as_tensor", "as_tensors", "as_ints", "as_floats",
 "as_bools",
        "as_strings", "as_sym_int", "as_sym_ints", "as_sym_bool", "as_sym_float", "as_scalar_type", "as_memory_format",
        "as_layout",
        "as_device", "as_graph", "as_optional_tensor", "as_optional_tensors", "as_custom_obj", "as_operator",
        "as_complex", "as_expr", "as_name", "as_hint",
        "as_nested_tensors", "as_int_lists", "as_string_to_argument")  # fmt: skip


# ---- the JSON of a program


def interesting(chance):
    return chance.choice(INTS) if chance.random() < 0.7 else chance.randrange(-4, 20)


def graphs_of(node, found):
    """Every graph in a document, bodies of higher-order operators too."""
    if isinstance(node, dict):
        if "nodes" in node and "tensor_values" in node:
            found.append(node)
        for value in node.values():
            graphs_of(value, found)
    elif isinstance(node, list):
        for value in node:
            graphs_of(value, found)
    return found


def places(node, found):
    """Every (container, key) of a document."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        found.append((node, key))
        if isinstance(node[key], (dict, list)):
            places(node[key], found)
    return found


def change_list(chance, values, fresh):
    """`values`, changed in place: fresh() makes another element."""
    at = chance.randrange(len(values) + 1)
    how = chance.randrange(7)
    if how == 0 and values:
        del values[min(at, len(values) - 1)]
    elif how == 1 or not values:
        values.insert(at, fresh())
    elif how == 2:
        values.append(copy.deepcopy(chance.choice(values)))
    elif how == 3:
        chance.shuffle(values)
    elif how == 4 and chance.random() < 0.3:
        del values[:]
    elif how == 5 and chance.random() < 0.3:
        values.extend([copy.deepcopy(values[-1])] * chance.choice((2, 8, 70)))
    else:
        values[min(at, len(values) - 1)] = fresh()


class Programs:
    """Edits of a program's JSON: methods that begin with `edit_` change the document in place."""

    def __init__(self, chance, root):
        self.chance, self.root = chance, root
        self.graphs = [
            g for g in graphs_of(root, []) if isinstance(g["nodes"], list) and isinstance(g["tensor_values"], dict)
        ]
        self.graph = chance.choice(self.graphs) if self.graphs else None

    def change(self):
        edits = (
            [self.edit_meta] * 5 + [self.edit_argument] * 6 + [self.edit_nodes] * 3 + [self.edit_results,
            self.edit_ends, self.edit_size_everywhere]
            + [self.edit_dtype_everywhere, self.edit_rank, self.edit_signature, self.edit_ranges, self.edit_anything,
            self.edit_size_of_value]
        )  # fmt: skip
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            if self.graphs and self.chance.random() < 0.5:
                self.graph = self.chance.choice(self.graphs)
            edit = self.chance.choice(edits) if self.graph else self.edit_anything
            try:
                edit()
            except (
                KeyError,
                IndexError,
                TypeError,
                AttributeError,
                ValueError,
            ):  # an edit before took away what this one wanted
                continue

    def change_beginnings(self):
        """What results follow from: inputs, their sizes and dtypes, and arguments. `mended` makes the results agree."""
        chance = self.chance
        for _ in range(chance.choice((1, 1, 2, 3))):
            if not self.graphs:
                return
            self.graph = self.root["graph_module"]["graph"] if chance.random() < 0.7 else chance.choice(self.graphs)
            edit = chance.choice([self.edit_input] * 4 + [self.edit_value] * 5 + [self.edit_argument, self.edit_target])
            try:
                edit()
            except (KeyError, IndexError, TypeError, AttributeError, ValueError):
                continue

    def edit_input(self):
        """A tensor that the graph is given, dense again afterwards."""
        chance = self.chance
        meta = self.graph["tensor_values"][
            chance.choice([i["as_tensor"]["name"] for i in self.graph["inputs"] if "as_tensor" in i])
        ]
        sizes = meta["sizes"]
        how = chance.randrange(6)
        if how == 0:
            meta["dtype"] = chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13))
        elif how == 1 and sizes:
            del sizes[chance.randrange(len(sizes))]
        elif how == 2:
            sizes.insert(chance.randrange(len(sizes) + 1), {"as_int": chance.choice((0, 1, 1, 2, 3))})
        elif how == 3 and chance.random() < 0.3:
            sizes[chance.randrange(len(sizes))] = self.size()
        else:
            sizes[chance.randrange(len(sizes))] = {"as_int": chance.choice((0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16))}
        step, strides = 1, []
        for size in reversed(sizes):
            strides.insert(0, {"as_int": min(step, 2**62)})
            step *= max(size.get("as_int", 1), 1)
        meta["strides"] = strides

    def edit_value(self):
        self.change_value(self.chance.choice(self.chance.choice(self.graph["nodes"])["inputs"])["arg"])

    def edit_target(self):
        self.chance.choice(self.graph["nodes"])["target"] = "torch.ops.aten." + self.chance.choice(operators())

    def meta(self):
        metas = self.graph["tensor_values"]
        return metas[self.chance.choice(list(metas))]

    def size(self):
        chance = self.chance
        if chance.random() < 0.15:
            return {"as_expr": {"expr_str": chance.choice(self.expressions()), "hint": None}}
        return {"as_int": interesting(chance)}

    def expressions(self):
        found = {
            place[0][place[1]]
            for place in places(self.root, [])
            if place[1] == "expr_str" and isinstance(place[0][place[1]], str)
        }
        return sorted(found) + [
            "s0",
            "s0 + 1",
            "s0*s0",
            "-s0",
            "s0//2",
            "Mod(s0, 3)",
            "s77",
            "1/0",
            "s0**s0",
            "Max(1, s0)",
            "u0",
            "9223372036854775807*s0",
        ]

    def edit_meta(self):
        chance, meta = self.chance, self.meta()
        how = chance.randrange(8)
        if how == 0:
            meta["dtype"] = chance.choice(DTYPES)
        elif how <= 3:
            change_list(chance, meta["sizes"], self.size)
        elif how == 4:
            change_list(chance, meta["strides"], self.size)
        elif how == 5:
            meta["storage_offset"] = self.size()
        elif how == 6:
            meta["layout"] = chance.randrange(10)
        else:
            meta["device"] = chance.choice(
                ({"type": "cuda", "index": 3}, {"type": "meta", "index": None}, {"type": "\0", "index": -1})
            )

    def edit_rank(self):
        """A dimension more or less, with its stride."""
        chance, meta = self.chance, self.meta()
        at = chance.randrange(len(meta["sizes"]) + 1)
        if chance.random() < 0.5 and meta["sizes"]:
            at = min(at, len(meta["sizes"]) - 1)
            del meta["sizes"][at], meta["strides"][at]
        else:
            meta["sizes"].insert(at, {"as_int": chance.choice((0, 1, 1, 2, 3))})
            meta["strides"].insert(at, {"as_int": 1})

    def edit_size_of_value(self):
        """One size of one value, small: what may stay consistent."""
        sizes = self.meta()["sizes"]
        sizes[self.chance.randrange(len(sizes))] = {"as_int": self.chance.choice((0, 0, 1, 2, 3, 4, 6, 8))}

    def edit_size_everywhere(self):
        """A lie that agrees with itself: all sizes of one number become another one."""
        chance = self.chance
        sizes = [s for g in self.graphs for m in g["tensor_values"].values() for s in m["sizes"] if "as_int" in s]
        old = chance.choice(sizes)["as_int"]
        new = interesting(chance)
        for s in sizes:
            if s["as_int"] == old:
                s["as_int"] = new

    def edit_dtype_everywhere(self):
        chance = self.chance
        metas = [m for g in self.graphs for m in g["tensor_values"].values()]
        old, new = chance.choice(metas)["dtype"], chance.choice(DTYPES)
        for m in metas:
            if m["dtype"] == old:
                m["dtype"] = new

    def name(self):
        chance = self.chance
        graph = self.graph if chance.random() < 0.9 else chance.choice(self.graphs)
        names = list(graph["tensor_values"]) + list(graph.get("sym_int_values") or ())
        return chance.choice(names) if names and chance.random() < 0.95 else "nothing"

    def argument(self):
        chance = self.chance
        if chance.random() < 0.4:
            return copy.deepcopy(chance.choice(chance.choice(self.graph["nodes"])["inputs"])["arg"])
        key = chance.choice(KEYS)
        some = chance.randrange(4)
        name = {"name": self.name()}
        values = {
            "as_int": interesting(chance), "as_float": chance.choice(FLOATS), "as_bool": chance.random() < 0.5,
            "as_string": chance.choice(("", "x", "mean", "\0", "%s" * 50)),
            "as_none": True, "as_tensor": name, "as_tensors": [{"name": self.name()} for _ in range(some)],
            "as_ints": [interesting(chance) for _ in range(some)],
            "as_floats": [chance.choice(FLOATS) for _ in range(some)], "as_bools": [True] * some,
            "as_strings": ["x"] * some,
            "as_sym_int": {"as_name": self.name()},
            "as_sym_ints": [{"as_name": self.name()} if chance.random() < 0.5 else {"as_int": interesting(chance)}
            for _ in range(some)],
            "as_sym_bool": {"as_bool": True}, "as_sym_float": {"as_float": 1.5},
            "as_scalar_type": chance.choice(DTYPES), "as_memory_format": chance.randrange(6),
            "as_layout": chance.randrange(10), "as_device": {"type": "cpu", "index": None},
            "as_optional_tensor": {"as_none": True},
            "as_optional_tensors": [{"as_none": True}] + [{"as_tensor": {"name": self.name()}} for _ in range(some)],
            "as_complex": {"real": 1.0, "imag": 2.0},
            "as_graph": {"name": "g",
            "graph": copy.deepcopy(chance.choice(self.graphs)) if len(json.dumps(self.graph)) < 5000 else {}},
            "as_int_lists": [[1, 2], [3]], "as_nested_tensors": [[name]],
        }  # fmt: skip
        return {key: values.get(key, interesting(chance))}

    def edit_argument(self):
        chance = self.chance
        node = chance.choice(self.graph["nodes"])
        inputs = node["inputs"]
        how = chance.randrange(12)
        if how == 0:
            change_list(
                chance, inputs, lambda: {"name": "extra", "arg": self.argument(), "kind": chance.choice((1, 2))}
            )
            return
        one = chance.choice(inputs)
        if how == 1:
            one["name"] = chance.choice([i["name"] for i in inputs] + ["", "nothing"])
        elif how == 2:
            one["kind"] = chance.choice((1, 2, 0, 3))
        elif how == 3:
            other = chance.choice(inputs)
            one["arg"], other["arg"] = other["arg"], one["arg"]
        elif how <= 6:
            one["arg"] = self.argument()
        else:
            self.change_value(one["arg"])

    def change_value(self, argument):
        """An argument of the same kind with another value."""
        chance = self.chance
        [key] = argument
        value = argument[key]
        if isinstance(value, bool):
            argument[key] = not value
        elif key in ("as_scalar_type", "as_memory_format", "as_layout"):
            argument[key] = chance.choice(DTYPES)
        elif isinstance(value, int):
            argument[key] = interesting(chance)
        elif isinstance(value, float) or key == "as_float":
            argument[key] = chance.choice(FLOATS)
        elif isinstance(value, str):
            argument[key] = chance.choice(("", "sum", "mean", "none", "reflect", "\0", value + "x", value[:-1]))
        elif isinstance(value, list):
            fresh = {
                "as_ints": lambda: interesting(chance),
                "as_floats": lambda: chance.choice(FLOATS),
                "as_bools": lambda: chance.random() < 0.5,
                # fmt: skip
                "as_tensors": lambda: {"name": self.name()},
                "as_strings": lambda: "x",
            }.get(key, lambda: self.argument())
            change_list(chance, value, fresh)
        elif isinstance(value, dict) and "name" in value and "graph" not in value:
            value["name"] = self.name()
        else:
            self.change_anything(value)

    def edit_nodes(self):
        chance, nodes = self.chance, self.graph["nodes"]
        at, other = chance.randrange(len(nodes)), chance.randrange(len(nodes))
        how = chance.randrange(6)
        if how == 0:
            del nodes[at]
        elif how == 1:
            nodes.insert(other, copy.deepcopy(nodes[at]))
        elif how == 2:
            nodes[at], nodes[other] = nodes[other], nodes[at]
        elif how == 3:
            nodes[at]["target"] = nodes[other]["target"]
        elif how == 4:
            nodes[at]["target"] = "torch.ops.aten." + chance.choice(operators())
        else:
            target = nodes[at]["target"]
            nodes[at]["target"] = chance.choice(
                (
                    target + "x",
                    target.rpartition(".")[0] + ".out",
                    "",
                    "_operator.add",
                    "torch.ops.higher_order.cond",
                    "torch.sym_max",
                    "math.sqrt",
                )
            )

    def edit_results(self):
        chance = self.chance
        node = chance.choice(self.graph["nodes"])
        if chance.random() < 0.5:
            change_list(
                chance,
                node["outputs"],
                lambda: {chance.choice(("as_tensor", "as_sym_int", "as_none")): {"name": self.name()}},
            )
        else:
            node["outputs"][chance.randrange(len(node["outputs"]))] = self.argument()

    def edit_ends(self):
        change_list(self.chance, self.graph[self.chance.choice(("inputs", "outputs"))], lambda: self.argument())

    def edit_signature(self):
        module = self.root["graph_module"]
        self.change_anything(
            module[self.chance.choice(("signature", "module_call_graph")) if self.chance.random() < 0.9 else "metadata"]
        )

    def edit_ranges(self):
        ranges = self.root["range_constraints"]
        if ranges and self.chance.random() < 0.8:
            ranges[self.chance.choice(list(ranges))][self.chance.choice(("min_val", "max_val"))] = interesting(
                self.chance
            )
        else:
            ranges[self.chance.choice(("s0", "u0", "nothing", "1+s0"))] = {
                "min_val": interesting(self.chance),
                "max_val": interesting(self.chance),
            }

    def edit_anything(self):
        self.change_anything(self.root)

    def change_anything(self, node):
        """A place of a document, whatever it is."""
        chance = self.chance
        container, key = chance.choice(places(node, []))
        value = container[key]
        how = chance.randrange(6)
        if how == 0:
            del container[key]
        elif how == 1 and isinstance(container, dict):
            container[chance.choice(list(container))] = copy.deepcopy(value)
        elif how == 2:
            container[key] = chance.choice((None, True, {}, [], "", 0, 1.5, [[]] * 3, -1))
        elif isinstance(value, bool):
            container[key] = not value
        elif isinstance(value, int):
            container[key] = interesting(chance)
        elif isinstance(value, float):
            container[key] = chance.choice(FLOATS)
        elif isinstance(value, str):
            container[key] = chance.choice(
                (
                    value + "x",
                    value[1:],
                    self.name() if self.graph else "x",
                    "\0",
                    "a\n\x1b[31m",
                    "\u202e",
                    "../../x",
                    "x" * 70000,
                )
            )
        elif isinstance(value, list) and value:
            change_list(chance, value, lambda: copy.deepcopy(chance.choice(value)))
        else:
            container[key] = chance.choice((None, 7, "x"))


@functools.cache
def operators():
    """Names of ATen's operators, from the table that slipway is built with."""
    text = (ROOT / "schemas" / "ops.txt").read_text()
    return sorted(set(re.findall(r"^aten::([a-z_0-9]+\.?[A-Za-z_0-9]*)\(", text, re.MULTILINE)))


def changed_text(chance, text):
    """JSON as text: what no document of Python's can hold, a key twice for one."""
    how = chance.randrange(4)
    found = list(re.finditer(r'"\w+": ("[^"\\]*"|-?\d+|true|false|null)', text))
    if how == 0 and found:
        one = chance.choice(found)
        return text[: one.end()] + ", " + one.group(0) + text[one.end() :]
    if how == 1:
        return text[: chance.randrange(len(text) + 1)]
    if how == 2 and found:
        one = chance.choice(found)
        return (
            text[: one.start(1)]
            + chance.choice(("9" * 40, "-0", "1e999", "NaN", "1.5", "[" * 300, "0x1", "\ud800"))
            + text[one.end(1) :]
        )
    return changed_bytes(chance, text.encode("utf-8", "surrogatepass")).decode("latin1")


GIVES = re.compile(r"result %(\S+) is declared as .*, the operator gives (\w+)\[([^\]]*)\]")
LETTERS = {
    "u8": 1,
    "i8": 2,
    "i16": 3,
    "i32": 4,
    "i64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 8,
    "c32": 9,
    "c64": 10,
    "c128": 11,
    "bool": 12,
    "bf16": 13,
}


def mended(refusal, root):
    """Takes over what the operator gives from a refusal of what a program declares; False where that is not what it
    says."""
    found = GIVES.search(refusal)
    if not found or found[2] not in LETTERS:
        return False
    sizes = []
    for text in found[3].split(",") if found[3] else ():
        text = text.strip()
        sizes.append(
            {"as_int": int(text)} if re.fullmatch(r"-?\d+", text) else {"as_expr": {"expr_str": text, "hint": None}}
        )
    metas = [g["tensor_values"][found[1]] for g in graphs_of(root, []) if found[1] in g["tensor_values"]]
    for meta in metas:
        meta.update(dtype=LETTERS[found[2]], sizes=sizes, strides=[{"as_int": 1}] * len(sizes))
    return bool(metas)


def changed_consistently(chance, seed, path, binary):
    """A program whose inputs and arguments changed, with the types that follow, as far as slipway says them: such
    mutants reach what is behind the checks of what a file declares."""
    parts = members_of(seed.data())
    programs = [k for k, (name, _) in enumerate(parts) if name.endswith(".json") and not name.endswith("config.json")]
    at = chance.choice(programs)
    root = json.loads(parts[at][1])
    Programs(chance, root).change_beginnings()
    for _ in range(MENDINGS):
        parts[at] = (parts[at][0], json.dumps(root).encode())
        data = packed(parts)
        path.write_bytes(data)
        done = subprocess.run(
            [binary, "convert", path, "-o", path.with_suffix(".onnx"), "--dry-run"], capture_output=True
        )
        if not mended(done.stderr.decode(errors="replace"), root):
            break
    return data


def changed_json(chance, data):
    if chance.random() < 0.06:
        return changed_text(chance, data.decode()).encode("utf-8", "surrogatepass")
    root = json.loads(data)
    Programs(chance, root).change()
    return json.dumps(root).encode()


# ---- bytes, archives, pickles, headers


def changed_bytes(chance, data):
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(data)) if data else 0
        how = chance.randrange(6)
        if how == 0 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1 and data:
            data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif how == 2:
            del data[at : at + chance.choice((1, 4, 64))]
        elif how == 3:
            data[at:at] = data[at : at + chance.choice((1, 8, 64))] or b"\0"
        elif how == 4 and len(data) >= 8:
            form, size = chance.choice((("<I", 4), ("<Q", 8), ("<H", 2)))
            at = min(at, len(data) - size)
            struct.pack_into(form, data, at, chance.choice(INTS) % (1 << 8 * size))
        elif chance.random() < 0.1:
            del data[at:]
    return bytes(data)


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def packed(parts, method=zipfile.ZIP_STORED):
    """A zip whose payloads are aligned, as torch writes them; names may repeat."""
    out, directory, method_number = io.BytesIO(), io.BytesIO(), method
    for name, data in parts:
        raw, crc, at = name.encode("utf-8", "surrogatepass"), zipfile.crc32(data), out.tell()
        stored = data
        if method == zipfile.ZIP_DEFLATED:
            squeeze = zipfile.zlib.compressobj(6, zipfile.zlib.DEFLATED, -15)
            stored = squeeze.compress(data) + squeeze.flush()
        pad = -(at + 30 + len(raw) + 4) % 64
        extra = b"FB" + struct.pack("<H", pad) + b"Z" * pad
        common = struct.pack("<HHHHHIII", 20, 1 << 11, method_number, 0, 33, crc, len(stored), len(data))
        out.write(b"PK\3\4" + common + struct.pack("<HH", len(raw), len(extra)) + raw + extra + stored)
        directory.write(b"PK\1\2" + b"\x14\0" + common + struct.pack("<HHHHHII", len(raw), 0, 0, 0, 0, 0, at) + raw)
    at, table = out.tell(), directory.getvalue()
    return out.getvalue() + table + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(parts), len(parts), len(table), at, 0)


def changed_archive(chance, data):
    """The zip around the members: its records, or which members there are."""
    how = chance.randrange(10)
    if how <= 3:
        return changed_record(chance, data)
    parts = members_of(data)
    at = chance.randrange(len(parts))
    name, payload = parts[at]
    if how == 4:
        del parts[at]
    elif how == 5:
        parts.insert(chance.randrange(len(parts) + 1), (name, chance.choice((payload, b"", payload[:10]))))
    elif how == 6:
        parts[at] = (
            chance.choice(
                (name + "x", "../" + name, "/" + name, name.replace("/", "//"), "", name + "\0", parts[0][0])
            ),
            payload,
        )
    elif how == 7:
        parts[at] = (
            name,
            chance.choice(
                (b"", payload[: len(payload) // 2], payload + b"\0" * 100, parts[chance.randrange(len(parts))][1])
            ),
        )
    elif how == 8:
        parts[at] = (name, changed_bytes(chance, payload))
    else:
        return packed(parts, zipfile.ZIP_DEFLATED)
    return packed(parts)


def changed_record(chance, data):
    data = bytearray(data)
    end = data.rfind(b"PK\5\6")
    kinds = [b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7"]
    signature = chance.choice(kinds)
    found = [m.start() for m in re.finditer(re.escape(signature), bytes(data))]
    at = chance.choice(found) if found else end
    how = chance.randrange(6)
    if how == 0:
        del data[chance.randrange(len(data)) :]
    elif how == 1:  # a zip64 extra field
        extra = struct.pack("<HHQQ", 1, 16, *(chance.choice(INTS) % (1 << 64) for _ in range(2)))
        data[end:end] = extra
    else:
        form, size = chance.choice((("<H", 2), ("<I", 4), ("<I", 4), ("<Q", 8)))
        place = at + chance.randrange(4, 48)
        if place + size <= len(data):
            struct.pack_into(
                form,
                data,
                place,
                (chance.choice(INTS) if chance.random() < 0.7 else chance.randrange(1 << 16)) % (1 << 8 * size),
            )
    return bytes(data)


GLOBALS = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "torch FloatStorage",
 "torch ByteStorage", "collections OrderedDict", "os system",
           "torch.storage _load_from_bytes", "torch Size", "torch device", "builtins eval", "torch float32",
           "torch._tensor _rebuild_from_type_v2",
           "torch._utils _rebuild_wrapper_subclass", "torchao.dtypes AffineQuantizedTensor")  # fmt: skip
OPCODES = (
    b"(.012NIJKMLFGSTUVXBCclitsdeau}])QPbR"
    b"\x80\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95hjqrpgo"
)


def changed_pickle(chance, data):
    """Opcodes dropped, doubled, swapped and changed; the pickle may be several, one behind the other, with more bytes
    after them."""
    starts, at = [], 0
    while at < len(data):
        try:
            steps = [(op, at + place) for op, _, place in pickletools.genops(data[at:])]
        except Exception:  # the bytes behind the last one
            break
        starts += [place for _, place in steps]
        at = steps[-1][1] + 1
    if len(starts) < 3:
        return changed_bytes(chance, data)
    starts.append(at)
    parts = [data[a:b] for a, b in zip(starts, starts[1:])]
    for _ in range(chance.choice((1, 1, 2, 4))):
        k, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        how = chance.randrange(9)
        if how == 0:
            parts[k] = b""
        elif how == 1:
            parts[k] += parts[k]
        elif how == 2:
            parts[k], parts[other] = parts[other], parts[k]
        elif how == 3:
            parts[k] = bytes([chance.choice(OPCODES)]) + parts[k][1:]
        elif how == 4:
            parts[k] = parts[other] + parts[k]
        elif how == 5:
            parts[k] = (
                b"c"
                + chance.choice(GLOBALS).replace(" ", "\n").encode()
                + b"\n"
                + (parts[k] if chance.random() < 0.5 else b"")
            )
        elif how <= 7:
            numbers = [n for n, part in enumerate(parts) if part[:1] in b"KMJ\x8a" and part]
            if numbers:
                value = interesting(chance)
                raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
                parts[chance.choice(numbers)] = b"\x8a" + bytes([len(raw)]) + raw
        else:
            parts[k] = changed_bytes(chance, parts[k]) if parts[k] else b"."
    return b"".join(parts) + data[at:]


def changed_safetensors(chance, data):
    [length] = struct.unpack_from("<Q", data)
    how = chance.randrange(10)
    if how == 0:
        return struct.pack("<Q", chance.choice(INTS) % (1 << 64)) + data[8:]
    if how == 1:
        return data[: chance.randrange(len(data) + 1)]
    if how == 2:
        return changed_bytes(chance, data)
    header = json.loads(data[8 : 8 + length])
    names = [name for name in header if name != "__metadata__"]
    for _ in range(chance.choice((1, 1, 2))):
        one = header.get(chance.choice(names)) if names else None
        edit = chance.randrange(7)
        if edit == 0 or not one or not isinstance(one, dict):
            Programs(chance, header).edit_anything()
        elif edit == 1:
            one["dtype"] = chance.choice(("F32", "I64", "BF16", "F8_E4M3", "F4", "C64", "U8", "BOOL", "", "F33"))
        elif edit == 2 and isinstance(one.get("shape"), list):
            change_list(chance, one["shape"], lambda: interesting(chance))
        elif edit == 3 and isinstance(one.get("data_offsets"), list):
            change_list(chance, one["data_offsets"], lambda: chance.choice((interesting(chance), len(data))))
        elif edit == 4:
            header[chance.choice(("a.x", "", "\0", "x" * 5000, "a\nb", "\x1b[1m", "../x"))] = one
        elif edit == 5:
            header["__metadata__"] = chance.choice(({}, {"format": "pt"}, {"a": 1}, [], {"x" * 100: "y" * 1000}))
        else:
            header.pop(chance.choice(names), None)
            names = [name for name in header if name != "__metadata__"]
    text = json.dumps(header).encode()
    if chance.random() < 0.1:
        text = changed_text(chance, text.decode()).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def changed_library(chance, data):
    """The payload of a native library: its header and its plan. The code stays, since `run` runs it."""
    start = data.rfind(b"SLIPWAY1")
    [plan] = struct.unpack_from("<Q", data, start + 16)
    end = min(start + 64 + (plan if plan < len(data) else 4096), len(data))
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = start + 8 + chance.randrange(56) if chance.random() < 0.15 else chance.randrange(start + 64, end) & ~3
        if chance.random() < 0.6:
            struct.pack_into("<i", out, min(at, len(out) - 4), (chance.choice(INTS) + 2**31) % 2**32 - 2**31)
        else:
            out[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    if chance.random() < 0.05:
        del out[chance.randrange(start, len(out)) :]
    return bytes(out)


def message(data):
    """The fields of a Protobuf message as [number, wire type, value], or None for bytes that are none."""
    parts, at = [], 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128 or shift > 63:
                return value

    try:
        while at < len(data):
            key = varint()
            kind = key & 7
            if kind == 0:
                parts.append([key >> 3, 0, varint()])
            elif kind in (1, 2, 5):
                size = varint() if kind == 2 else 8 if kind == 1 else 4
                if at + size > len(data) or key >> 3 == 0:
                    return None
                parts.append([key >> 3, kind, data[at : at + size]])
                at += size
            else:
                return None
    except IndexError:
        return None
    return parts


def unparsed(parts):
    def varint(value):
        value &= (1 << 64) - 1
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes(out + bytes([value]))

    return b"".join(
        varint(n << 3 | kind) + (varint(value) if kind == 0 else varint(len(value)) + value if kind == 2 else value)
        for n, kind, value in parts
    )


def changed_message(chance, data):
    """An ONNX model: fields of its messages dropped, doubled, swapped and changed; names become those of others."""
    if chance.random() < 0.05:
        return changed_bytes(chance, data)
    names = re.findall(rb"[\x20-\x7e]{1,40}", data)

    def change(data, depth):
        parts = message(data)
        if not parts:
            return chance.choice(
                (b"", chance.choice(names or [b"x"]), chance.choice(names or [b"x"]), changed_bytes(chance, data))
            )
        at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        how = chance.randrange(6) if chance.random() < 0.2 + 0.1 * depth else 6
        if how == 0:
            del parts[at]
        elif how == 1:
            parts.insert(other, list(parts[at]))
        elif how == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif how == 3:
            parts[at][0] = chance.choice((parts[other][0], chance.randrange(1, 27)))
        elif parts[at][1] == 0:
            parts[at][2] = interesting(chance)
        elif parts[at][1] == 2:
            parts[at][2] = change(parts[at][2], depth + 1) if depth < 12 else parts[at][2]
        return unparsed(parts)

    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = change(data, 0)
    return data


def changed_words(chance, data):
    """A text form: its numbers, names and lines."""
    lines = data.decode().split("\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        how = chance.randrange(8)
        if how == 0:
            del lines[at]
            lines = lines or [""]
        elif how == 1:
            lines.insert(at, lines[other])
        elif how == 2:
            lines[at], lines[other] = lines[other], lines[at]
        else:
            words = list(re.finditer(r"-?\d+|[%$@]?[A-Za-z_][\w.]*|[\[\](){}=,:]", lines[at]))
            if not words:
                continue
            word = chance.choice(words)
            if re.fullmatch(r"-?\d+", word.group()):
                fresh = str(chance.choice(INTS))
            elif re.fullmatch(r"(f|i|u|bf)\d+|bool", word.group()):
                fresh = chance.choice(("f32", "f16", "i64", "bool", "bf16", "u8", "c64", "f64"))
            else:
                every = re.findall(r"[%$@]?[A-Za-z_][\w.]*|[\[\](){}=,:]", lines[other]) or ["x"]
                fresh = chance.choice(every)
            lines[at] = lines[at][: word.start()] + fresh + lines[at][word.end() :]
    text = "\n".join(lines).encode()
    return changed_bytes(chance, text) if chance.random() < 0.05 else text


def changed_members(chance, data):
    """A zip of torch's: its JSON, its pickles, itself."""
    how = chance.random()
    if how < 0.03:
        return changed_bytes(chance, data)
    if how < 0.15:
        return changed_archive(chance, data)
    parts = members_of(data)
    programs = [k for k, (name, _) in enumerate(parts) if name.endswith(".json") and not name.endswith("config.json")]
    configs = [k for k, (name, _) in enumerate(parts) if name.endswith("config.json")]
    pickles = [k for k, (name, _) in enumerate(parts) if name.endswith(".pkl")]
    nested = [k for k, (name, payload) in enumerate(parts) if payload[:4] == b"PK\3\4"]
    kinds = [programs] * 8 + [configs, pickles, nested] if programs else [pickles] * 8 + [nested]
    choices = chance.choice([kind for kind in kinds if kind] or [range(len(parts))])
    at = chance.choice(choices)
    name, payload = parts[at]
    if choices is pickles:
        payload = changed_pickle(chance, payload)
    elif choices is nested:
        payload = changed_members(chance, payload)
    elif choices is programs or choices is configs:
        payload = changed_json(chance, payload)
    else:
        payload = changed_bytes(chance, payload)
    parts[at] = (name, payload)
    return packed(parts)


# ---- good files


PROGRAM = (
    "onnx",
    "so",
    "pt2",
    "native-pt2",
    "dynamic",
    "shapes",
    "unify",
    "safetensors",
    "inspect",
    "ir",
    "ops",
    "json",
    "verify",
    "header",
    "run",
    "compare",
    "diff",
    "unpack",
    "api",
)
TENSORS = ("safetensors", "cast", "shards", "inspect", "json", "verify", "diff", "api")
KINDS = {  # what changes a file, and the commands on it
    "program": (changed_members, PROGRAM),
    "text": (changed_words, tuple(c for c in PROGRAM if c != "unpack")),
    "checkpoint": (changed_members, TENSORS),
    "legacy": (changed_pickle, TENSORS),
    "safetensors": (changed_safetensors, TENSORS),
    "library": (changed_library, ("inspect", "json", "header", "run")),
    "model": (changed_message, ("so", "onnx", "pt2", "inspect", "ir", "ops", "json", "diff")),
    "folder": (None, TENSORS),
    "inputs": (changed_safetensors, ("run-inputs",)),
}
NAMING = ("text", "folder")  # of files that may not be there
# The commands that most of the code is behind, which every mutant sees.
COMMON = {"program": ("onnx", "so"), "model": ("so",)}


@dataclasses.dataclass(frozen=True)
class Seed:
    path: pathlib.Path
    kind: str
    inputs: pathlib.Path | None = None  # of `run`

    @functools.lru_cache(maxsize=64)  # noqa: B019 as many as there are seeds
    def data(self):
        return self.path.read_bytes()


def seeds_of(folder, kinds):
    """The good files of a folder: of the Xs with X.pt2 and X.safetensors the second holds the inputs of the first."""
    found = []
    for path in sorted(folder.iterdir()):
        inputs = path.with_suffix(".safetensors")
        inputs = inputs if path.suffix in (".pt2", ".so", ".sw") and inputs.exists() else None
        if path.is_dir():
            found.append(Seed(path, "folder"))
        elif path.suffix == ".safetensors":
            program = path.with_suffix(".pt2")
            found.append(Seed(program, "inputs", path) if program.exists() else Seed(path, "safetensors"))
        elif kind := {
            ".pt2": "program",
            ".sw": "text",
            ".pt": "checkpoint",
            ".legacy": "legacy",
            ".so": "library",
            ".onnx": "model",
        }.get(path.suffix):
            found.append(Seed(path, kind, inputs))
    return [seed for seed in found if not kinds or seed.kind in kinds]


def mutant(seed, chance, place, binary):
    """Writes a mutant to `place`, which gets the suffix that the command line goes by; gives its path and bytes."""
    change, _ = KINDS[seed.kind]
    if seed.kind == "folder":
        shutil.copytree(seed.path, place)
        files = sorted(p for p in place.rglob("*") if p.is_file())
        one = (
            chance.choice([p for p in files if p.suffix == ".json" or p.name == ".metadata"] or files)
            if chance.random() < 0.5
            else chance.choice(files)
        )
        data = one.read_bytes()
        how = chance.randrange(8)
        if how == 0:
            one.unlink()
        elif how == 1:
            one.rename(one.with_name(chance.choice(("model.safetensors", "x.safetensors.index.json", "x"))))
        elif one.suffix == ".safetensors":
            one.write_bytes(changed_safetensors(chance, data))
        elif one.suffix == ".json":
            one.write_bytes(changed_json(chance, data))
        elif one.name == ".metadata":
            one.write_bytes(changed_pickle(chance, data))
        else:
            one.write_bytes(changed_members(chance, data) if data[:2] == b"PK" else changed_bytes(chance, data))
        return place, sum(p.stat().st_size for p in place.rglob("*") if p.is_file())
    suffix = {"legacy": ".pt", "inputs": ".safetensors"}.get(seed.kind, seed.path.suffix)
    place = place.with_suffix(suffix)
    good = seed.inputs.read_bytes() if seed.kind == "inputs" else seed.data()
    if seed.kind == "text":  # its weights lie beside it
        for name in set(re.findall(r"[\w.-]+\.pt2", good.decode())):
            if (seed.path.parent / name).exists() and not (place.parent / name).exists():
                (place.parent / name).symlink_to(seed.path.parent / name)
    if seed.kind == "program" and chance.random() < 0.5:
        data = changed_consistently(chance, seed, place, binary)
    else:
        data = change(chance, good)
    place.write_bytes(data)
    return place, len(data) + (seed.path.stat().st_size if seed.kind == "inputs" else 0)


# ---- commands


def command_of(name, seed, path, out, binary):
    """The command line; what it writes goes into the folder `out`."""
    convert = [binary, "convert", path, "-q", "-o"]
    inspect = [binary, "inspect", path]
    match name:
        case "onnx" | "so" | "pt2":
            return [*convert, out / f"o.{name}"]
        case "dynamic":
            return [*convert, out / "o.onnx", "--dynamic", "auto"]
        case "shapes":
            return [binary, "shapes", path, "--json"]
        case "unify":
            return [binary, "shapes", seed.path, "--unify", path]
        case "safetensors":
            return [*convert, out / "o.safetensors"]
        case "native-pt2":
            return [*convert, out / "o.pt2", "--to", "native-pt2", "--with-program"]
        case "cast":
            return [*convert, out / "o.safetensors", "--dtype", "bf16", "--rename", "^(.*)$=>m.$1"]
        case "shards":
            return [*convert, str(out / "o") + "/", "--shards", "2"]
        case "inspect":
            return inspect
        case "ir" | "ops" | "json" | "verify" | "header":
            return [*inspect, f"--{name}"]
        case "run":
            return (
                [binary, "run", path, "--inputs", seed.inputs, "--outputs", out / "o.safetensors", "--threads", "1"]
                if seed.inputs
                else None
            )
        case "run-inputs":
            return [binary, "run", seed.path, "--inputs", path, "--outputs", out / "o.safetensors", "--threads", "1"]
        case "diff":
            return [binary, "diff", path, seed.path]
        case "compare":
            return [binary, "verify", path, seed.path, "--layers", "--threads", "1"]
        case "unpack":
            return [binary, "unpack", path, "-o", str(out / "o") + "/"]
        case "api":
            walk = pathlib.Path(binary).parent / "capi_walk"
            return [walk, out, path] if walk.exists() else None


@dataclasses.dataclass
class Run:
    status: int
    said: str  # on stderr
    cpu_s: float
    memory: int
    problem: str = ""


def call(command, limit_s):
    """Runs a command to its end, or to ten times its limit."""
    with tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True
        )
        timer = threading.Timer(10 * limit_s, lambda: os.kill(process.pid, signal.SIGKILL))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait for it
        size = err.tell() if err.seek(0, os.SEEK_END) else 0
        err.seek(0)
        raw = err.read(LONGEST_SAID + 1)
    problem = ""
    try:
        said = raw.decode()
    except UnicodeDecodeError:
        said, problem = raw.decode(errors="replace"), "stderr is not UTF-8"
    if size > LONGEST_SAID:
        problem = "stderr is long"
    elif re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", said):
        problem = "stderr holds control characters"
    return Run(process.returncode, said, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, problem)


MEASURE = "import os,sys; p=os.posix_spawn(sys.argv[1],sys.argv[1:],os.environ); print(os.wait4(p,0)[2].ru_maxrss*1024)"


def memory_of(command):
    """The most memory a command takes. A process begins with the peak of the one that started it: a small one, here."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", MEASURE, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return int(done.stdout.split()[-1])


def fields_of(data):
    """Whether bytes are a message of Protocol Buffers from end to end."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return value

    try:
        while at < len(data):
            kind = varint() & 7
            if kind == 0:
                varint()
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            elif kind == 2:
                length = varint()
                at += length
            else:
                return False
    except IndexError:
        return False
    return at == len(data)


def fault(name, kind, run, command, out, size, settings, chance):
    """What is wrong with a run, or ''."""
    said = run.said
    if "Sanitizer" in said or "runtime error:" in said:
        found = re.search(r"SUMMARY: (.*)|([^\n]*runtime error:.*)", said)
        return "sanitizer: " + (found.group(1) or found.group(2) if found else said[-200:])
    if run.status == -signal.SIGKILL and run.cpu_s > settings.limit_s:
        return "hang"
    if run.status < 0:
        return f"signal {signal.Signals(-run.status).name}"
    last = ([line for line in said.splitlines() if line.startswith("error")] or [""])[-1]
    if run.status == 70 or "error[SW9" in said:
        return f"exit 70: {last}"
    allowed = (
        {0, 3, 4, 6}
        | ({1} if name in ("diff", "compare") else set())
        | ({5} if kind in NAMING and "cannot open" in last else set())
    )
    if run.status not in allowed:
        return f"exit {run.status}: {last or said[-200:]}"
    if run.cpu_s > settings.limit_s:
        return "hang: it took more than the limit"
    if run.problem:
        return run.problem
    if run.status not in (0, 1) and not re.match(r"error\[SW\d{4}\]: .", last):
        return f"exit {run.status} without a diagnostic"
    # which makes inputs as large as the program asks for, up to a limit of its own
    if not settings.sanitized and name != "compare":
        most = 4 * size + MEMORY + settings.base
        if run.memory > most and (took := memory_of(command)) > most:
            return f"memory: {took // MB} MB of {most // MB} (exit {run.status})"
    written = sorted(p for p in out.rglob("*"))
    if name == "api":
        return (
            "parts left: " + " ".join(p.name for p in written if "tmp" in p.name)
            if any("tmp" in p.name for p in written)
            else ""
        )
    if run.status != 0:
        return "parts left: " + " ".join(p.name for p in written) if written else ""
    for path in written:
        if path.is_dir():
            continue
        if ".tmp" in path.name:
            return f"parts left: {path.name}"
        if path.suffix == ".onnx" and not fields_of(path.read_bytes()):
            return "output is no protobuf"
        if path.suffix in (".pt2", ".safetensors", ".so") and chance.random() < 0.15:
            again = call(
                [settings.binary, "inspect", "--verify" if path.suffix == ".safetensors" else "--json", path],
                settings.limit_s,
            )
            if again.status != 0:
                return f"output does not read back: exit {again.status}: {again.said[-200:]}"
    if name not in (
        "inspect",
        "ir",
        "ops",
        "json",
        "verify",
        "header",
        "shapes",
        "unify",
        "diff",
        "compare",
    ) and not any(p.is_file() for p in written):
        return "exit 0 without output"
    return ""


def alike(text):
    """What tells faults apart: without names and numbers."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|-?\d+", "_", text)[:160]


def keep(settings, number, name, what, path, command, run):
    """Saves a mutant with the command that shows its fault."""
    mark = hashlib.sha256(f"{name} {alike(what)}".encode()).hexdigest()[:8]
    folder = settings.keep / f"{name}-{mark}"
    if folder.exists():
        return
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    copied = folder / f"mutant{path.suffix}"
    shutil.copytree(path, copied) if path.is_dir() else shutil.copyfile(path, copied)
    line = " ".join(str(copied) if part == path else str(part) for part in command)
    (folder / "what.txt").write_text(
        f"{what}\n\n{line}\n\nmutate.py --seed {settings.seed} --first {number} --count 1 --seeds {settings.seeds} "
        f"--commands {name}\n\n{run.said[-6000:]}"
    )


def work(settings, job, results):
    """Mutants job, job + jobs, job + 2 jobs …"""
    mutants, counts, faults = 0, collections.Counter(), collections.Counter()
    try:
        mutants = walk(settings, job, results, counts, faults)
    finally:
        results.put(("done", mutants, counts, faults))


def walk(settings, job, results, counts, faults):
    if not settings.sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_ADDRESSES, LIMIT_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_FILE, LIMIT_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mutants = 0
    with tempfile.TemporaryDirectory(prefix="slipway-mutants-") as scratch:
        scratch = pathlib.Path(scratch)
        waiting = []
        for one in made(settings, job, results, scratch):
            mutants += 1
            if not settings.batch:
                for name in names_of(settings, one):
                    check(settings, one, name, scratch, counts, faults)
                one.remove()
                continue
            waiting.append(one)
            if len(waiting) == settings.batch:
                check_batch(settings, waiting, scratch, counts, faults)
                waiting = []
        if waiting:
            check_batch(settings, waiting, scratch, counts, faults)
    return mutants


@dataclasses.dataclass
class Made:
    """A mutant, its number and the good file that it comes from; `chance` goes on where its making stopped."""

    number: int
    seed: Seed
    chance: random.Random
    path: pathlib.Path
    size: int

    def remove(self):
        shutil.rmtree(self.path) if self.path.is_dir() else self.path.unlink()


def made(settings, job, results, scratch):
    """Makes the mutants of a job, one after the other."""
    by_kind = collections.defaultdict(list)
    for seed in settings.found:
        by_kind[seed.kind].append(seed)
    kinds = sorted(by_kind)
    weights = [6 if kind == "program" else 1 for kind in kinds]
    for number in range(settings.first + job, settings.first + settings.count, settings.jobs):
        if settings.until and time.monotonic() > settings.until:
            return
        chance = random.Random(f"{settings.seed}/{number}")
        seed = chance.choice(by_kind[chance.choices(kinds, weights)[0]])
        try:
            path, size = mutant(seed, chance, scratch / f"mutant-{number}", settings.mending)
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            struct.error,
            zipfile.BadZipFile,
            RecursionError,
        ) as error:
            results.put(("unmade", f"{seed.path.name}: {error!r}"))
            continue
        yield Made(number, seed, chance, path, size)


def names_of(settings, one):
    """The commands that a mutant is given to: all of its kind where one mutant was asked for."""
    of_kind = KINDS[one.seed.kind][1]
    names = [c for c in of_kind if c in COMMON.get(one.seed.kind, ())]
    others = [c for c in of_kind if c not in names]
    names += one.chance.sample(others, min(len(others), settings.some))
    return [
        c
        for c in (of_kind if settings.commands and settings.count == 1 else names)
        if not settings.commands or c in settings.commands
    ]


def check(settings, one, name, scratch, counts, faults):
    """Gives a mutant to a command."""
    out = scratch / "out"
    out.mkdir()
    found = False
    if command := command_of(name, one.seed, one.path, out, settings.binary):
        run = call(command, settings.limit_s)
        counts[name, run.status] += 1
        if what := fault(name, one.seed.kind, run, command, out, one.size, settings, one.chance):
            found = True
            faults[f"{name}: {alike(what)}"] += 1
            keep(settings, one.number, name, what, one.path, command, run)
    shutil.rmtree(out)
    return found


def check_batch(settings, batch, scratch, counts, faults):
    """Gives mutants to one process of capi_walk, which is most of what a sanitized run of one costs. Where that shows a
    fault they go in one by one, so that it is found with its mutant; one that needs the others is kept with all of
    them."""
    out = scratch / "out"
    out.mkdir()
    command = [settings.binary.parent / "capi_walk", out, *(one.path for one in batch)]
    run = call(command, settings.limit_s)
    what = fault("api", "folder", run, command, out, sum(one.size for one in batch), settings, batch[0].chance)
    shutil.rmtree(out)
    counts[f"api by {settings.batch}", run.status] += 1
    if what and not any([check(settings, one, "api", scratch, counts, faults) for one in batch]):
        together = scratch / "together"
        together.mkdir()
        for one in batch:
            one.path.rename(together / one.path.name)
        faults[f"api, together: {alike(what)}"] += 1
        keep(
            settings,
            batch[0].number,
            "api",
            f"{what} (all files of the folder in one call)",
            together,
            [*command[:2], together],
            run,
        )
        shutil.rmtree(together)
        return
    for one in batch:
        one.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--binary", type=pathlib.Path, default=pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway"))
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first mutant's number")
    parser.add_argument("--count", type=int, default=1000, help="how many mutants")
    parser.add_argument("--seconds", type=float, help="ends then, however many there were")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--some", type=int, default=2, help="commands on a mutant besides those that each one sees")
    parser.add_argument("--batch", type=int, default=0, help="only through the C API, so many mutants a process")
    parser.add_argument(
        "--mending",
        type=pathlib.Path,
        help="the binary that says what follows from a change, a fast one; else --binary",
    )
    parser.add_argument(
        "--seeds",
        type=pathlib.Path,
        default=ROOT / "build" / "mutants" / "seeds",
        help="good files; made where there are none",
    )
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=[], help=", ".join(KINDS))
    parser.add_argument("--commands", type=lambda text: text.split(","), default=[], help="only these")
    parser.add_argument("--match", default="", help="only good files whose names this regular expression is found in")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build" / "mutants" / "faults")
    settings = parser.parse_args()
    settings.binary = settings.binary.resolve()
    settings.mending = settings.mending.resolve() if settings.mending else settings.binary
    if settings.batch:
        settings.kinds = settings.kinds or [kind for kind, (_, commands) in KINDS.items() if "api" in commands]
    settings.seeds = settings.seeds.resolve()  # links lead there
    if not settings.seeds.is_dir():
        subprocess.run([sys.executable, HERE / "mutate_seeds.py", settings.seeds, settings.binary], check=True)
    settings.found = [s for s in seeds_of(settings.seeds, settings.kinds) if re.search(settings.match, s.path.name)]
    if not settings.found:
        parser.error(f"no good files in {settings.seeds}")
    settings.sanitized = b"__asan_init" in settings.binary.read_bytes()
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=1:hard_rss_limit_mb=3000:allocator_may_return_null=1")
    os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    os.environ["NO_COLOR"] = "1"
    settings.limit_s = SANITIZED_LIMIT_S if settings.sanitized else LIMIT_S
    settings.base = 0 if settings.sanitized else memory_of([settings.binary, "--version"])
    settings.until = time.monotonic() + settings.seconds if settings.seconds else None

    results = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(settings, job, results)) for job in range(settings.jobs)]
    for worker in workers:
        worker.start()
    mutants, counts, faults, unmade, left = 0, collections.Counter(), collections.Counter(), [], len(workers)
    while left:
        kind, *rest = results.get()
        if kind == "unmade":
            unmade.append(rest[0])
            continue
        left -= 1
        mutants += rest[0]
        counts.update(rest[1])
        faults.update(rest[2])
    for worker in workers:
        worker.join()
    for name in sorted({name for name, _ in counts}):
        of = {status: n for (command, status), n in sorted(counts.items()) if command == name}
        print(f"{name:12} {sum(of.values()):7} runs: " + ", ".join(f"{n} × exit {status}" for status, n in of.items()))
    for what, n in faults.most_common():
        print(f"{n:6} {what}")
    if unmade:
        print(f"{len(unmade)} not made, as {unmade[0]}")
    print(
        f"{mutants} mutants, {sum(counts.values())} runs, {sum(faults.values())} faults"
        + (f" in {settings.keep}" if faults else "")
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
