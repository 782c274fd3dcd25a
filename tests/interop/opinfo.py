"""Samples of torch's own operator database, as programs to export, convert and compare.

A case is an operator's variant in one dtype ("linalg.norm.float32"); its samples are calls of it. Tensors of a call
become inputs of the program and everything else a constant. Some samples share a program: exporting is what takes time.
"""

import importlib.util
import random
import sys
import types
import unittest
import warnings

import numpy as np
import onnxruntime
import torch
from diagnostics import cause
from torch.utils import _pytree as pytree

if importlib.util.find_spec("expecttest") is None:  # torch's test helpers import it; the samples need nothing of it
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db

# What torch's own tests do for each sample takes longer than to make it: they look for a test's name on the stack, and
# seed devices that are not there.
common_utils.extract_test_fn = lambda: None
torch.manual_seed = torch.default_generator.manual_seed

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool,
    )
}  # fmt: skip
# dtype: relative error, absolute error as a multiple of the output's root mean square.
TOLERANCES = {
    torch.float64: (1e-6, 1e-7),
    torch.float32: (1e-4, 3e-5),
    torch.float16: (1e-2, 5e-3),
    torch.bfloat16: (4e-2, 2e-2),
}
PER_PROGRAM = 8  # samples at most
ONNX_BFLOAT16 = 16  # TensorProto.BFLOAT16
UNSET = {  # give memory as they find it
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_",
}  # fmt: skip

# whose indices among equal elements torch leaves open: open_results_test.py
OPEN_INDICES = {"topk", "sort", "argsort", "kthvalue"}
SIZES_TOGETHER = {"nn.functional.embedding_bag"}  # whose offsets fit one size only
# Errors that are absolute, and not small beside results that are: ONNX Runtime's Sigmoid is a rational fit, and so is
# torch's own Bessel function between its zeros.
LOOSE = {"sigmoid", "special.expit", "nn.functional.silu", "nn.functional.logsigmoid", "special.bessel_y1"}
LOOSE_ERROR = 1e-6


class Skip(Exception):
    """Nothing to compare: torch does not export the call, or no value of it can enter or leave ONNX Runtime."""


class Failure(Exception):
    def __init__(self, status, reason):
        super().__init__(f"{status}: {reason}")
        self.status, self.reason = status, reason


def operators():
    """Name -> OpInfo, in the database's order."""
    return {info.name + ("." + info.variant_test_name if info.variant_test_name else ""): info for info in op_db}


def calls(info, dtype):
    """The samples in `dtype`, the same ones each time."""
    for generator in (torch.manual_seed, np.random.seed, random.seed):
        generator(0)
    try:
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception as error:  # samples of some dtypes cannot even be made
        raise Skip(f"no samples: {error}") from error
    return [Call(info, (sample.input, *sample.args), sample.kwargs) for sample in samples]


def as_tensor(leaf):
    """A number, constant or symbolic, as a tensor; what is neither number nor tensor is no result."""
    if isinstance(leaf, torch.Tensor):
        return leaf
    for kinds, dtype in (
        ((bool, torch.SymBool), torch.bool), ((int, torch.SymInt), torch.int64),
        ((float, torch.SymFloat), torch.float64),
    ):  # fmt: skip
        if isinstance(leaf, kinds):
            return torch.scalar_tensor(leaf, dtype=dtype)
    return None


