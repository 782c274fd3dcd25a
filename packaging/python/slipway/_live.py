"""Models of a running torch, taken where they are: modules are exported, programs handed over as their graph's bytes,
and weights lent as DLPack tensors."""

from __future__ import annotations

import copy
import importlib
import io
import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._flex import without_flex_attention
from ._library import Archive, Lent, not_supported, usage_error
from ._program import Diagnostic, SlipwayError

# torch's dtypes by name as DLPack has them: code, bits, lanes.
_DTYPES: dict[str, tuple[int, int, int]] = {
    "bool": (6, 8, 1),
    "uint8": (1, 8, 1),
    "uint16": (1, 16, 1),
    "uint32": (1, 32, 1),
    "uint64": (1, 64, 1),
    "int8": (0, 8, 1),
    "int16": (0, 16, 1),
    "int32": (0, 32, 1),
    "int64": (0, 64, 1),
    "float16": (2, 16, 1),
    "float32": (2, 32, 1),
    "float64": (2, 64, 1),
    "bfloat16": (4, 16, 1),
    "complex64": (5, 64, 1),
    "complex128": (5, 128, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
}


def torch_or_none() -> Any:
    """torch, where the process has loaded it: nothing of torch's can be there otherwise."""
    return sys.modules.get("torch")


def is_module(x: Any) -> bool:
    torch = torch_or_none()
    return torch is not None and isinstance(x, torch.nn.Module)


def is_program(x: Any) -> bool:
    torch = torch_or_none()
    return torch is not None and "torch.export" in sys.modules and isinstance(x, torch.export.ExportedProgram)


def is_tensors(x: Any) -> bool:
    """A state dict."""
    torch = torch_or_none()
    return (
        torch is not None
        and isinstance(x, Mapping)
        and len(x) > 0
        and all(isinstance(t, torch.Tensor) for t in x.values())
    )


# ---- Exporting


def export(module: Any, args: Iterable[Any] | None, kwargs: Mapping[str, Any] | None, dynamic: Any) -> Any:
    """An ExportedProgram. `dynamic`: None for sizes as the arguments have them, True for sizes as free as torch finds
    them to be, else torch.export's dynamic_shapes."""
    torch = importlib.import_module("torch")
    importlib.import_module("torch.export")
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise not_supported(
            f"'{name}' is a TorchScript module, which torch.export does not take",
            "pass the torch.nn.Module that it was made from",
        )
    if args is None and kwargs is None:
        raise usage_error(
            f"'{name}' is a module, and there are no arguments to export it with",
            "give args=(…) and kwargs={…} as the module is called; sizes that vary: dynamic=True",
        )
    if isinstance(args, torch.Tensor) or args is None:
        args = () if args is None else (args,)
    try:
        args = tuple(args)
    except TypeError:
        raise usage_error(
            f"args is a {type(args).__name__}, not a sequence of the module's arguments", "give args=(x, …)"
        ) from None
    kwargs = dict(kwargs or {})
    try:
        shapes = _free_shapes(torch, module, args, kwargs) if dynamic is True else dynamic or None
    except TypeError as e:
        raise usage_error(
            f"the arguments do not fit {name}.forward: {e}", "give args and kwargs as it takes them"
        ) from e
    failures: list[tuple[str, Exception]] = []
    with torch.no_grad():
        for strict in (False, True):
            try:
                return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=strict)
            except Exception as e:  # whatever the module's own code raises, too
                failures.append(("strict" if strict else "non-strict", e))
    causes = [
        Diagnostic("error", "SW2002", f"torch.export.export ({mode}) of '{name}': {type(e).__name__}: {_first(e)}")
        for mode, e in failures
    ]
    report = _draft_report(torch, module, args, kwargs, shapes)
    help = report or "change what the module does at the place that the message names"
    causes.append(Diagnostic("error", "SW2002", f"torch.export does not take '{name}'", "", help))
    raise SlipwayError(4, causes) from failures[0][1]


def _first(e: Exception) -> str:
    lines = [line for line in str(e).splitlines() if line.strip()]
    return "\n".join(lines[:12])


