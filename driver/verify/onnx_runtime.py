"""Runs an ONNX model with onnxruntime for `slipway verify`, which passes this text to `python -c`.

A request comes as JSON on standard input, the reply goes as JSON to standard output; the bytes of tensors go through
two files in memory. Needs onnxruntime and numpy. What goes wrong is a reply with "error" and its kind: "import",
"load", or of one set of inputs "run".
"""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # nothing is imported from the current folder
import json
import os
import re

reply_fd = os.dup(1)
os.dup2(2, 1)  # what libraries print is no part of the reply


def finish(reply):
    data = json.dumps(reply).encode()
    while data:
        data = data[os.write(reply_fd, data) :]
    os._exit(0)


try:
    import ctypes

    import numpy as np
    import onnxruntime as ort
except Exception as e:
    finish({"error": f"{sys.executable}: {type(e).__name__}: {e}", "kind": "import"})

# slipway's name: numpy's, the number that ONNX has for a type without one in numpy, ONNX Runtime's name
TYPES = {
    "f64": ("float64", None, "double"),
    "f32": ("float32", None, "float"),
    "f16": ("float16", None, "float16"),
    "i64": ("int64", None, "int64"),
    "i32": ("int32", None, "int32"),
    "i16": ("int16", None, "int16"),
    "i8": ("int8", None, "int8"),
    "u64": ("uint64", None, "uint64"),
    "u32": ("uint32", None, "uint32"),
    "u16": ("uint16", None, "uint16"),
    "u8": ("uint8", None, "uint8"),
    "bool": ("bool", None, "bool"),
    "bf16": ("uint16", 16, "bfloat16"),
    "f8e4m3fn": ("uint8", 17, "float8e4m3fn"),
    "f8e4m3fnuz": ("uint8", 18, "float8e4m3fnuz"),
    "f8e5m2": ("uint8", 19, "float8e5m2"),
    "f8e5m2fnuz": ("uint8", 20, "float8e5m2fnuz"),
}
NAMES = {f"tensor({row[2]})": name for name, row in TYPES.items()}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data):
    """The numbers and contents of a Protobuf message's fields."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if key & 7 == 2 else (8 if key & 7 == 1 else 4, at)
            value = data[at : at + size]
            at += size
        yield key >> 3, value


def encode(number, content):
    def put(value):
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    return put(number << 3 | 2) + put(len(content)) + content


def opset(path):
    """The version of ONNX's own operators that the model declares."""
    with open(path, "rb") as f:
        model = f.read()
    for number, part in fields(memoryview(model)):
        if number == 8:
            entry = dict(fields(part))
            if not bytes(entry.get(1, b"")):
                return entry.get(2, 0)
    return 0


def nodes_of(graph):
    """(inputs, outputs) of a graph's nodes. What nested graphs read is among the inputs of the node they belong to."""
    for number, node in fields(graph):
        if number == 1:
            inputs, outputs = [], []
            for number, part in fields(node):
                if number == 1:
                    inputs.append(bytes(part).decode())
                elif number == 2:
                    outputs.append(bytes(part).decode())
                elif number == 5:
                    for number, nested in fields(part):
                        if number in (6, 11):
                            inputs += [name for reads, _ in nodes_of(nested) for name in reads]
                            inputs += output_names(nested)
            yield inputs, outputs


def output_names(graph):
    return [
        bytes(name).decode() for number, value in fields(graph) if number == 12 for n, name in fields(value) if n == 1
    ]


def family(name):
    """What one node of a program becomes makes NAME, NAME.1, NAME.2, …"""
    return re.sub(r"\.\d+$", "", name)


def results(model, wanted, exact):
    """The values of wanted families that are read outside of them, in order, and those of them that are outputs of the
    model. With `exact` wanted are values of just these names."""
    graphs = [graph for number, graph in fields(memoryview(model)) if number == 7]
    outputs = {name for graph in graphs for name in output_names(graph)}
    nodes = [node for graph in graphs for node in nodes_of(graph)]
    if exact:
        return [name for _, makes in nodes for name in makes if name in wanted], outputs
    leaving = set(outputs)
    for reads, makes in nodes:
        own = {family(name) for name in makes} | set(makes)
        leaving |= {name for name in reads if name not in own and family(name) not in own}
    made = [
        name for _, makes in nodes for name in makes if name in leaving and (name in wanted or family(name) in wanted)
    ]
    return made, outputs


def session(request):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = request["threads"]
    if not request["optimize"]:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if request["observe"] is None:
        return ort.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"]), [], []
    with open(request["model"], "rb") as f:
        model = f.read()
    made, outputs = results(model, set(request["observe"]), request["exact"])
    observed = [name for name in made if name not in outputs]
    # Messages that are written one after the other are read as one: graphs merge, and get these outputs at the end.
    model += encode(7, b"".join(encode(12, encode(1, name.encode())) for name in observed))
    folder = os.path.dirname(os.path.abspath(request["model"]))
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]), observed, made


def feed(t, data):
    numpy_name, number, _ = TYPES[t["dtype"]]
    array = np.frombuffer(
        data, np.dtype(numpy_name), offset=t["offset"], count=int(np.prod(t["shape"], dtype=np.int64))
    )
    array = array.reshape(t["shape"])
    if number is None:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, number)


def take(value, out, at):
    name = NAMES.get(value.data_type())
    if name is None:
        raise ValueError(f"an output is {value.data_type()}")
    shape = list(value.shape())
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(TYPES[name][0]).itemsize
    if size:
        out.write(ctypes.string_at(value.data_ptr(), size))
    return {"dtype": name, "shape": shape, "offset": at, "bytes": size}


def main():
    request = json.load(sys.stdin)
    try:
        s, observed, made = session(request)
    except Exception as e:
        lacks = "NOT_IMPLEMENTED" in str(e) or "Could not find an implementation" in str(e)
        finish({"error": str(e), "kind": "lacks" if lacks else "load"})
    reply = {
        "version": ort.__version__,
        "inputs": [{"name": i.name, "type": NAMES.get(i.type, i.type), "rank": len(i.shape)} for i in s.get_inputs()],
        "outputs": [o.name for o in s.get_outputs()][: len(s.get_outputs()) - len(observed)],
        "observed": observed,
        "made": made,
        "opset": opset(request["model"]),
        "results": [],
    }
    names = [i.name for i in s.get_inputs()]
    at = 0
    with open(f"/proc/self/fd/{request['inputs_fd']}", "rb") as f:
        data = f.read()
    with os.fdopen(request["outputs_fd"], "wb") as out:
        for inputs in request["sets"]:
            try:
                if len(inputs) != len(names):
                    raise ValueError(f"the model takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}")
                values = s.run_with_ort_values(None, {n: feed(t, data) for n, t in zip(names, inputs)})
                tensors = []
                for v in values:
                    if (len(tensors) >= len(reply["outputs"]) or request["lenient"]) and v.data_type() not in NAMES:
                        tensors.append(None)  # a value that is no tensor
                        continue
                    tensors.append(take(v, out, at))
                    at += tensors[-1]["bytes"]
                reply["results"].append({"tensors": tensors})
            except Exception as e:
                reply["results"].append({"error": str(e), "kind": "run"})
    finish(reply)


main()
