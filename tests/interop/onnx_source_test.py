"""ONNX models as a source: what torch.onnx, onnxruntime's quantizer and onnx's own node tests make, converted to
libraries, to ONNX again and to PT2, beside onnxruntime and torch."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import saturation
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from safetensors.numpy import load_file, save_file

pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
AUTO = torch.export.Dim.AUTO


def by_onnxruntime(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs)})


def by_library(slipway, library, inputs):
    work = library.parent
    save_file({f"input.{i}": np.require(x, requirements="C") for i, x in enumerate(inputs)}, work / "in.st")
    slipway("run", library, "--inputs", work / "in.st", "--outputs", work / "out.st")
    got = load_file(work / "out.st")
    return [got[f"output.{i}"] for i in range(len(got))]


def by_torch(archive, inputs):
    with torch.no_grad():
        out = torch.export.load(archive).module()(*map(torch.from_numpy, inputs))
    return [x.numpy() for x in ([out] if isinstance(out, torch.Tensor) else out)]


def near(got, wanted, tolerance=1e-4):
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, tolerance, tolerance * max(1e-6, np.abs(w).max(initial=0)))


def check(slipway, model, *sets, pt2=True, tolerance=1e-4):
    """Each target at each set of inputs is as onnxruntime has the model."""
    slipway("convert", model, "-o", model.with_suffix(".so"))
    again = model.with_name("again.onnx")
    slipway("convert", model, "-o", again)
    onnx.checker.check_model(again, full_check=True)
    if pt2:
        slipway("convert", model, "-o", model.with_suffix(".pt2"))
    for inputs in sets:
        wanted = by_onnxruntime(model, inputs)
        near(by_library(slipway, model.with_suffix(".so"), inputs), wanted, tolerance)
        near(by_onnxruntime(again, inputs), wanted, tolerance)
        if pt2:
            near(by_torch(model.with_suffix(".pt2"), inputs), wanted, tolerance)


def parsed(path, text, **weights):
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(x, name) for name, x in weights.items())
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def test_node_tests(slipway):
    """ONNX's own tests of operators: none is wrong or fails, and no fewer are right than were."""
    judge = ROOT / "scripts" / "judge_onnx_nodes.py"
    ran = subprocess.run([sys.executable, judge], capture_output=True, text=True)
    last = ran.stdout.splitlines()[-2]
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) ([a-z ]+?)(?:,| of)", last)}
    assert ran.returncode == 0 and "failed" not in counts, ran.stdout[-3000:]
    assert counts["right"] >= 1540 and counts["right with constant inputs"] >= 220, ran.stdout[-3000:]


def test_constant_inputs(slipway, tmp_path):
    """Axes that the model takes as an input are constants; names and types must be those of inputs."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3] x, int64[1] axes) => (float[m] y) { y = ReduceSum <keepdims = 0> (x, axes) }"""
    model, x = parsed(tmp_path / "m.onnx", text), np.random.RandomState(0).randn(4, 3).astype(np.float32)
    library, file = tmp_path / "m.so", tmp_path / "c.safetensors"
    assert "axes that the program computes" in slipway("convert", model, "-o", library, status=4).stderr
    save_file({"axes": np.array([-1])}, file)
    slipway("convert", model, "-o", library, "--constant-inputs", file)
    near(by_library(slipway, library, [x]), [x.sum(-1)])
    save_file({"axes": np.array([1], np.int32), "y": np.array([1])}, file)
    refused = slipway("convert", model, "-o", library, "--constant-inputs", file, status=3).stderr
    assert "'axes' has another type" in refused and "'y' is no input; those are x, axes" in refused
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", library, "--constant-inputs", file, status=2)


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm, self.up = torch.nn.BatchNorm2d(8), torch.nn.ConvTranspose2d(8, 4, 2, 2)

    def forward(self, x):
        y = torch.nn.functional.hardswish(self.norm(self.b(self.a(x))))
        y = torch.nn.functional.max_pool2d(y, 3, 2, 1)
        return torch.nn.functional.interpolate(self.up(y), scale_factor=2.0, mode="bilinear"), y.mean((2, 3))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.lstm = torch.nn.LSTM(32, 16, bidirectional=True, batch_first=True)

    def forward(self, ids):
        y, (h, _) = self.lstm(self.layer(self.words(ids)))
        return y, h


