"""Whatever the input, a conversion ends with exit 3, 4 or 6, one error line that names the place, and no output; it
never crashes and never runs what it reads. SLIPWAY may name a sanitized build, whose complaints are crashes too.
"""

import copy
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import archives
from archives import config, members, meta, node, pack, patched, program, records, safetensors, tensor
from conftest import ROOT
from diagnostics import cause

SLIPWAY = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
LIMIT_S = 60


def convert(folder, *arguments):
    output = folder / "out" / "m.onnx"
    output.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [SLIPWAY, "convert", *map(str, arguments), "-o", str(output), "--quiet"],
        cwd=folder,
        capture_output=True,
        timeout=LIMIT_S,
    )
    stderr = done.stderr.decode()  # valid UTF-8 whatever was in the file
    assert done.returncode in (0, 3, 4, 6), f"exit {done.returncode}\n{stderr[-3000:]}"
    written = sorted(p.name for p in output.parent.iterdir())
    if done.returncode == 0:
        assert "m.onnx" in written
        for path in output.parent.iterdir():
            path.unlink()
    else:
        assert written == [], written
        assert re.match(r"error\[SW\d{4}\]: .", cause(stderr)), stderr
        # A line on stderr a problem, each of bounded length.
        assert len(stderr) < 20000, len(stderr)
    return done.returncode, stderr


def refused(folder, data, message, status=3, name="bad.pt2"):
    (folder / name).write_bytes(data)
    code, stderr = convert(folder, name)
    assert code == status, f"exit {code}\n{stderr}"
    assert sum(line.startswith("error") for line in stderr.splitlines()) == 1, stderr
    assert re.search(message, cause(stderr)), f"no {message!r} in\n{stderr}"


def changed(change):
    """The good program's JSON with `change` applied to it."""
    root = program()
    change(root)
    return root


def in_graph(change):
    return changed(lambda root: change(root["graph_module"]["graph"]))


def in_signature(change):
    return changed(lambda root: change(root["graph_module"]["signature"]))


def test_good_archives_convert(tmp_path):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        (tmp_path / "good.pt2").write_bytes(pack(members(), method))
        assert convert(tmp_path, "good.pt2")[0] == 0
    (tmp_path / "flat.pt2").write_bytes(archives.flat(b"\x80\x02}."))
    assert convert(tmp_path, "flat.pt2", "--weights", write(tmp_path, "w.safetensors", weights_file()))[0] == 0


def write(folder, name, data):
    (folder / name).write_bytes(data)
    return name


def weights_file(**changes):
    entry = {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]} | changes
    return safetensors({"w": entry}, bytes(128))


# ---- the zip

GOOD = pack(members())


def test_truncated_anywhere(tmp_path):
    for size in [*range(0, len(GOOD), 97), *range(len(GOOD) - 80, len(GOOD), 7)]:
        refused(tmp_path, GOOD[:size], r"bad\.pt2")


def directory_cases():
    [(at, local, name)] = [r for r in records(GOOD) if r[2].endswith("weight_0")]
    [(json_at, json_local, _)] = [r for r in records(GOOD) if r[2].endswith("model.json")]
    end = GOOD.rindex(b"PK\5\6")
    yield "size_beyond_file", patched(patched(GOOD, at + 20, "<I", 1 << 30), at + 24, "<I", 1 << 30), "weight_0"
    yield "sizes_disagree", patched(GOOD, at + 24, "<I", 64), "weight_0"
    yield "local_size_lies", patched(GOOD, local + 22, "<I", 64), "weight_0"
    yield (
        "shorter_than_the_tensor",
        patched(
            patched(patched(patched(GOOD, at + 20, "<I", 64), at + 24, "<I", 64), local + 18, "<I", 64),
            local + 22,
            "<I",
            64,
        ),
        "'w'",
    )
    yield "offset_beyond_file", patched(GOOD, at + 42, "<I", 1 << 30), "weight_0"
    yield "overlap", patched(GOOD, at + 42, "<I", json_local), "weight_0|model.json"
    yield "local_name_differs", patched(GOOD, local + 30, "<B", ord("x")), "weight_0"
    yield "local_signature", patched(GOOD, local, "<I", 0), "weight_0"
    yield "crc_of_json", patched(GOOD, json_at + 16, "<I", 1), "model.json"
    yield "directory_offset", patched(GOOD, end + 16, "<I", len(GOOD) + 5), "bad.pt2"
    yield "directory_count", patched(patched(GOOD, end + 10, "<H", 60000), end + 8, "<H", 60000), "bad.pt2"
    yield "directory_size", patched(GOOD, end + 12, "<I", 1 << 31), "bad.pt2"
    names = {k: v for k, v in members().items()}
    yield "nul_in_name", pack(names | {"m/a_b": b""}).replace(b"m/a_b", b"m/a\0b"), "NUL|name"
    yield "parent_in_name", pack(names | {"m/../../etc": b""}), r"\.\."
    yield "absolute_name", pack(names | {"/etc/x": b""}), "/etc/x"
    yield (
        "twice",
        pack(names | {"m/models/modem.json": b"{}"}).replace(b"m/models/modem.json", b"m/models/model.json"),
        "model.json",
    )


