"""flex_attention of exported programs, which torch.export.save refuses: written out as operators that it knows.

A score_mod that adds to the score, and a mask_mod, become the mask of aten.scaled_dot_product_attention, which has
kernels. Any other score_mod stands between two products of matrices. Both functions are applied to all positions by
torch.vmap, over the dims that they read: a causal mask is one of (1, 1, queries, keys) for all heads.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from ._library import not_supported

_FLEX = "flex_attention"
_FLAT_APPLY = "flat_apply"
_INDEX = "torch._dynamo._trace_wrapped_higher_order_op.ModIndex"  # x[i] by tensors in a score_mod or mask_mod
_VMAP_MARKS = ("lazy_load_decompositions", "_vmap_increment_nesting", "_vmap_decrement_nesting")


def _is(node: Any, name: str) -> bool:
    target = node.target
    return node.op == "call_function" and type(target).__module__ == "torch._higher_order_ops." + name


def without_flex_attention(torch: Any, module: Any) -> Any:
    """The graph module with operators of aten for flex_attention; the module itself where it has none."""
    if not any(_is(node, _FLEX) for node in module.graph.nodes):
        return module
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    made.meta.update(module.meta)
    _index_by_aten(torch, made)
    for node in list(made.graph.nodes):
        if _is(node, _FLEX):
            _write_out(torch, made, node)
    made.graph.eliminate_dead_code(lambda node: _has_effect(torch, node))
    made.recompile()
    return made


def _has_effect(torch: Any, node: Any) -> bool:
    """What stays without users. A write to memory that was made for it alone does not: those that make the blocks of a
    mask, which nothing reads any more."""
    if node.op in ("placeholder", "output") or getattr(node.target, "__name__", "") in _VMAP_MARKS:
        return True
    if not node.is_impure() or node.target is torch.ops.aten._assert_tensor_metadata.default:
        return False  # the types are those that the graph declares
    schema = getattr(node.target, "_schema", None)
    if schema is None or not node.args or not schema.is_mutable:
        return True
    written = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
    memory = node.args[0]
    return not (
        written == [True] + [False] * (len(written) - 1)
        and isinstance(memory, torch.fx.Node)
        and list(memory.users) == [node]
        and isinstance(memory.target, torch._ops.OpOverload)
        and not any(r.alias_info for r in memory.target._schema.returns)
    )


def _index_by_aten(torch: Any, module: Any) -> None:
    """aten.index for what flex_attention makes of x[i]."""
    tree = importlib.import_module("torch.utils._pytree")
    index = torch.ops.aten.index.Tensor
    for node in list(module.graph.nodes):
        if not _is(node, _FLAT_APPLY) or _INDEX not in node.args:
            continue
        at = node.args.index(_INDEX)
        # In front of the name: the function that applies it, and the structure of what comes behind the name.
        specs = [getattr(module, a.target) for a in node.args[:at] if isinstance(a, torch.fx.Node)]
        flat = list(node.args[at:])
        spec = next(s for s in reversed(specs) if isinstance(s, tree.TreeSpec) and s.num_leaves == len(flat))
        (args, _) = tree.tree_unflatten(flat, spec)
        tensor, indices = args[-2:]
        with module.graph.inserting_before(node):
            made = module.graph.call_function(index, (tensor, list(indices)))
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        module.graph.erase_node(node)
    module.graph.eliminate_dead_code(lambda node: _has_effect(torch, node))
    module.recompile()


# ---- Functions of a position


class _Function:
    """A score_mod or mask_mod: of (score,) batch, head, query, key, and what it captured."""

    def __init__(self, torch: Any, module: Any, scores: int) -> None:
        self._torch, self._scores = torch, scores
        self.module = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
        _index_by_aten(torch, self.module)
        nodes = list(self.module.graph.nodes)
        self.inputs = [n for n in nodes if n.op == "placeholder"]
        result = nodes[-1].args[0]
        self.result = result[0] if isinstance(result, (list, tuple)) else result
        self.whole = isinstance(result, (list, tuple))
        self.reads = [bool(n.users) for n in self.inputs[scores : scores + 4]]
        self.captures = any(n.users for n in self.inputs[scores + 4 :])

    def over(self, places: Sequence[Any], captured: Sequence[Any], scores: Any = None) -> Any:
        """Its values at all places: for scores of each, or for scores of 0, and then of size 1 along the dims that it
        does not read."""
        torch = self._torch
        zero = torch.zeros((), dtype=torch.int64)
        first = [torch.zeros(()) if scores is None else scores] * self._scores
        args = [*first, *(p if read else zero for p, read in zip(places, self.reads)), *captured]

        def function(*args: Any) -> Any:
            return self.module(*args)[0] if self.whole else self.module(*args)

        batched = [scores is not None or read for read in self.reads]
        over: Callable[..., Any] = function
        for d in reversed(range(4)):
            if batched[d]:
                dims: list[int | None] = [None] * len(args)
                if scores is not None:
                    dims[0] = 0
                if self.reads[d]:
                    dims[self._scores + d] = 0
                over = torch.vmap(over, in_dims=tuple(dims))
        result = over(*args)
        for d in range(4):
            if not batched[d]:
                result = result.unsqueeze(d)
        return result


def _always(torch: Any, mask: _Function) -> bool:
    """Whether the mask lets everything through, whatever the position."""
    if any(mask.reads) or mask.captures:
        # new_ones() of a position reads no number of it.
        factory = mask.result.target in (torch.ops.aten.new_ones.default, torch.ops.aten.ones_like.default)
        return factory and mask.result.meta["val"].dtype == torch.bool
    result = mask.module(*(torch.zeros((), dtype=torch.int64) for _ in mask.inputs))
    return bool((result[0] if mask.whole else result).item())


def _adds(torch: Any, function: _Function) -> bool:
    """Whether the result is the score plus what does not depend on it, or -inf."""
    aten = torch.ops.aten
    score = function.inputs[0]
    depends = {score}
    for node in function.module.graph.nodes:
        of = [n for n in node.all_input_nodes if n in depends]
        if node.op == "output":
            return function.result in depends
        if not of:
            continue
        args = list(node.args)
        plain = not node.kwargs and len(of) == 1
        if node.target is aten.add.Tensor:
            right = args.count(of[0]) == 1
        elif node.target is aten.sub.Tensor:
            right = args[0] is of[0] and args[1] is not of[0]
        elif node.target in (aten.where.self, aten.where.ScalarOther):
            right = args[1] is of[0] and args[0] is not of[0] and _is_low(torch, function, args[2])
        elif node.target is aten.masked_fill.Scalar:
            right = args[0] is of[0] and _is_low(torch, function, args[2])
        else:
            right = False
        # A result in fewer bits would be rounded after the sum.
        if not (plain and right and node.meta["val"].dtype == score.meta["val"].dtype):
            return False
        depends.add(node)
    return False


def _is_low(torch: Any, function: _Function, x: Any) -> bool:
    """Whether it is -inf."""
    if isinstance(x, torch.fx.Node):
        aten = torch.ops.aten
        if x.target in (aten.lift_fresh_copy.default, aten.clone.default, aten.detach.default):
            return _is_low(torch, function, x.args[0])
        if x.op == "get_attr":
            x = getattr(function.module, x.target)
            x = x.item() if isinstance(x, torch.Tensor) and x.numel() == 1 else None
        else:
            at = {aten.full.default: 1, aten.scalar_tensor.default: 0, aten.full_like.default: 1}.get(x.target)
            x = None if at is None else x.args[at]
    return isinstance(x, (int, float)) and x == -math.inf


# ---- The operator


def _write_out(torch: Any, module: Any, node: Any) -> None:
    query, key, value, score_mod, block_mask, scale, _, score_captured, mask_captured = node.args
    score = _Function(torch, getattr(module, score_mod.target), 1)
    mask = _Function(torch, getattr(module, block_mask[-1].target), 0)
    masked = not _always(torch, mask)
    same = score.result is score.inputs[0]
    fused = {user.args[1] for user in node.users if user.users} <= {0} and (same or _adds(torch, score))
    split = len(score_captured)
    dtype = query.meta["val"].dtype
    working = torch.float64 if dtype == torch.float64 else torch.float32

    def parts(q: Any, k: Any, v: Any, *captured: Any) -> Any:
        """What the fused operator takes, or the results."""
        sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        places = [torch.arange(n, device=q.device) for n in sizes]
        allowed = mask.over(places, captured[split:]) if masked else None
        if q.shape[0] != k.shape[0]:
            k, v = (x.expand(q.shape[0], *x.shape[1:]) for x in (k, v))
        if fused:
            if same:
                return q, k, v, allowed
            bias = score.over(places, captured[:split]).to(working)
            bias = bias if allowed is None else torch.where(allowed, bias, -math.inf)
            return q.to(working), k.to(working), v.to(working), bias
        if q.shape[1] != k.shape[1]:
            k, v = (torch.repeat_interleave(x, q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        scores = torch.matmul(q.to(working), k.to(working).transpose(-2, -1)) * scale
        if not same:
            scores = score.over(places, captured[:split], scores).to(working)
        if allowed is not None:
            scores = torch.where(allowed, scores, -math.inf)
        y = torch.matmul(torch._safe_softmax(scores, -1).to(dtype), v)
        # Both in powers of two, as the operator has them.
        return y, torch.logsumexp(scores, -1) / math.log(2), torch.amax(scores, -1) / math.log(2)

    results = _inline(torch, module, node, parts, [query, key, value, *score_captured, *mask_captured])
    if fused:
        grouped = query.meta["val"].shape[1] != key.meta["val"].shape[1]
        attention = torch.ops.aten.scaled_dot_product_attention.default
        y = _call(module, node, attention, results, {"scale": scale, "enable_gqa": grouped})
        results = [y if y.meta["val"].dtype == dtype else _call(module, node, torch.ops.aten.to.dtype, [y, dtype])]
    for user in list(node.users):
        name, place = user.name, user.args[1]
        if place < len(results):
            user.replace_all_uses_with(results[place])
        module.graph.erase_node(user)
        if place < len(results):
            results[place].name = name  # by which the program's signature knows an output
    module.graph.erase_node(node)


def _call(module: Any, before: Any, target: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
    with module.graph.inserting_before(before):
        made = module.graph.call_function(target, tuple(args), kwargs or {})
    values = [getattr(a, "meta", {}).get("val", a) for a in args]
    made.meta = {**before.meta, "val": target(*values, **(kwargs or {}))}
    return made


def _inline(torch: Any, module: Any, before: Any, function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    """The operators that the function calls for these nodes, put in front of a node; what it gives back."""
    proxies = importlib.import_module("torch.fx.experimental.proxy_tensor")
    values = [x.meta["val"] if isinstance(x, torch.fx.Node) else x for x in inputs]
    mode = next(v.fake_mode for v in values if hasattr(v, "fake_mode"))
    with torch.no_grad(), mode:
        traced = proxies.make_fx(function)(*values)
    traced.graph.eliminate_dead_code()
    at: dict[Any, Any] = {}
    taken = iter(inputs)
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            at[node] = next(taken)
        elif node.op == "output":
            return [at[n] if isinstance(n, torch.fx.Node) else n for n in node.args[0]]
        elif node.op == "get_attr":
            at[node] = _constant(torch, module, before, mode, getattr(traced, node.target))
        elif node.target is torch.ops.aten._to_copy.default and not isinstance(node.args[0], torch.fx.Node):
            value = node.meta["val"]  # a number of a function's text, which vmap makes a tensor of
            number = torch.tensor(node.args[0], dtype=value.dtype)
            at[node] = _constant(torch, module, before, mode, number)
        else:
            with module.graph.inserting_before(before):
                at[node] = module.graph.node_copy(node, lambda n: at[n])
            at[node].meta = {**before.meta, "val": node.meta["val"]}
    raise AssertionError("a graph without output")


def _constant(torch: Any, module: Any, before: Any, mode: Any, tensor: Any) -> Any:
    """A number that a function is written with."""
    if tensor.numel() != 1:
        raise not_supported(
            f"a score_mod or mask_mod of flex_attention makes a tensor of sizes {tuple(tensor.shape)} itself",
            "make it a buffer of the module that the function reads",
        )
    number = tensor.item()
    with mode:
        full = torch.ops.aten.full.default
        return _call(module, before, full, [list(tensor.shape), number], {"dtype": tensor.dtype})