@pytest.mark.parametrize(
    "module, args", [(Convolutions, (torch.randn(2, 3, 32, 40),)), (Transformer, (torch.arange(14).view(2, 7),))]
)
@pytest.mark.parametrize("dynamo", [True, False])
def test_what_torch_makes(slipway, tmp_path, module, args, dynamo):
    torch.manual_seed(0)
    net, path = module().eval(), tmp_path / "m.onnx"
    if dynamo:
        torch.onnx.export(net, args, path, dynamo=True, verbose=False, dynamic_shapes=({0: AUTO},), external_data=False)
    else:
        torch.onnx.export(net, args, path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    x = args[0].numpy()
    check(slipway, path, [x], [np.concatenate([x, x, x])])


class Images(CalibrationDataReader):
    def __init__(self, count):
        self.left = [np.random.RandomState(i).randn(1, 3, 16, 16).astype(np.float32) for i in range(count)]

    def get_next(self):
        return {"x": self.left.pop()} if self.left else None


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("per_channel", [False, True])
def test_static_quantization(slipway, tmp_path, form, per_channel):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, 2),
                              torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 10))  # fmt: skip
    net.eval()
    torch.onnx.export(net, (torch.randn(1, 3, 16, 16),), tmp_path / "f.onnx", dynamo=False, input_names=["x"])
    model = tmp_path / "q.onnx"
    quantize_static(
        tmp_path / "f.onnx", model, Images(4), quant_format=form, per_channel=per_channel, weight_type=QuantType.QInt8
    )
    slipway("convert", model, "-o", model.with_suffix(".so"))
    x = np.random.RandomState(9).randn(1, 3, 16, 16).astype(np.float32)
    (got,), (wanted,) = by_library(slipway, model.with_suffix(".so"), [x]), by_onnxruntime(model, [x])
    # A step of the result's scale, where a rounding of floats decides.
    assert np.abs(got - wanted).max() <= 0.02 * np.abs(wanted).max()


@pytest.mark.skipif(saturation.SATURATES, reason=saturation.WHY)
def test_dynamic_quantization(slipway, tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()
    torch.onnx.export(net, (torch.randn(4, 32),), tmp_path / "f.onnx", dynamo=False, input_names=["x"])
    model = tmp_path / "q.onnx"
    quantize_dynamic(tmp_path / "f.onnx", model)
    assert "MatMulInteger" in {n.op_type for n in onnx.load(model).graph.node}
    check(slipway, model, [np.random.RandomState(1).randn(4, 32).astype(np.float32)], pt2=False)


LOOPS = {
    # A branch reads a weight, a constant and a value of the graph around it.
    "if": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3] x, bool c) => (float[n, 3] y) {
          z = Mul (x, w)
          y = If (c) <then_branch = t () => (float[n, 3] a) { one = Constant <value_float = 1.0> () a = Add (z, one) },
                      else_branch = e () => (float[n, 3] b) { b = Sub (x, w) }>
        }""",
    # Newton's steps until they are near enough, the count as an input.
    "while": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3] x, int64 most) => (float[n, 3] y) {
          go = Constant <value = bool {1}> ()
          y = Loop (most, go, x) <body = step (int64 i, bool going, float[n, 3] v) => (bool again, float[n, 3] next) {
            half = Constant <value_float = 0.5> ()
            q = Div (x, v)
            s = Add (v, q)
            next = Mul (s, half)
            d = Sub (next, v)
            a = Abs (d)
            m = ReduceMax <keepdims = 0> (a)
            eps = Constant <value_float = 0.01> ()
            again = Greater (m, eps)
          }>
        }""",
    # Results of each turn, stacked.
    "stacked": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3] x, int64 most) => (float[n, 3] y, float[k, n, 3] all) {
          go = Constant <value = bool {1}> ()
          y, all = Loop (most, go, x) <body = step (int64 i, bool going, float[n, 3] v)
                                        => (bool again, float[n, 3] next, float[n, 3] each) {
            again = Identity (going)
            f = Cast <to = 1> (i)
            s = Add (v, f)
            next = Mul (s, w)
            each = Neg (next)
          }>
        }""",
    "scan": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[3] h, float[n, 3] x) => (float[3] y, float[n, 3] all) {
          y, all = Scan <num_scan_inputs = 1, scan_input_directions = [1],
                         body = step (float[3] s, float[3] v) => (float[3] next, float[3] each) {
            a = Mul (s, w)
            next = Add (a, v)
            each = Tanh (next)
          }> (h, x)
        }""",
}