@pytest.mark.parametrize("case", list(directory_cases()), ids=lambda c: c[0])
def test_directory(tmp_path, case):
    refused(tmp_path, case[1], case[2])


def test_method_and_encryption(tmp_path):
    [(at, local, _)] = [r for r in records(GOOD) if r[2].endswith("model.json")]
    refused(tmp_path, patched(patched(GOOD, at + 10, "<H", 12), local + 8, "<H", 12), "model.json", status=4)
    refused(tmp_path, patched(patched(GOOD, at + 8, "<H", 1), local + 6, "<H", 1), "model.json", status=4)


def test_deflate_bomb(tmp_path):
    bomb = pack(members(root=b"[" + b" " * (64 << 20) + b"]"), zipfile.ZIP_DEFLATED)
    refused(tmp_path, bomb, "model.json")


def test_every_byte_of_the_directory(tmp_path):
    start = records(GOOD)[0][0]
    rng = random.Random(1)
    for at in range(start, len(GOOD), 3):
        write(tmp_path, "bad.pt2", patched(GOOD, at, "<B", rng.randrange(256)))
        convert(tmp_path, "bad.pt2")


# ---- the program

HUGE = 1 << 62


def first_arg(arg):
    def change(g):
        g["nodes"][1]["inputs"][0]["arg"] = arg

    return in_graph(change)


def sizes(name, values):
    def change(g):
        g["tensor_values"][name]["sizes"] = values

    return in_graph(change)


def nested_graph(depth):
    inner = {"name": "g", "graph": archives.graph([], [], [], {})}
    for _ in range(depth):
        call = node("torch.ops.higher_order.wrap", [("", {"as_graph": inner})], [])
        inner = {"name": "g", "graph": archives.graph([], [], [call], {})}
    return in_graph(lambda g: g["nodes"].append(node("torch.ops.higher_order.wrap", [("", {"as_graph": inner})], [])))


def expression(text):
    return sizes("x", [{"as_expr": {"expr_str": text, "hint": None}}, {"as_int": 8}])


