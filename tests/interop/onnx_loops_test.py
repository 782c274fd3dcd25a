"""Loops of ONNX models whose number of turns a run decides: what they stack, sequences that grow in them, and branches
of other sizes; converted to libraries, to ONNX again and to PT2, beside onnxruntime and torch."""

import numpy as np
import pytest
from onnx_source_test import check, parsed

pytestmark = pytest.mark.filterwarnings("ignore")

# The loop's number of turns: of a count, of a condition on a counter, of both, of a condition on data.
HEADS = {
    "count": ("n", "true", "i0", "again = Identity (going)"),
    "counter": ("", "more", "i0", "again = Less (next, n)"),
    "floats": ("", "more", "i0", "f = Cast <to = 1> (next)\nm = Cast <to = 1> (n)\nagain = Greater (m, f)"),
    "both": ("two", "true", "i0", "again = Less (next, n)"),
    "step": ("", "true", "i1", "again = LessOrEqual (next, n)"),
    "data": ("", "true", "i0", "one = Constant <value = float {1}> ()\nagain = Less (s, one)"),
}


def loop(body, results, kind, carried="v0", carried_type="float[3]", behind="", outputs="float[k, 3] y"):
    count, begins, start, again = HEADS[kind]
    return f"""<ir_version: 9, opset_import: ["" : 17]>
      g (float[n, 3] x, float[3] v0) => ({outputs}) {{
        shape = Shape <start = 0, end = 1> (x)
        scalar = Constant <value_ints = [0]> ()
        n = Squeeze (shape, scalar)
        true = Constant <value = bool {{1}}> ()
        two = Constant <value = int64 {{2}}> ()
        i0 = Constant <value = int64 {{0}}> ()
        i1 = Constant <value = int64 {{1}}> ()
        more = Less (i0, n)
        empty = SequenceEmpty ()
        {results} = Loop ({count}, {begins}, {start}, {carried}) <body = turn
            (int64 t, bool going, int64 i, {carried_type} v) => (bool again, int64 next, {carried_type} w {body[0]}) {{
          step = Constant <value = int64 {{1}}> ()
          next = Add (i, step)
          zero = Constant <value_ints = [0]> ()
          row = Gather (x, t)
          sum = ReduceSum <keepdims = 0> (row, zero)
          s = Abs (sum)
          {body[1]}
          {again}
        }}>
        {behind}
      }}"""


def sets():
    rng = np.random.default_rng(0)
    out = []
    for n in (1, 2, 5):
        x = rng.standard_normal((n, 3)).astype(np.float32)
        x[n - 1] = 9.0  # ends the loop on data
        out.append((x, rng.standard_normal(3).astype(np.float32)))
    return out


@pytest.mark.parametrize("kind", HEADS)
def test_results_of_turns_are_stacked(slipway, tmp_path, kind):
    body = (", float[3] y", "w = Add (v, row)\ny = Mul (w, row)")
    text = loop(body, "last, total, y", kind, outputs="float[3] total, float[k, 3] y")
    check(slipway, parsed(tmp_path / "m.onnx", text), *sets())


@pytest.mark.parametrize("kind", HEADS)
def test_sequences_that_grow(slipway, tmp_path, kind):
    """Members are joined along an axis of theirs and along one of its own, counted, and taken by an index that is
    data."""
    body = ("", "both = Mul (row, row)\nfront = SequenceInsert (v, row)\nw = SequenceInsert (front, both)")
    behind = """y = ConcatFromSequence <axis = 0> (list)
        z = ConcatFromSequence <axis = -1, new_axis = 1> (list)
        length = SequenceLength (list)
        at = Sub (length, two)
        first = SequenceAt (list, at)
        longer = SequenceInsert (list, v0)
        last = Constant <value = int64 {-1}> ()
        given = SequenceAt (longer, last)"""
    text = loop(body, "end, list", kind, "empty", "seq(float[3])", behind,
                "float[k] y, float[3, k] z, int64 length, float[3] given")  # fmt: skip
    check(slipway, parsed(tmp_path / "m.onnx", text), *sets()[1:])


def test_a_sequence_with_members_grows(slipway, tmp_path):
    body = ("", "w = SequenceInsert (v, row)")
    behind = "y = ConcatFromSequence <axis = 0, new_axis = 1> (list)"
    text = loop(body, "end, list", "counter", "begun", "seq(float[3])", behind)
    text = text.replace("empty = SequenceEmpty ()", "begun = SequenceConstruct (v0, v0)")
    check(slipway, parsed(tmp_path / "m.onnx", text), *sets())