@pytest.mark.parametrize("kind", LOOPS)
def test_control_flow(slipway, tmp_path, kind):
    model = parsed(tmp_path / "m.onnx", LOOPS[kind], w=np.array([0.5, 1.5, 2.0], np.float32))
    x = np.abs(np.random.RandomState(0).randn(4, 3)).astype(np.float32) + 0.5
    sets = {
        "if": [[x, np.array(True)], [x[:2], np.array(False)]],
        "while": [[x, np.array(20)], [x, np.array(2)], [x[:1], np.array(0)]],
        "stacked": [[x, np.array(3)], [x[:2], np.array(5)]],
        "scan": [[x[0], x], [x[1], x[:2]]],
    }[kind]
    check(slipway, model, *sets, pt2=False)


def test_a_constant_condition_takes_its_branch(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3] x) => (float[n] y) {
          s = Shape <start = 1> (x)
          three = Constant <value_ints = [3]> ()
          same = Equal (s, three)
          y = If (same) <then_branch = t () => (float[n] a) { a = ReduceSum <keepdims = 0> (x, axis) },
                         else_branch = e () => (float[n, 3] b) { b = Identity (x) }>
        }"""
    model = parsed(tmp_path / "m.onnx", text, axis=np.array([1]))
    check(slipway, model, [np.ones((2, 3), np.float32)], [np.ones((5, 3), np.float32)])


class WrittenOut(torch.nn.Module):
    """Attention as eager models of transformers have it, with a mask of the kind given."""

    def __init__(self, mask):
        super().__init__()
        self.kind, self.qkv = mask, torch.nn.Linear(32, 96)
        self.register_buffer("causal", torch.ones(64, 64, dtype=torch.bool).tril().view(1, 1, 64, 64))

    def forward(self, x, mask):
        heads = self.qkv(x).view(x.shape[0], x.shape[1], 3, 4, 8).permute(2, 0, 3, 1, 4)
        q, k, v = heads[0], heads[1], heads[2]
        least = torch.finfo(x.dtype).min
        if self.kind == "boolean":
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[:, None, None, :].bool())
        w = torch.matmul(q, k.transpose(-1, -2)) / 8**0.5
        if self.kind == "added":
            w = w + (1.0 - mask[:, None, None, :].to(x.dtype)) * least
        elif self.kind == "causal":
            w = torch.where(self.causal[:, :, : x.shape[1], : x.shape[1]], w, torch.full([], least))
        return torch.matmul(torch.softmax(w, -1), v)


@pytest.mark.parametrize("kind", ["none", "added", "boolean", "causal"])
@pytest.mark.parametrize("source", ["pt2", 18, 23])
def test_attention_is_one_operator(slipway, tmp_path, kind, source):
    module = WrittenOut(kind).eval()
    args = torch.randn(2, 24, 32), torch.ones(2, 24, dtype=torch.int64)
    dynamic = ({0: AUTO, 1: AUTO}, {0: AUTO, 1: AUTO})
    if kind == "causal" and source != "pt2":
        dynamic = ({0: AUTO}, {0: AUTO})  # that the buffer is long enough is nothing that ONNX says
    program = torch.export.export(module, args, dynamic_shapes=dynamic)
    model, library = tmp_path / f"m.{source if source == 'pt2' else 'onnx'}", tmp_path / "m.so"
    if source == "pt2":
        torch.export.save(program, model)
    else:
        torch.onnx.export(program, dynamo=True, opset_version=source, verbose=False).save(model)
    slipway("convert", model, "-o", library)
    operators = slipway("inspect", library, "--ops").stdout
    assert "scaled_dot_product_attention" in operators and "softmax" not in operators, operators
    for batch, length in ((2, 24), (3, 24), *(((1, 7),) if 1 in dynamic[0] else ())):
        x, mask = torch.randn(batch, length, 32), (torch.arange(length) < length - 3).long().expand(batch, -1)
        with torch.no_grad():
            wanted = module(x, mask).numpy()
        inputs = [x.numpy(), mask.numpy()]
        save_file({f"input.{i}": np.require(t, requirements="C") for i, t in enumerate(inputs)}, tmp_path / "in.st")
        slipway("run", library, "--inputs", tmp_path / "in.st", "--outputs", tmp_path / "out.st")
        near([load_file(tmp_path / "out.st")["output.0"]], [wanted])


SEQUENCES = {
    # Parts of two rows, the last of what is left.
    "parts": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[5, 3] x) => (float[3, 5] y, int64 n, float[2, 3] first) {
          two = Constant <value = int64 {2}> ()
          parts = SplitToSequence <axis = 0> (x, two)
          zero = Constant <value = int64 {0}> ()
          first = SequenceAt (parts, zero)
          n = SequenceLength (parts)
          more = SequenceInsert (parts, w, zero)
          less = SequenceErase (more)
          all = ConcatFromSequence <axis = 0> (less)
          y = Transpose (all)
        }""",
    # A list that a loop appends to, of members from outside.
    "loop": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3] x) => (float[2, 3, n] y) {
          go = Constant <value = bool {1}> ()
          three = Constant <value = int64 {3}> ()
          rows = SplitToSequence <axis = 1, keepdims = 0> (x)
          empty = SequenceEmpty ()
          list = Loop (three, go, empty) <body = step (int64 i, bool going, seq(float[n]) l)
                                           => (bool again, seq(float[n]) next) {
            again = Identity (going)
            row = SequenceAt (rows, i)
            f = Cast <to = 1> (i)
            sum = Add (row, f)
            next = SequenceInsert (l, sum)
          }>
          once = ConcatFromSequence <axis = 0, new_axis = 1> (list)
          pair = SequenceConstruct (once, once)
          y = ConcatFromSequence <axis = 0, new_axis = 1> (pair)
        }""",
    # A loop without a count, whose end is known; rows between places that are data.
    "until": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[5, 3] x, int64[3] ends) => (float[2, 3] y) {
          go = Constant <value = bool {1}> ()
          first = Constant <value = int64 {0}> ()
          one = Constant <value_ints = [1]> ()
          empty = SequenceEmpty ()
          last, list = Loop (, go, first, empty) <body = step (int64 t, bool going, int64 i, seq(float[1, 3]) l)
                                                => (bool again, int64 next, seq(float[1, 3]) more) {
            at = Reshape (i, one)
            at1 = Add (at, one)
            two = Add (at1, one)
            begin = Slice (ends, at, at1)
            end = Slice (ends, at1, two)
            rows = Slice (x, begin, end)
            axis = Constant <value_ints = [0]> ()
            sum = ReduceSum (rows, axis)
            more = SequenceInsert (l, sum)
            step1 = Constant <value = int64 {1}> ()
            next = Add (i, step1)
            most = Constant <value = int64 {2}> ()
            again = Less (next, most)
          }>
          y = ConcatFromSequence <axis = 0> (list)
        }""",
    # Sizes gathered in a list.
    "sizes": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 6] x) => (float[n, 2, 3] y) {
          s = Shape (x)
          zero = Constant <value = int64 {0}> ()
          n = Gather (s, zero)
          two = Constant <value = int64 {2}> ()
          three = Constant <value = int64 {3}> ()
          list = SequenceConstruct (n, two, three)
          shape = ConcatFromSequence <axis = 0, new_axis = 1> (list)
          y = Reshape (x, shape)
        }""",
}


@pytest.mark.parametrize("kind", SEQUENCES)
def test_sequences_of_known_length(slipway, tmp_path, kind):
    model = parsed(tmp_path / "m.onnx", SEQUENCES[kind], w=np.ones((1, 3), np.float32))
    random = np.random.RandomState(0).randn
    sets = {"parts": [(5, 3)], "loop": [(4, 3), (1, 3)], "until": [(5, 3)], "sizes": [(2, 6), (5, 6)]}[kind]
    more = [np.array([0, 2, 5])] if kind == "until" else []
    check(slipway, model, *[[random(*s).astype(np.float32), *more] for s in sets], pt2=False)


def test_a_sequence_that_the_program_gives_is_refused(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3] x) => (seq(float[n]) y) { y = SplitToSequence <axis = 1, keepdims = 0> (x) }"""
    model = parsed(tmp_path / "m.onnx", text)
    assert "a sequence that the program gives" in slipway("convert", model, "-o", tmp_path / "m.so", status=4).stderr