PROGRAMS = {
    "not_json": (b"hello", "model.json"),
    "empty": (b"", "model.json"),
    "not_utf8": (b'{"a": "\xff\xfe"}', "model.json"),
    "array": (b"[]", "model.json"),
    "null": (b"null", "model.json"),
    "cut": (json.dumps(program()).encode()[:500], "model.json"),
    "deep_arrays": (b"[" * 10000 + b"]" * 10000, "model.json.*(nest|deep)"),
    "deep_objects": (b'{"a":' * 10000 + b"1" + b"}" * 10000, "model.json.*(nest|deep)"),
    "deep_in_metadata": (changed(lambda r: r.update(x=json.loads("[" * 900 + "]" * 900))), "model.json.*(nest|deep)"),
    "key_twice": (json.dumps(program()).encode().replace(b'"opset_version"', b'"torch_version"'), "torch_version"),
    "integer_too_large": (
        json.dumps(program()).encode().replace(b'"as_int": 8', b'"as_int": 99999999999999999999', 1),
        "model.json",
    ),
    "no_graph": (changed(lambda r: r.pop("graph_module")), "graph_module"),
    "no_version": (changed(lambda r: r.pop("schema_version")), "schema_version"),
    "argument_tag": (first_arg({"as_banana": 1}), "as_banana"),
    "two_tags": (first_arg({"as_int": 1, "as_float": 2.0}), "union"),
    "no_tag": (first_arg({}), "union"),
    "argument_of_wrong_type": (first_arg({"as_tensor": 5}), "relu"),
    "argument_of_wrong_kind": (first_arg({"as_string": "x"}), "relu.*'self'|'self'.*Tensor"),
    "argument_none": (first_arg({"as_none": True}), "'self'"),
    "unknown_argument": (in_graph(lambda g: g["nodes"][1]["inputs"][0].update(name="banana")), "banana"),
    "unknown_argument_kind": (in_graph(lambda g: g["nodes"][1]["inputs"][0].update(kind=7)), "7"),
    "input_spec_tag": (in_signature(lambda s: s["input_specs"].__setitem__(0, {"banana": {}})), "banana"),
    "output_spec_tag": (in_signature(lambda s: s["output_specs"].__setitem__(0, {"banana": {}})), "banana"),
    "result_tag": (in_graph(lambda g: g["nodes"][1].update(outputs=[{"as_banana": 1}])), "as_banana"),
    "fewer_input_specs": (in_signature(lambda s: s["input_specs"].pop()), "input_specs"),
    "fewer_output_specs": (in_signature(lambda s: s["output_specs"].pop()), "output_specs"),
    "dtype_number": (in_graph(lambda g: g["tensor_values"]["x"].update(dtype=99)), "ScalarType 99"),
    "layout_number": (in_graph(lambda g: g["tensor_values"]["x"].update(layout=99)), "Layout 99"),
    "own_result": (first_arg(tensor("relu")), "'relu' is used before it is defined"),
    "cycle": (in_graph(lambda g: g["nodes"][0]["inputs"][0].update(arg=tensor("relu"))), "'relu' is used before"),
    "undefined": (first_arg(tensor("nothing")), "'nothing'"),
    "undefined_output": (in_graph(lambda g: g.update(outputs=[tensor("nothing")])), "'nothing'"),
    "defined_twice": (in_graph(lambda g: g["nodes"].append(g["nodes"][1])), "'relu' is defined twice"),
    "no_tensor_value": (in_graph(lambda g: g["tensor_values"].pop("relu")), "'relu'"),
    "results_too_many": (
        in_graph(
            lambda g: (g["nodes"][1]["outputs"].append(tensor("extra")), g["tensor_values"].update(extra=meta(1)))
        ),
        "relu.*results",
    ),
    "negative_size": (sizes("x", [{"as_int": -2}, {"as_int": 8}]), "negative"),
    "huge_sizes": (sizes("x", [{"as_int": HUGE}, {"as_int": HUGE}]), "."),
    "rank_differs": (sizes("linear", [{"as_int": 2}]), "linear"),
    "sizes_differ": (sizes("linear", [{"as_int": 2}, {"as_int": 5}]), "linear"),
    "dtype_differs": (in_graph(lambda g: g["tensor_values"]["relu"].update(dtype=archives.I64)), "relu"),
    "expression_garbage": (expression("s0 +* 2"), "s0"),
    "expression_deep": (expression("(" * 5000 + "s0" + ")" * 5000), "model.json"),
    "expression_long": (expression("+".join(f"s{i}" for i in range(20000))), "model.json"),
    "expression_binary": (expression("s0\u0001"), "model.json"),
    "graphs_deep": (nested_graph(60), "nest|deep"),
    "range_empty": (
        changed(
            lambda r: (
                r.update(range_constraints={"s0": {"min_val": 9, "max_val": 3}}),
                r["graph_module"]["graph"]["tensor_values"]["x"]["sizes"].__setitem__(
                    0, {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)", "hint": None}}
                ),
            )
        ),
        "s0",
    ),
    "mutated_input_unknown": (
        in_signature(
            lambda s: s["output_specs"].__setitem__(
                0, {"user_input_mutation": {"arg": {"name": "relu"}, "user_input_name": "nothing"}}
            )
        ),
        "nothing",
    ),
}


@pytest.mark.parametrize("case", sorted(PROGRAMS))
def test_program(tmp_path, case):
    root, message = PROGRAMS[case]
    refused(tmp_path, pack(members(root=root)), message)


def test_versions(tmp_path):
    for major in (0, 6, 9, 1 << 40):
        refused(
            tmp_path,
            pack(members(root=changed(lambda r: r["schema_version"].update(major=major)))),
            f"schema {major}\\.20",
            status=4,
        )
    refused(tmp_path, pack(members() | {"m/archive_version": b"9"}), "archive version '9'", status=4)
    refused(tmp_path, pack(members() | {"m/byteorder": b"big"}), "byteorder.*big", status=4)