class Call:
    """One call of an operator, its tensors apart from the rest."""

    def __init__(self, info, arguments, keywords):
        self.info = info
        leaves, self.structure = pytree.tree_flatten((tuple(arguments), dict(keywords)))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[k].detach() for k in self.places]

    def __call__(self, tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, keywords = pytree.tree_unflatten(leaves, self.structure)
        result = self.info.op(*arguments, **keywords)
        return [tensor for leaf in pytree.tree_leaves(result) if (tensor := as_tensor(leaf)) is not None]

    def __repr__(self):
        rest = [leaf for leaf in self.leaves if leaf is not None]
        return f"{[(str(t.dtype)[6:], *t.shape) for t in self.tensors]} {rest}"


class Calls(torch.nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, *tensors):
        results = []
        for call in self.calls:
            results += call(tensors[: len(call.tensors)])
            tensors = tensors[len(call.tensors) :]
        return results


def clones(tensors):
    return [tensor.clone() for tensor in tensors]


def eager(module, tensors):
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            return [x.resolve_conj().resolve_neg() for x in module(*clones(tensors))]
    except Exception as error:
        raise Skip(f"eager: {error}") from error


def operators_of(program):
    """The overloads a program calls, in subgraphs too."""
    nodes = [
        node for module in program.graph_module.modules() if hasattr(module, "graph") for node in module.graph.nodes
    ]
    return {node.target for node in nodes if isinstance(node.target, torch._ops.OpOverload)}


def difference(got, want, info):
    """What tells two results of an operator apart, or None. info None: whatever their values."""
    if tuple(got.shape) != tuple(want.shape):
        return f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if info is None or info.name in UNSET or (info.name in OPEN_INDICES and want.dtype == torch.int64):
        return None
    if not want.dtype.is_floating_point:
        return None if torch.equal(got, want) else f"{int((got != want).sum())} of {want.numel()} differ"
    relative, absolute = TOLERANCES[want.dtype]
    least = LOOSE_ERROR if info.name in LOOSE else 1e-9
    got, want = got.double(), want.double()
    finite = want[want.isfinite()]
    size = finite.square().mean().sqrt().item() if finite.numel() else 1.0
    if torch.allclose(got, want, rtol=relative, atol=absolute * size + least, equal_nan=True):
        return None
    return f"off by {(got - want).abs().nan_to_num(torch.inf).max().item():.3g} at a size of {size:.3g}"


def feed(tensor):
    tensor = tensor.contiguous()
    if tensor.dtype == torch.bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(tensor.view(torch.int16).numpy(), ONNX_BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())


def take(value):
    if value.data_type() == "tensor(bfloat16)":
        if 0 in value.shape():
            return torch.empty(value.shape(), dtype=torch.bfloat16)
        return torch.from_dlpack(value._ortvalue.to_dlpack()).clone()
    array = np.array(value.numpy())
    # torch knows one of its two names
    return torch.from_numpy(array.astype(np.uint64) if array.dtype.char == "Q" else array)


def runs_in_onnx(tensors):
    """ONNX Runtime has neither complex tensors nor ones that are not strided."""
    return all(tensor.layout == torch.strided and not tensor.is_complex() for tensor in tensors)


class Converted:
    """A program of some calls, through slipway."""

    def __init__(self, calls, slipway, folder, mode):
        self.calls, self.module = calls, Calls(calls)
        self.tensors = [tensor for call in calls for tensor in call.tensors]
        if not runs_in_onnx(self.tensors):
            raise Skip("an input is not a real strided tensor")
        wanted = eager(self.module, self.tensors)
        if not wanted or not runs_in_onnx(wanted):
            raise Skip("a result is not a real strided tensor")
        shapes = {
            "tensors": tuple({d: torch.export.Dim.AUTO for d, n in enumerate(t.shape) if n > 1} for t in self.tensors)
        }
        try:
            self.program = torch.export.export(
                self.module,
                tuple(clones(self.tensors)),
                dynamic_shapes=shapes if mode == "dynamic" else None,
                strict=False,
            )
            if mode == "decomposed":
                self.program = self.program.run_decompositions()
            torch.export.save(self.program, folder / "in.pt2")
            self.operators = operators_of(self.program)
            self.random = any(torch.Tag.nondeterministic_seeded in operator.tags for operator in self.operators)
        except Exception as error:
            raise Skip(f"export: {error}") from error
        done = slipway("convert", folder / "in.pt2", "-o", folder / "out.onnx", "--quiet")
        if done.returncode:
            raise Failure("convert", cause(done.stderr))
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        settings.log_severity_level = 4
        try:
            self.session = onnxruntime.InferenceSession(str(folder / "out.onnx"), settings, ["CPUExecutionProvider"])
        except Exception as error:
            raise Failure("load", str(error).splitlines()[0]) from error

    def compare(self, tensors=None):
        tensors = self.tensors if tensors is None else tensors
        wanted = eager(self.module, tensors)
        names = [value.name for value in self.session.get_inputs()]
        try:
            results = self.session.run_with_ort_values(None, dict(zip(names, map(feed, clones(tensors)), strict=True)))
        except Exception as error:
            raise Failure("exec", str(error).splitlines()[0]) from error
        if len(results) != len(wanted):
            raise Failure("mismatch", f"{len(results)} results, expected {len(wanted)}")
        for k, (got, want) in enumerate(zip(results, wanted)):
            if what := difference(take(got), want, None if self.random else self.calls[0].info):
                raise Failure("mismatch", f"result {k}: {what}")

    def grown(self):
        """Inputs with every symbolic size one larger; None where that cannot be. Whole numbers are repeated, as they
        may index; real ones are new ones of the same range, as equal ones would leave results open."""
        if self.calls[0].info.name in SIZES_TOGETHER:
            return None
        sizes = {}  # of symbols
        names = {spec.arg.name for spec in self.program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"}
        inputs = [
            node.meta["val"] for node in self.program.graph.nodes if node.op == "placeholder" and node.name in names
        ]
        for tensor, fake in zip(self.tensors, inputs, strict=True):
            for known, size in zip(tensor.shape, fake.shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                    sizes[size.node.expr] = known + 1
        torch.manual_seed(0)
        grown = []
        for tensor, fake in zip(self.tensors, inputs, strict=True):
            for d, size in enumerate(fake.shape):
                if isinstance(size, torch.SymInt):
                    size = size.node.expr.subs(sizes)
                    if not size.is_Integer:
                        return None
                    tensor = tensor.index_select(d, torch.arange(int(size)) % tensor.shape[d])
            if (
                any(isinstance(size, torch.SymInt) for size in fake.shape)
                and tensor.is_floating_point()
                and tensor.isfinite().any()
            ):
                low, high = tensor[tensor.isfinite()].aminmax()
                tensor = (low + (high - low) * torch.rand(tensor.shape, dtype=torch.float64)).to(tensor.dtype)
            grown.append(tensor)
        try:
            self.program.module()(*clones(grown))  # what torch guarded on
        except Exception:
            return None
        return grown if sizes else None


def check(calls, slipway, folder, mode="plain"):
    """Compares calls of an operator, in one program: as exported ("plain"), run through torch's decompositions
    ("decomposed"), or with all sizes dynamic that can be ("dynamic"), which runs at two sizes. Gives the operators in
    the program; Failure when results differ, Skip when there is nothing to compare."""
    converted = Converted(calls, slipway, folder, mode)
    converted.compare()
    if mode == "dynamic" and (tensors := converted.grown()):
        try:
            converted.compare(tensors)
        except Failure as failure:
            raise Failure(
                "mismatch" if failure.status == "mismatch" else "sizes", f"other sizes: {failure}"
            ) from failure
    return converted.operators