def test_refusals_name_all_operators(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17, "mine" : 1]>
        g (float[3] x, string[2] t) => (float[3] y, int64[m, 1] p) { y = mine.Magic (x) p = TfIdfVectorizer
          <max_gram_length = 1, max_skip_count = 0, min_gram_length = 1, mode = "TF", ngram_counts = [0],
           ngram_indexes = [0], pool_strings = ["a"]> (t) }"""
    model = onnx.parser.parse_model(text)
    onnx.save(model, tmp_path / "m.onnx")
    ran = slipway("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.so", status=4)
    assert "mine.Magic" in ran.stderr and "TfIdfVectorizer" in ran.stderr and not (tmp_path / "m.so").exists()
    ran = slipway("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.pt2", status=4)


def nodes_and_names(model):
    """Of a file: operators, names of what nodes give, names of initializers, inputs and outputs in order."""
    graph = onnx.load(model).graph
    made = [n for n in graph.node if n.op_type != "Constant"]
    stored = {t.name for t in graph.initializer} | {n.output[0] for n in graph.node if n.op_type == "Constant"}
    ends = [x.name for x in [*graph.input, *graph.output] if x.name not in stored]
    return sorted(n.op_type for n in made), {name for n in made for name in n.output if name}, stored, ends


ROUND_TRIPS = {
    "activations": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3, h, w] x) => (float[n, 3, 1, 1] y) {
          low = Constant <value_float = -0.5> ()
          clipped = Clip (x, low)
          gate = HardSigmoid <alpha = 0.2, beta = 0.6> (clipped)
          softer = Softplus (gate)
          signed = Softsign (softer)
          scaled = Selu (signed)
          sloped = PRelu (scaled, slope)
          over = ThresholdedRelu <alpha = 0.1> (sloped)
          curved = Celu <alpha = 0.7> (over)
          folded = Conv <pads = [0, 1, 2, 1], kernel_shape = [3, 3]> (curved, kernel)
          y = GlobalAveragePool (folded) }""",
    "reductions": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3, h, w] x) => (float[n, 3] l1, float[n, 1, h, w] l2, float[n, h] squares, float logs) {
          shape = Constant <value_ints = [0, 3, -1]> ()
          flat = Reshape (x, shape)
          l1 = ReduceL1 <axes = [2], keepdims = 0> (flat)
          l2 = ReduceL2 <axes = [1]> (x)
          largest = ReduceMax <axes = [3], keepdims = 0> (x)
          squares = ReduceSumSquare <axes = [1], keepdims = 0> (largest)
          positive = Abs (x)
          logs = ReduceLogSum <keepdims = 0> (positive) }""",
    "places": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3, h, w] x, int64[n, 3, h, w] last) => (float[n, 3, p, q] y, float[n, 3, h, w] z) {
          from = Constant <value_ints = [1, -5]> ()
          to = Constant <value_ints = [9, -1]> ()
          axes = Constant <value_ints = [2, 3]> ()
          part = Slice (x, from, to, axes)
          y = Pad <mode = "reflect"> (part, pads)
          taken = GatherElements <axis = 1> (x, last)
          z = ScatterElements <axis = 1> (x, last, taken) }""",
    "recurrent": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[t, n, 5] x) => (float[t, n, 8] z, float[1, n, 4] state) {
          one = Constant <value_ints = [1]> ()
          both = Constant <value_ints = [0, 0, -1]> ()
          y, h, state = LSTM <hidden_size = 4> (x, w, r, b)
          line = Squeeze (y, one)
          y2 = GRU <hidden_size = 4, linear_before_reset = 1, direction = "bidirectional"> (line, w2, r2, b2)
          turned = Transpose <perm = [0, 2, 1, 3]> (y2)
          z = Reshape (turned, both) }""",
}


@pytest.mark.parametrize("kind", ROUND_TRIPS)
def test_a_round_trip_keeps_nodes_and_names(slipway, tmp_path, kind):
    random = np.random.RandomState(0)
    normal = lambda *sizes: random.randn(*sizes).astype(np.float32)
    stored = {
        "activations": {"slope": normal(3, 1, 1), "kernel": normal(3, 3, 3, 3)},
        "reductions": {},
        "places": {"pads": np.array([0, 0, 1, 0, 0, 0, 2, 1])},
        "recurrent": {
            "w": normal(1, 16, 5), "r": normal(1, 16, 4), "b": normal(1, 32),
            "w2": normal(2, 12, 4), "r2": normal(2, 12, 4), "b2": normal(2, 24),
        },
    }[kind]  # fmt: skip
    model, again = parsed(tmp_path / "m.onnx", ROUND_TRIPS[kind], **stored), tmp_path / "again.onnx"
    slipway("convert", model, "-o", again, "--opset", "18")
    onnx.checker.check_model(again, full_check=True)
    operators, results, constants, ends = nodes_and_names(model)
    operators_again, results_again, constants_again, ends_again = nodes_and_names(again)
    assert operators_again == operators and ends_again == ends and set(stored) <= constants_again
    if kind != "recurrent":  # whose results without the dim of directions are PyTorch's
        assert results_again <= results  # one that nothing reads may be left out
    inputs = [normal(7, 2, 5) if kind == "recurrent" else normal(2, 3, 12, 10)]
    if kind == "places":
        inputs.append(np.full((2, 3, 12, 10), -1))
    near(by_onnxruntime(again, inputs), by_onnxruntime(model, inputs))


WHOLE = {
    "spectra": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, t] x, float[n, 12, 1] z) => (float[n, f, 9, 2] y, float[n, 8, 2] part, float[n, 12, 2] back) {
          y = STFT (x, step, window)
          part = DFT <axis = 1, onesided = 1> (z, length)
          whole = DFT <axis = 1> (z)
          back = DFT <axis = 1, inverse = 1> (whole) }""",
    "recurrent": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[t, n, 5] x, int32[n] lengths)
            => (float[t, 1, n, 4] y, float[2, n, 4] h, float[1, n, 4] state, float[t, 1, n, 4] back) {
          y, , state = LSTM <hidden_size = 4> (x, w, r, b, lengths)
          , h = GRU <hidden_size = 4, direction = "bidirectional"> (x, w2, r2, b2, lengths)
          back = RNN <hidden_size = 4, direction = "reverse", activations = ["Tanh"]> (x, w3, r3) }""",
    "places": """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 4, w] x, int64[k, 2] at, float[k, w] rows)
            => (float[n, 4, w] put, float[k, w] got, float[n, 4, w] back, float[n, 4, p] edge, float[n, n] sums) {
          put = ScatterND (x, at, rows)
          got = GatherND (put, at)
          from = Constant <value_ints = [-1]> ()
          to = Constant <value_ints = [-9223372036854775807]> ()
          axis = Constant <value_ints = [2]> ()
          back = Slice (x, from, to, axis, from)
          edge = Pad <mode = "edge"> (x, pads)
          sums = Einsum <equation = "ncw, mcw -> nm"> (x, back) }""",
}


@pytest.mark.parametrize("opset", ["18", "20"])
@pytest.mark.parametrize("kind", WHOLE)
def test_nodes_that_would_be_many_stay_whole(slipway, tmp_path, kind, opset):
    """In a model that is written again, also in the words of another opset; a library has them in parts."""
    random = np.random.RandomState(0)
    normal = lambda *sizes: random.randn(*sizes).astype(np.float32)
    stored = {
        "spectra": {"step": np.array(5), "window": np.hanning(16).astype(np.float32), "length": np.array(14)},
        "recurrent": {
            "w": normal(1, 16, 5), "r": normal(1, 16, 4), "b": normal(1, 32), "w3": normal(1, 4, 5),
            "w2": normal(2, 12, 5), "r2": normal(2, 12, 4), "b2": normal(2, 24), "r3": normal(1, 4, 4),
        },
        "places": {"pads": np.array([0, 0, 3, 0, 0, -1])},
    }[kind]  # fmt: skip
    model, again = parsed(tmp_path / "m.onnx", WHOLE[kind], **stored), tmp_path / "again.onnx"
    slipway("convert", model, "-o", again, "--opset", opset)
    onnx.checker.check_model(again, full_check=True)
    operators, results, constants, ends = nodes_and_names(model)
    operators_again, results_again, constants_again, ends_again = nodes_and_names(again)
    assert operators_again == operators and ends_again == ends
    assert results_again == results and set(stored) <= constants_again
    inputs = {
        "spectra": [normal(2, 40), normal(2, 12, 1)],
        "recurrent": [normal(6, 3, 5), np.array([6, 2, 4], np.int32)],
        "places": [normal(2, 4, 7), np.array([[0, 3], [1, -1], [-1, 0]]), normal(3, 7)],
    }[kind]
    near(by_onnxruntime(again, inputs), by_onnxruntime(model, inputs))
    if opset == "20":
        slipway("convert", model, "-o", model.with_suffix(".so"))
        near(by_library(slipway, model.with_suffix(".so"), inputs), by_onnxruntime(model, inputs))
        slipway("convert", model, "-o", again, "--dtype", "bf16", "--keep-io-types")
        assert not {"STFT", "LSTM", "Einsum"} & set(nodes_and_names(again)[0])


@pytest.mark.parametrize("signed", [False, True])
def test_a_dynamically_quantized_lstm(slipway, tmp_path, signed):
    """Input and states are quantized as ONNX Runtime does it: each product's left operand as it is met."""
    random, dtype = np.random.RandomState(0), np.int8 if signed else np.uint8
    text = """<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[t, n, 24] x) => (float[t, 2, n, 16] y, float[2, n, 16] h, float[2, n, 16] state) {
          y, h, state = com.microsoft.DynamicQuantizeLSTM <hidden_size = 16, direction = "bidirectional">
              (x, w, r, b, , , , p, w_scale, w_zero, r_scale, r_zero) }"""
    lists = (2, 64) if signed else (2,)
    weights = {
        name: random.randint(-60 if signed else 0, 60 if signed else 120, (2, rows, 64)).astype(dtype)
        for name, rows in [("w", 24), ("r", 16)]
    }
    weights |= {name: random.rand(*lists).astype(np.float32) / 200 for name in ("w_scale", "r_scale")}
    weights |= {name: np.full(lists, 0 if signed else 55, dtype) for name in ("w_zero", "r_zero")}
    weights |= {name: random.randn(2, n).astype(np.float32) for name, n in [("b", 128), ("p", 48)]}
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(x, name) for name, x in weights.items())
    onnx.save(model, tmp_path / "m.onnx")
    for steps in (1, 7):
        x = random.randn(steps, 1, 24).astype(np.float32)  # of several rows it quantizes each thread's apart
        wanted = by_onnxruntime(tmp_path / "m.onnx", [x])
        slipway("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
        near(by_library(slipway, tmp_path / "m.so", [x]), wanted, 1e-5)
        slipway("convert", tmp_path / "m.onnx", "-o", tmp_path / "again.onnx")
        assert nodes_and_names(tmp_path / "again.onnx")[0] == ["DynamicQuantizeLSTM"]
        near(by_onnxruntime(tmp_path / "again.onnx", [x]), wanted, 1e-6)


def test_sizes_stay_lists_and_round_trips_are_judged(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, t] x, int64[1] end) => (float[n, 40] padded, float[n, k] part) {
          size = Shape <start = 1, end = 2> (x)
          missing = Sub (all, size)
          pads = Mul (missing, behind)
          padded = Pad (x, pads)
          from = Constant <value_ints = [0]> ()
          axis = Constant <value_ints = [1]> ()
          part = Slice (x, from, end, axis) }"""
    stored = {"all": np.array(40), "behind": np.array([0, 0, 0, 1])}
    model = parsed(tmp_path / "m.onnx", text, **stored)
    judge = [sys.executable, ROOT / "scripts" / "judge_onnx_round_trip.py", model]
    good = subprocess.run(judge, capture_output=True, text=True)
    assert good.returncode == 0 and "    5     5   1.00" in good.stdout and "same" in good.stdout, good.stdout
    bad = subprocess.run([*judge, "--most", "0.9"], capture_output=True, text=True)
    assert bad.returncode == 1 and "1 above 0.9" in bad.stdout, bad.stdout


def test_halves_stay_as_they_are(slipway, tmp_path):
    """No casts around operators of f16, as the model has none."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
        g (float16[n, 8] x) => (float16[n, 4] y) {
          h = Gemm <transB = 1> (x, w, b)
          norm = LayerNormalization (h, s)
          y = Softmax (norm) }"""
    random = np.random.RandomState(0)
    weights = {
        name: random.randn(*sizes).astype(np.float16) for name, sizes in [("w", (4, 8)), ("b", (4,)), ("s", (4,))]
    }
    model, again = parsed(tmp_path / "m.onnx", text, **weights), tmp_path / "again.onnx"
    slipway("convert", model, "-o", again)
    assert nodes_and_names(again)[0] == ["Gemm", "LayerNormalization", "Softmax"]
    x = random.randn(3, 8).astype(np.float16)
    near(by_onnxruntime(again, [x]), by_onnxruntime(model, [x]), 1e-2)


def test_outputs_that_are_inputs_keep_their_names(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
        g (float[3] x) => (float[3] same, float[3] a, float[3] b) {
          same = Identity (x) a = Relu (x) b = Identity (a) }"""
    model, again = parsed(tmp_path / "m.onnx", text), tmp_path / "again.onnx"
    slipway("convert", model, "-o", again)
    assert nodes_and_names(again)[3] == ["x", "same", "a", "b"]
    x = np.array([-1, 0, 2], np.float32)
    near(by_onnxruntime(again, [x]), [x, np.maximum(x, 0), np.maximum(x, 0)])