def test_no_program(tmp_path):
    refused(tmp_path, pack({"m/readme": b"x"}), "no exported program")
    refused(tmp_path, pack({}), "no exported program")


def test_names_that_would_break_lines(tmp_path):
    name = "a\n\u001b[31m\u202eerror[SW0000]: \u0000"
    root = json.loads(json.dumps(program()).replace('"linear"', json.dumps(name)))
    write(tmp_path, "odd.pt2", pack(members(root=root)))
    assert convert(tmp_path, "odd.pt2")[0] == 0
    root["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops." + name
    write(tmp_path, "odd.pt2", pack(members(root=root)))
    code, stderr = convert(tmp_path, "odd.pt2")
    assert code == 4 and not set("\u001b\u202e\u0000") & set(stderr), stderr


# ---- weights

WEIGHTS = {
    "dtype": (config(tensor_meta=meta(4, 8, dtype=8)), "'w'"),
    "sizes": (config(tensor_meta=meta(8, 4)), "'w'"),
    "missing_member": (config(path_name="weight_9"), "weight_9"),
    "path_leaves": (config(path_name="../../models/model.json"), "models/model.json"),
    "negative_size": (config(tensor_meta=meta(-4, 8)), "'w'"),
    "huge_size": (config(tensor_meta=meta(HUGE, HUGE)), "'w'"),
    "negative_stride": (config(tensor_meta=meta(4, 8, strides=[-8, 1])), "'w'"),
    "huge_stride": (config(tensor_meta=meta(4, 8, strides=[HUGE, 1])), "'w'"),
    "fewer_strides": (config(tensor_meta=meta(4, 8, strides=[1])), "'w'"),
    "offset_past_end": (config(tensor_meta=meta(4, 8, offset=1)), "'w'"),
    "negative_offset": (config(tensor_meta=meta(4, 8, offset=-1)), "'w'"),
    "huge_offset": (config(tensor_meta=meta(4, 8, offset=HUGE)), "'w'"),
    "no_meta": (config(tensor_meta=None), "'w'"),
    "symbolic": (
        config(tensor_meta=meta(4, 8) | {"sizes": [{"as_expr": {"expr_str": "s0", "hint": None}}, {"as_int": 8}]}),
        "'w'",
    ),
    "not_json": (b"\x00", "weights_config.json"),
    "no_config": ({}, "weights_config.json"),
    "config_of_wrong_type": ({"config": [1]}, "weights_config.json"),
}


@pytest.mark.parametrize("case", sorted(WEIGHTS))
def test_weights(tmp_path, case):
    weights, message = WEIGHTS[case]
    refused(tmp_path, pack(members(weights=weights)), message)


def test_weights_that_are_not_there(tmp_path):
    parts = members()
    del parts["m/data/weights/model_weights_config.json"], parts["m/data/weights/weight_0"]
    refused(tmp_path, pack(parts), "'?w'?")


SAFETENSORS = {
    "empty": (b"", "w.safetensors"),
    "short": (b"\x01\x00", "w.safetensors"),
    "header_too_long": (safetensors({}, length=1 << 40), "header"),
    "header_past_end": (safetensors({}, length=1000), "header"),
    "not_json": (safetensors(b"hello"), "w.safetensors"),
    "deep": (safetensors(b"[" * 10000 + b"]" * 10000), "w.safetensors.*(nest|deep)"),
    "past_end": (weights_file(data_offsets=[0, 256]), "'w'"),
    "negative": (weights_file(data_offsets=[-128, 0]), "'w'"),
    "reversed": (weights_file(data_offsets=[128, 0]), "'w'"),
    "size_differs": (weights_file(shape=[4, 7]), "'w'"),
    "overflow": (weights_file(shape=[HUGE, HUGE]), "'w'"),
    "negative_size": (weights_file(shape=[-4, -8]), "'w'"),
    "hole": (safetensors({"w": {"dtype": "F32", "shape": [4, 8], "data_offsets": [4, 132]}}, bytes(132)), "hole"),
    "overlap": (
        safetensors(
            {
                "w": {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]},
                "v": {"dtype": "U8", "shape": [64], "data_offsets": [64, 128]},
            },
            bytes(128),
        ),
        "overlap",
    ),
    "trailing": (
        safetensors({"w": {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]}}, bytes(129)),
        "after the last",
    ),
    "other_dtype": (weights_file(dtype="I32"), "w is i32"),
    "other_shape": (weights_file(shape=[8, 4]), r"w is f32\[8,4\]"),
    "missing": (safetensors({"v": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"x"), "missing: w"),
}