def _free_shapes(torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    auto = getattr(torch.export.Dim, "AUTO", None)
    if auto is None:
        raise not_supported(
            f"dynamic=True with torch {torch.__version__}, which has no Dim.AUTO", "give dynamic_shapes as dynamic=…"
        )
    collection = torch.export.ShapesCollection()
    tree = importlib.import_module("torch.utils._pytree")
    for leaf in tree.tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0:
            collection[leaf] = {d: auto for d in range(leaf.dim())}
    return collection.dynamic_shapes(module, args, kwargs)


def _draft_report(torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> str:
    """What torch's own diagnosis says of a module that it does not export; "" where it says nothing."""
    draft_export = getattr(torch.export, "draft_export", None)
    if draft_export is None:
        return ""
    try:
        with torch.no_grad():
            program = draft_export(module, args, kwargs, dynamic_shapes=shapes)
        return "torch.export.draft_export reports:\n" + str(program._report).strip()
    except Exception as e:
        return f"torch.export.draft_export fails, too: {type(e).__name__}: {_first(e)}"


# ---- Handing over


def _plain(torch: Any, t: Any) -> bool:
    """Whether the tensor's numbers lie in memory as its sizes and strides say."""
    return type(t) in (torch.Tensor, torch.nn.Parameter) and t.device.type != "meta"


def lend(torch: Any, name: str, tensor: Any) -> Lent:
    """A view of the tensor's memory; a tensor of another device is copied to the host."""
    t = tensor.detach()
    layout = str(t.layout)
    if t.layout != torch.strided or t.is_quantized:
        what = "torch's own quantized type" if t.is_quantized else layout
        raise not_supported(f"the weight is of {what}", "make it a dense tensor: .to_dense(), .dequantize()", name)
    if t.device.type != "cpu":
        t = t.cpu()
    t = t.resolve_conj().resolve_neg()
    dtype = str(t.dtype).rpartition(".")[2]
    if dtype == "float4_e2m1fn_x2":
        row = (17, 4, 2)
    elif dtype in _DTYPES:
        row = _DTYPES[dtype]
    else:
        raise not_supported(f"the weight is of dtype {dtype}", "convert it to another type first", name)
    return Lent(t.data_ptr(), row, tuple(t.shape), t.stride(), t)


def _without_values(torch: Any, tensors: Mapping[str, Any], lent: dict[str, Any]) -> dict[str, Any]:
    """The same names with tensors of the same types and no memory. What is replaced is added to `lent`; objects, and
    tensors whose numbers are made of several others (torchao's), stay."""
    out: dict[str, Any] = {}
    for name, t in tensors.items():
        if not _plain(torch, t):
            out[name] = t
            continue
        lent[name] = t
        if t.layout != torch.strided or t.is_quantized:
            lend(torch, name, t)  # raises what is wrong with it
        empty = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        parameter = isinstance(t, torch.nn.Parameter)
        out[name] = torch.nn.Parameter(empty, requires_grad=t.requires_grad) if parameter else empty
    return out


# A function and its operands behind the first.
Step = tuple[Callable[..., Any], tuple[Any, ...]]


def _with_known_operators(torch: Any, module: Any) -> Any:
    """The graph with ceilings and floors of symbolic quotients, which torch.export.save does not know, as divisions of
    integers: ceil(a / b) is -(-a // b). The module itself where it has none."""
    rounded = (math.ceil, math.floor)

    def quotient(node: Any) -> Any:
        if node.op != "call_function" or node.target not in rounded:
            return None
        of = node.args[0]
        if not isinstance(of, torch.fx.Node) or of.target is not operator.truediv:
            return None
        return of if all(_is_whole(torch, x) for x in of.args) else None

    if not any(quotient(node) is not None for node in module.graph.nodes):
        return module
    graph = copy.deepcopy(module.graph)
    for node in list(graph.nodes):
        of = quotient(node)
        if of is None:
            continue
        a, b = of.args
        up = node.target is math.ceil
        with graph.inserting_before(node):
            negated: list[Step] = [(operator.neg, ())] if up else []
            divided: Step = (operator.floordiv, (b,))
            value = a
            for target, others in [*negated, divided, *negated]:
                made = graph.call_function(target, (value, *others))
                numbers = [x.meta["val"] if isinstance(x, torch.fx.Node) else x for x in made.args]
                made.meta = {**node.meta, "val": target(*numbers)}
                value = made
        node.replace_all_uses_with(value)
        graph.erase_node(node)
    graph.eliminate_dead_code(lambda node: node.target is not operator.truediv)
    made = torch.fx.GraphModule(module, graph)
    made.meta.update(module.meta)
    return made


def _is_whole(torch: Any, x: Any) -> bool:
    value = x.meta.get("val") if isinstance(x, torch.fx.Node) else x
    return isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)


def graph_bytes(program: Any, samples: bool = True) -> tuple[bytes, dict[str, Any]]:
    """What torch.export.save() writes of the program without values of weights, and the weights whose values are to
    come. With `samples` the example inputs as well."""
    torch = importlib.import_module("torch")
    lent: dict[str, Any] = {}
    light = copy.copy(program)
    light._state_dict = _without_values(torch, program.state_dict, lent)
    light._graph_module = _with_known_operators(torch, without_flex_attention(torch, program.graph_module))
    light._constants = _without_values(torch, program.constants, lent)
    if not samples:
        light._example_inputs = None
    buffer = io.BytesIO()
    try:
        torch.export.save(light, buffer)
    except Exception as e:
        raise SlipwayError(
            4,
            [
                Diagnostic(
                    "error",
                    "SW2002",
                    f"torch.export.save refuses the program: {type(e).__name__}: {_first(e)}",
                    "",
                    "program.run_decompositions() often leaves operators that can be saved",
                )
            ],
        ) from e
    return buffer.getvalue(), lent


def open_program(data: bytes, weights: Mapping[str, Any], name: str) -> Archive:
    torch = importlib.import_module("torch")
    archive = Archive.of_bytes(data, name)
    try:
        wanted = archive.weights()
        for weight, tensor in weights.items():
            if weight in wanted:
                archive.set_weight(weight, lend(torch, weight, tensor))
    except BaseException:
        archive.close()
        raise
    return archive


def open_tensors(tensors: Mapping[str, Any]) -> Archive:
    torch = importlib.import_module("torch")
    archive = Archive.of_weights()
    try:
        for name, tensor in tensors.items():
            if not _plain(torch, tensor):
                raise not_supported(
                    f"the weight is a {type(tensor).__name__}", "torch.save() the state dict and convert the file", name
                )
            archive.set_weight(str(name), lend(torch, str(name), tensor))
    except BaseException:
        archive.close()
        raise
    return archive
