"""Small PT2 archives and safetensors files made by hand, so that each part of them can be made wrong.

A good archive is a dict of members (name -> bytes) around a dict for the program's JSON; pack() makes the zip. The
cases of hostile_test.py change one of the three.
"""

import io
import json
import struct
import zipfile

F32, I64 = 7, 5


def meta(*sizes, dtype=F32, strides=None, offset=0):
    if strides is None:
        strides = [1] * len(sizes)
        for i in reversed(range(len(sizes) - 1)):
            strides[i] = strides[i + 1] * max(sizes[i + 1], 1)
    return {
        "dtype": dtype,
        "sizes": [{"as_int": s} for s in sizes],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": s} for s in strides],
        "storage_offset": {"as_int": offset},
        "layout": 7,
    }


def tensor(name):
    return {"as_tensor": {"name": name}}


def node(target, inputs, outputs):
    return {
        "target": target,
        "inputs": [{"name": name, "arg": arg, "kind": 1} for name, arg in inputs],
        "outputs": outputs,
        "metadata": {},
        "is_hop_single_tensor_return": None,
    }


def graph(inputs, outputs, nodes, tensors):
    return {
        "inputs": inputs,
        "outputs": outputs,
        "nodes": nodes,
        "tensor_values": tensors,
        "sym_int_values": {},
        "sym_bool_values": {},
        "sym_float_values": {},
        "custom_obj_values": {},
        "is_single_tensor_return": False,
    }


def program():
    """relu(linear(x, w))."""
    return {
        "graph_module": {
            "graph": graph(
                [tensor("p_w"), tensor("x")],
                [tensor("relu")],
                [
                    node(
                        "torch.ops.aten.linear.default",
                        [("input", tensor("x")), ("weight", tensor("p_w"))],
                        [tensor("linear")],
                    ),
                    node("torch.ops.aten.relu.default", [("self", tensor("linear"))], [tensor("relu")]),
                ],
                {"p_w": meta(4, 8), "x": meta(2, 8), "linear": meta(2, 4), "relu": meta(2, 4)},
            ),
            "signature": {
                "input_specs": [
                    {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},
                    {"user_input": {"arg": tensor("x")}},
                ],
                "output_specs": [{"user_output": {"arg": tensor("relu")}}],
            },
            "module_call_graph": [],
            "metadata": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 20},
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0",
        "guards_code": [],
    }


def config(**changes):
    entry = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta(4, 8)}
    return {"config": {"w": entry | changes}}


def members(root=None, weights=None):
    text = lambda value: value if isinstance(value, bytes) else json.dumps(value).encode()
    return {
        "m/archive_format": b"pt2",
        "m/archive_version": b"0",
        "m/byteorder": b"little",
        "m/models/model.json": text(program() if root is None else root),
        "m/data/weights/weight_0": struct.pack("<32f", *range(32)),
        "m/data/weights/model_weights_config.json": text(config() if weights is None else weights),
    }


def pack(parts, method=zipfile.ZIP_STORED):
    """`parts` is a dict, or a list of pairs where names repeat."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in parts.items() if isinstance(parts, dict) else parts:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def records(archive):
    """(directory offset, local offset, name) of each member of what pack() made."""
    end = archive.rindex(b"PK\5\6")
    count, _, at = struct.unpack_from("<HII", archive, end + 10)
    found = []
    for _ in range(count):
        name, extra, comment = struct.unpack_from("<HHH", archive, at + 28)
        [local] = struct.unpack_from("<I", archive, at + 42)
        found.append((at, local, archive[at + 46 : at + 46 + name].decode()))
        at += 46 + name + extra + comment
    return found


def patched(archive, offset, form, value):
    out = bytearray(archive)
    struct.pack_into(form, out, offset, value)
    return bytes(out)


def torch_save(pickle):
    """The zip of torch.save around a pickle."""
    return pack({"archive/data.pkl": pickle, "archive/byteorder": b"little", "archive/version": b"3\n"})


def flat(pickle):
    """The container of torch 2.5 to 2.7, with this pickle for weights."""
    root = program()
    root["schema_version"] = {"major": 8, "minor": 3}
    return pack(
        {
            "version": b"2.7",
            "serialized_exported_program.json": json.dumps(root).encode(),
            "serialized_state_dict.pt": torch_save(pickle),
            "serialized_constants.pt": torch_save(b"\x80\x02}."),
        }
    )


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data