@pytest.mark.parametrize("case", sorted(SAFETENSORS))
def test_safetensors(tmp_path, case):
    data, message = SAFETENSORS[case]
    write(tmp_path, "good.pt2", GOOD)
    write(tmp_path, "w.safetensors", data)
    code, stderr = convert(tmp_path, "good.pt2", "--weights", "w.safetensors")
    assert code == 3, stderr
    assert re.search(message, cause(stderr)), stderr


PICKLES = {
    "system": b"cos\nsystem\n(S'touch owned'\ntR.",
    "eval": b"cbuiltins\neval\n(S'open(\"owned\", \"w\")'\ntR.",
    "object": b"ctorch.nn\nLinear\n.",
    "cut": b"\x80\x02}q\x00(X",
    "empty": b"",
    "stack": b"\x80\x02a.",
    "memo": b"\x80\x02h\x05.",
    "deep": b"\x80\x02" + b"(" * 100000 + b"t" * 100000 + b".",
    "long_string": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "list": b"\x80\x02]q\x00h\x00a.",
}


@pytest.mark.parametrize("case", sorted(PICKLES))
def test_pickles(tmp_path, case):
    write(tmp_path, "bad.pt2", archives.flat(PICKLES[case]))
    code, stderr = convert(tmp_path, "bad.pt2")
    assert code in (3, 4), stderr
    assert "serialized_state_dict.pt" in stderr, stderr
    assert not list(tmp_path.rglob("owned"))


# ---- anything


def test_damaged_at_random(tmp_path):
    rng = random.Random(2)
    plain = json.dumps(program()).encode()
    for _ in range(150):
        root = bytearray(plain)
        for _ in range(rng.randrange(1, 4)):
            root[rng.randrange(len(root))] = rng.choice(b'{}[]",:0123456789-e.x\x00\xff')
        write(tmp_path, "bad.pt2", pack(members(root=bytes(root))))
        convert(tmp_path, "bad.pt2")


def swapped(value, rng):
    """`value` with one part exchanged for another of the same document."""
    places, parts = [], []

    def walk(v):
        parts.append(v)
        for key in v.keys() if isinstance(v, dict) else range(len(v)) if isinstance(v, list) else ():
            places.append((v, key))
            walk(v[key])

    walk(value)
    holder, key = rng.choice(places)
    holder[key] = copy.deepcopy(rng.choice(parts))


def test_parts_exchanged_at_random(tmp_path):
    rng = random.Random(3)
    for _ in range(300):
        root = program()
        swapped(root, rng)
        write(tmp_path, "bad.pt2", pack(members(root=root)))
        convert(tmp_path, "bad.pt2")


def test_integers_that_are_wider_than_the_program_says(tmp_path):
    text = """slipway.ir 1
form functional
weights {
  $q: i8[4,32] @ splat(9)
  $s: f32[4,1] @ splat(1)
}
graph main(%q: i8[4,32] = buffer $q, %s: f32[4,1] = buffer $s, %x: f32[2,32]) {
  %y: f32[2,4] = slipway.quantized_linear.default(input=%x, weight=%q, scale=%s, zero_point=None, bias=None, \
    block_size=32, arithmetic=f32, dtype=f32, quant_min=-8, quant_max=7)
  return %y
}
"""
    refused(tmp_path, text.encode(), "weight 'q': integers that do not fit 4 bits", name="bad.sw")
    rows = text.replace("%x: f32[2,32]", "%x: i64[2]")
    rows = rows.replace("f32[2,4] = slipway.quantized_linear", "f32[2,32] = slipway.quantized_embedding")
    rows = rows.replace("input=%x, ", "").replace("bias=None", "indices=%x")
    refused(tmp_path, rows.encode(), "weight 'q': integers that do not fit 4 bits", name="bad.sw")


