"""torch.compile(model, backend="slipway"): graphs of inference as native libraries; those that slipway does not take
run in eager mode, with a warning that says why."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Sequence
from typing import Any

from ._compile import Library, library_of
from ._library import usage_error
from ._model import ModelError
from ._program import SlipwayError


class _NotTaken(Exception):
    """Why a graph stays in eager mode."""


class _Plan:
    """What dynamo's placeholders are: weights, inputs, and symbolic sizes, which are those of inputs again."""

    def __init__(self, torch: Any, graph_module: Any, examples: Sequence[Any]) -> None:
        self.weights: dict[int, Any] = {}
        self.sizes: dict[int, tuple[int, int]] = {}  # placeholder: the input and dim that have it
        self.numbers: dict[int, float] = {}  # floats, which dynamo passes as tensors
        self.inputs: list[int] = []
        self.arguments: list[Any] = []
        self.shapes: list[Any] = []
        auto = torch.export.Dim.AUTO
        nodes = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
        values = [n.meta.get("example_value", e) for n, e in zip(nodes, examples)]
        for i, (example, value) in enumerate(zip(examples, values)):
            if getattr(nodes[i].meta.get("grapharg"), "pass_arg_as_tensor", False):
                if all(user.op == "call_method" and user.target == "item" for user in nodes[i].users):
                    self.numbers[i] = example.item()
                    continue
            if isinstance(example, torch.Tensor):
                if example.device.type != "cpu":
                    raise _NotTaken(f"it works on {example.device}, and libraries run on the CPU")
                if isinstance(example, torch.nn.Parameter) or getattr(example, "_dynamo_static_input_type", None):
                    self.weights[i] = example
                    continue
                self.inputs.append(i)
                self.arguments.append(example.detach())
                sizes = value.shape if isinstance(value, torch.Tensor) else example.shape
                self.shapes.append({d: auto for d, size in enumerate(sizes) if not isinstance(size, int)})
            elif isinstance(example, (torch.SymInt, int)):
                place = self._place_of(torch, value, values)
                if place is not None:
                    self.sizes[i] = place
                    continue
                self.inputs.append(i)
                hint = example.node.hint if isinstance(example, torch.SymInt) else example
                if hint is None:
                    raise _NotTaken("it has a number that depends on data among its inputs")
                self.arguments.append(int(hint))
                self.shapes.append(auto if isinstance(example, torch.SymInt) else None)
            else:
                raise _NotTaken(f"it has a {type(example).__name__} among its inputs")

    @staticmethod
    def _place_of(torch: Any, value: Any, values: Sequence[Any]) -> tuple[int, int] | None:
        if not isinstance(value, torch.SymInt):
            return None
        for j, other in enumerate(values):
            if isinstance(other, torch.Tensor):
                for d, size in enumerate(other.shape):
                    if isinstance(size, torch.SymInt) and size.node.expr == value.node.expr:
                        return j, d
        return None


def _with_numbers(torch: Any, graph_module: Any, plan: _Plan) -> Any:
    """The graph for the floats as they are: torch.export knows nothing of a number that is read from a tensor."""
    if not plan.numbers:
        return graph_module
    graph = copy.deepcopy(graph_module.graph)
    for i, node in enumerate([n for n in graph.nodes if n.op == "placeholder"]):
        for user in list(node.users) if i in plan.numbers else []:
            user.replace_all_uses_with(plan.numbers[i])
            graph.erase_node(user)
    return torch.fx.GraphModule(graph_module, graph)


def _module_of(torch: Any, graph_module: Any, plan: _Plan) -> Any:
    class Graph(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.graph_module = _with_numbers(torch, graph_module, plan)
            for i, tensor in plan.weights.items():
                self.register_buffer(f"weight_{i}", tensor.detach())

        def forward(self, *inputs: Any) -> Any:
            full = {i: getattr(self, f"weight_{i}") for i in plan.weights}
            full.update(plan.numbers)
            full.update(zip(plan.inputs, inputs))
            full.update({i: full[j].shape[d] for i, (j, d) in plan.sizes.items()})
            return tuple(self.graph_module(*(full[i] for i in range(len(full)))))

    return Graph()


class _Graph:
    """A graph's library. Weights that were changed since make another one; what the library refuses runs in eager."""

    def __init__(self, torch: Any, graph_module: Any, examples: Sequence[Any], options: dict[str, Any]) -> None:
        self._torch = torch
        self._graph_module = graph_module
        self._options = dict(options)
        self._threads = int(self._options.pop("threads", 0))
        self._cache = bool(self._options.pop("cache", True))
        self._plan = _Plan(torch, graph_module, examples)
        if torch.is_grad_enabled() and any(isinstance(e, torch.Tensor) and e.requires_grad for e in examples):
            raise _NotTaken("gradients are on: call the model under torch.no_grad() or torch.inference_mode()")
        if any(t.is_inference() for t in self._plan.weights.values()):
            raise _NotTaken("its weights were made under torch.inference_mode(), where changes cannot be seen")
        self._warned = False
        self._make()

    def _make(self) -> None:
        torch, plan = self._torch, self._plan
        module = _module_of(torch, self._graph_module, plan)
        # The export is a trace of its own, not a part of dynamo's.
        with torch._guards.tracing(None), torch.no_grad():
            program = torch.export.export(
                module, tuple(plan.arguments), dynamic_shapes={"inputs": tuple(plan.shapes)}, strict=False
            )
        path, self._folder = library_of(program, "a graph of torch.compile", self._options, self._cache)
        self._library = Library(program, path, self._threads)
        self._versions = [(i, t._version) for i, t in plan.weights.items()]

    def __call__(self, *inputs: Any) -> Any:
        try:
            if any(inputs[i]._version != version for i, version in self._versions):
                self._plan.weights = {i: inputs[i] for i in self._plan.weights}
                self._make()
            for i, number in self._plan.numbers.items():
                if inputs[i].item() != number:
                    raise usage_error(f"a number was {number} when it was compiled and is {inputs[i].item()}")
            return self._library.run([inputs[i] for i in self._plan.inputs])
        except (ModelError, SlipwayError) as e:
            if not self._warned:
                self._warned = True
                warnings.warn(f"slipway: a call runs in eager mode: {e}", stacklevel=2)
            return self._graph_module(*inputs)


def backend(graph_module: Any, example_inputs: Sequence[Any], options: Any = None, mode: Any = None) -> Any:
    """The backend of torch.compile. Its options are `threads`, `cache` and the flags of convert for a .so."""
    torch = importlib.import_module("torch")
    importlib.import_module("torch.export")
    nodes = sum(n.op.startswith("call") for n in graph_module.graph.nodes)
    if nodes == 0:
        return graph_module.forward
    try:
        return _Graph(torch, graph_module, example_inputs, dict(options or {}))
    except Exception as e:  # of torch.export, of slipway: eager mode is right all the same
        first = next((n for n in graph_module.graph.nodes if n.op.startswith("call")), None)
        place = getattr(first, "name", "")
        why = str(e).strip() or type(e).__name__
        warnings.warn(
            f"slipway: a graph of {nodes} operations (the first is '{place}') runs in eager mode: {why[:2000]}",
            stacklevel=2,
        )
        return graph_module.forward
