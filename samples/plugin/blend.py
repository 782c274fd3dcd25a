"""The operators of blend.c for torch: declared with torch.library, so that programs that call them can be exported."""

import torch


@torch.library.custom_op("mylib::blend", mutates_args=())
def blend(x: torch.Tensor, y: torch.Tensor, alpha: float = 0.5, mode: str = "mix") -> torch.Tensor:
    return torch.maximum(x, y) if mode == "largest" else x * alpha + y * (1 - alpha)


@blend.register_fake
def _(x, y, alpha=0.5, mode="mix"):
    return x.new_empty(x.shape)


@torch.library.custom_op("mylib::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("mylib::weighted_sum", mutates_args=())
def weighted_sum(xs: list[torch.Tensor], weights: list[float]) -> torch.Tensor:
    return sum(x * w for x, w in zip(xs, weights, strict=True))


@weighted_sum.register_fake
def _(xs, weights):
    return xs[0].new_empty(xs[0].shape)