def test_an_element_of_a_vmap_that_is_none_of_its_batch(tmp_path):
    text = """slipway.ir 1
graph main(%x: {batch}, %w: f32[4,4]) {{
  %n: i64(3) = aten.sym_size.int(self=%x, dim=0)
  _ = torch._functorch.predispatch._vmap_increment_nesting(batch_size=%n, randomness="error")
  %e: f32[4] = torch._functorch.predispatch._add_batch_dim(self=%x, batch_dim=0, level=1)
  %p: f32[4] = aten.matmul.default(self=%e, other=%w)
  %y: f32[3,4] = torch._functorch.predispatch._remove_batch_dim(self=%p, level=1, batch_size=%n, out_dim=0)
  _ = torch._functorch.predispatch._vmap_decrement_nesting()
  return %y
}}
"""
    for batch in ("u8[3,4]", "f32[3,5]", "f32[3,4,1]"):
        refused(
            tmp_path,
            text.format(batch=batch).encode(),
            r"the result is declared as f32\[4\], an element of the batch is ",
            name="bad.sw",
        )
    (tmp_path / "good.sw").write_text(text.format(batch="f32[3,4]"))
    assert convert(tmp_path, "good.sw")[0] == 0


def test_the_most_negative_diagonal(tmp_path):
    (tmp_path / "far.sw").write_text("""slipway.ir 1
graph main(%x: f32[3,8]) {
  %d: f32[0] = aten.diagonal.default(self=%x, offset=-9223372036854775808)
  %t: f32[3,8] = aten.tril.default(self=%x, diagonal=-9223372036854775808)
  %u: f32[3,8] = aten.triu.default(self=%x, diagonal=-9223372036854775808)
  return %d, %t, %u
}
""")
    assert convert(tmp_path, "far.sw")[0] == 0


def test_inner_tensors_of_other_types_than_the_program_says(tmp_path):
    text = """slipway.ir 1
weights {{
  $w: f32[4,8] @ splat(1)
  $w.scale: f32[4,1] @ splat(1)
}}
graph main(%w: f32[4,8] = parameter $w, %x: f32[4,1]) {{
  %s: f32[4,1] = export.access_subclass_inner_tensor.default(src_subclass_tensor=%w, attr="scale")
  %t: {declared} = export.access_subclass_inner_tensor.default(src_subclass_tensor=%w, attr="{attribute}")
  %y: f32[4,1] = aten.mul.Tensor(self=%x, other=%s)
  %z: f32[4,1] = aten.add.Tensor(self=%y, other=%t)
  return %z
}}
"""
    for declared in ("u8[4,1]", "f32[1]", "f32[1,1]"):
        refused(
            tmp_path,
            text.format(declared=declared, attribute="scale").encode(),
            r"'w.scale' is declared as .*, it is f32\[4,1\]",
            name="bad.sw",
        )
    (tmp_path / "good.sw").write_text(text.format(declared="f32[4,1]", attribute="scale"))
    assert convert(tmp_path, "good.sw")[0] == 0


def test_members_that_inflate_to_a_memory_full(tmp_path):
    weight = "m/data/weights/weight_0"
    data = pack(members() | {weight: random.Random(1).randbytes(3 << 20)}, zipfile.ZIP_DEFLATED)
    [(directory, local)] = [(at, local) for at, local, name in records(data) if name == weight]
    data = patched(patched(data, directory + 24, "<I", 2 << 30), local + 22, "<I", 2 << 30)
    refused(tmp_path, data, f"inflate to many times what the archive takes, '{weight}' to {2 << 30} bytes", status=6)


def test_json_that_the_text_form_keeps(tmp_path):
    text = (
        'slipway.ir 1\n{} "{}"\ngraph main(%x: f32[2]) {{\n  %y: f32[2] = aten.relu.default(self=%x)\n  return %y\n}}\n'
    )
    for key in ("module_calls", "namedtuples"):
        for json_text in ('[{\\"fqn\\"{1}]', "[", "[] []"):
            refused(tmp_path, text.format(key, json_text).encode(), "what is kept of the JSON form", name="bad.sw")


def test_distinct_slices_whose_places_were_not_asked_for(tmp_path):
    (tmp_path / "unique.sw").write_text("""slipway.ir 1
dims {
  u0 = 0..inf
  u1 = 0..inf
}
graph main(%x: f32[2,3]) {
  %a: f32[2,u0], %b: i64[3], %c: i64[u0] = aten.unique_dim.default(self=%x, dim=1, sorted=true, return_inverse=false, \
    return_counts=false)
  %d: f32[2,u1], %e: i64[3], %f: i64[u1] = aten.unique_dim_consecutive.default(self=%x, dim=1, return_inverse=false, \
    return_counts=false)
  return %a, %b, %c, %d, %e, %f
}
""")
    code, stderr = convert(tmp_path, "unique.sw")
    assert code == 0, stderr