def test_parts_of_one_row_each_are_any_number(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
      g (float[n, 3] x, int64 i) => (float[1, 3] y, float[3, m] z, int64 length) {
        rows = SplitToSequence <axis = 0> (x)
        flat = SplitToSequence <axis = 0, keepdims = 0> (x)
        y = SequenceAt (rows, i)
        z = ConcatFromSequence <axis = 1, new_axis = 1> (flat)
        length = SequenceLength (flat)
      }"""
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    check(slipway, parsed(tmp_path / "m.onnx", text), (x, np.array(2)), (x[:1], np.array(-1)))


def test_rows_between_numbers_of_data(slipway, tmp_path):
    """embedding_bag with any number of bags, as torch.onnx writes it."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
      g (float[n, 3] x, int64[b] offsets) => (float[b, 3] y) {
        one = Constant <value_ints = [1]> ()
        zero = Constant <value_ints = [0]> ()
        start = Constant <value = int64 {0}> ()
        size = Shape <start = 0, end = 1> (x)
        bags = Size (offsets)
        ends = Concat <axis = 0> (offsets, size)
        empty = SequenceEmpty ()
        more = Less (start, bags)
        end, list = Loop (, more, start, empty) <body = turn (int64 t, bool going, int64 i, seq(float[1, 3]) l)
                                                 => (bool again, int64 next, seq(float[1, 3]) w) {
          at = Reshape (i, one)
          at1 = Add (at, one)
          two = Add (at1, one)
          first = Slice (ends, at, at1)
          last = Slice (ends, at1, two)
          none = Equal (first, last)
          row = If (none) <then_branch = nothing () => (float[1, 3] r) {
              r = Constant <value = float[1, 3] {0.0, 0.0, 0.0}> ()
            }, else_branch = some () => (float[1, 3] r) {
              rows = Slice (x, first, last)
              sum = ReduceSum (rows, zero)
              count = Sub (last, first)
              f = Cast <to = 1> (count)
              r = Div (sum, f)
            }>
          w = SequenceInsert (l, row)
          step = Constant <value = int64 {1}> ()
          next = Add (i, step)
          again = Less (next, bags)
        }>
        y = ConcatFromSequence <axis = 0> (list)
      }"""
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    check(slipway, parsed(tmp_path / "m.onnx", text), (x, np.array([0, 2, 2])), (x, np.array([1])), pt2=False)


@pytest.mark.parametrize(
    "body, why",
    [
        ("rows = Range (t, n, step)\nw = SequenceInsert (v, rows)", "sizes differ from turn to turn"),
        ("w = SequenceErase (v)", "a sequence that a loop carries"),
        ("front = Constant <value = int64 {0}> ()\nw = SequenceInsert (v, row, front)", "at a position"),
    ],
)
def test_other_sequences_are_refused_by_name(slipway, tmp_path, body, why):
    dtype = "int64[q]" if "Range" in body else "float[3]"
    text = loop(("", body), "end, list", "counter", "empty", f"seq({dtype})", "y = SequenceLength (list)", "int64 y")
    if "int64" in dtype:
        text = text.replace("SequenceEmpty ()", "SequenceEmpty <dtype = 7> ()")
    done = slipway("convert", parsed(tmp_path / "m.onnx", text), "-o", tmp_path / "m.so", status=4)
    assert why in done.stderr


def test_branches_of_other_sizes(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
      g (float[n, 3] x, int64[1] first, int64[1] last, bool c) => (float[k, 3] y, float[3] z) {
        zero = Constant <value_ints = [0]> ()
        size = Shape <start = 0, end = 1> (x)
        y = If (c) <then_branch = a () => (float[p, 3] r) { r = Slice (x, first, size) },
                    else_branch = b () => (float[q, 3] r) { r = Slice (x, first, last) }>
        z = ReduceSum <keepdims = 0> (y, zero)
      }"""
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    given = [(x, np.array([1]), np.array([3]), np.array(c)) for c in (True, False)]
    check(slipway, parsed(tmp_path / "m.onnx", text), *given)


def test_a_branch_with_one_result_is_a_tensor_in_torch(slipway, tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
      g (float[3] x, bool c) => (float[3] y) {
        z = If (c) <then_branch = a () => (float[3] r) { r = Neg (x) },
                    else_branch = b () => (float[3] r) { r = Abs (x) }>
        y = Exp (z)
      }"""
    x = np.array([1, -2, 3], np.float32)
    check(slipway, parsed(tmp_path / "m.onnx", text), (x, np.array(True)), (x, np.array(False)))


def test_names_that_torch_writes_otherwise(slipway, tmp_path):
    """Inputs called as Python's builtins and as what torch.fx makes of these; results called as their nodes."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
      g (float[4, 2] slice, float[4, 2] slice_1, float[2] v) => (float[2] scan, float[4, 2] scan_1, float[2] scan_2,
                                                                 float[4, 2] scan_3) {
        scan, scan_1 = Scan <num_scan_inputs = 2, body = a (float[2] slice, float[2] slice_1, float[2] slice_2)
                             => (float[2] n, float[2] y) {
          d = Sub (slice_1, slice_2)
          n = Add (slice, d)
          y = Mul (n, slice_2)
        }> (v, slice, slice_1)
        scan_2, scan_3 = Scan <num_scan_inputs = 2, body = b (float[2] max, float[2] input, float[2] input_1)
                               => (float[2] n, float[2] y) {
          d = Sub (input, input_1)
          n = Sub (max, d)
          y = Mul (n, input_1)
        }> (scan, slice_1, scan_1)
      }"""
    rng = np.random.default_rng(0)
    given = tuple(rng.standard_normal(s).astype(np.float32) for s in ((4, 2), (4, 2), (2,)))
    check(slipway, parsed(tmp_path / "m.onnx", text), given)