def test_run_and_verify_by_own_kernels(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 8] x, int64[n] i) => (float[n, 4] y, int64[n] j) {
          y = Gemm <transB = 1> (x, w, b)
          j = Add (i, i) }"""
    random = np.random.RandomState(0)
    model = parsed(
        tmp_path / "m.onnx", text, w=random.randn(4, 8).astype(np.float32), b=random.randn(4).astype(np.float32)
    )
    inputs = [random.randn(3, 8).astype(np.float32), np.array([1, 2, 3])]
    save_file({"x": inputs[0], "i": inputs[1]}, tmp_path / "in.st")
    files = ["--inputs", tmp_path / "in.st", "--outputs", tmp_path / "out.st"]
    steps = json.loads(slipway("run", model, *files, "--json").stdout)["steps"]
    got = load_file(tmp_path / "out.st")
    near([got["output.0"], got["output.1"]], by_onnxruntime(model, inputs))
    assert steps > 0  # of a plan, which onnxruntime has none of
    theirs = slipway("run", model, *files, "--json", "--onnxruntime", "--python", sys.executable)
    assert json.loads(theirs.stdout)["steps"] == 0

    report = json.loads(slipway("verify", model, "--python", sys.executable, "--json").stdout)
    outputs = report["sets"][0]["outputs"]
    assert report["agree"] and [o["name"] for o in outputs] == ["y", "j"] and report["b"] == "a native library of A"
    assert all(outputs[0]["reference"][side] < 1e-5 for side in "ab")  # from the program in f64
    assert "SW6002" in slipway("verify", model, "--python", "/bin/false", status=4).stderr
    other = onnx.load(model)
    other.graph.node[1].domain = "mine"
    other.opset_import.append(onnx.helper.make_opsetid("mine", 1))
    onnx.save(other, model)
    assert "mine.Add" in slipway("verify", model, "--python", sys.executable, status=4).stderr
    assert "mine.Add" in slipway("run", model, *files, status=4).stderr
