#!/usr/bin/env python3
"""A folder of Hugging Face's hub -> an exported program of its decoder, without weights.

    python export.py FOLDER -o program.pt2 --cache static --context 4096

Only config.json is read: parameters are fake, so a model of any size takes seconds and a file of some megabytes. Their
values are joined later, from the same folder (slipway convert --weights FOLDER). Buffers are real: rotary frequencies,
scales and the like stand in no checkpoint. The decoder's past keys and values are

    static   buffers of a fixed length, which the program writes into
    growing  inputs, which outputs return with the new ones behind them
    none     nowhere: each run takes all tokens from the first on
"""

import argparse
import contextlib
import inspect
import pathlib

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.integrations.executorch import (
    TorchExportableModuleForDecoderOnlyLM,
    register_dynamic_cache_export_support,
)

EXAMPLE = 5  # tokens and past tokens that the export is traced with; both are dynamic


@contextlib.contextmanager
def fake_parameters():
    """Modules that are made here get parameters without memory; their buffers are made as ever."""
    mode, register = FakeTensorMode(), nn.Module.register_parameter

    def register_fake(module, name, parameter):
        register(module, name, parameter)
        if parameter is not None:
            with mode:
                fake = torch.empty(parameter.shape, dtype=parameter.dtype, device="cpu")
            module._parameters[name] = nn.Parameter(fake, requires_grad=False)

    nn.Module.register_parameter = register_fake
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def without_weights(folder, dtype=None):
    config = AutoConfig.from_pretrained(folder)
    dtype = dtype or config.get_text_config().dtype or torch.float32
    with fake_parameters():
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


class StaticCacheDecoder(nn.Module):
    """transformers' module, whose cache's tensors are taken from its buffers in each run: the export then knows them by
    the buffers' names, key_cache_0 and so on."""

    def __init__(self, model, context):
        super().__init__()
        model.generation_config.cache_implementation = "static"
        model.generation_config.cache_config = {"batch_size": 1, "max_cache_len": context, "device": "cpu"}
        inner = TorchExportableModuleForDecoderOnlyLM(model).model
        self.model = inner.model
        self.cache = getattr(inner, "static_cache", None) or inner.cache
        self.argument = cache_argument(model)
        for name, buffer in inner.named_buffers(recurse=False):
            self.register_buffer(name, buffer, persistent=False)

    def forward(self, input_ids, cache_position):
        for i, layer in enumerate(self.cache.layers):
            layer.keys, layer.values = getattr(self, f"key_cache_{i}"), getattr(self, f"value_cache_{i}")
            layer.cumulative_length = getattr(self, f"cumulative_length_{i}")
            layer.cumulative_length.copy_(cache_position[0])
        return self.model(input_ids=input_ids, use_cache=True, **{self.argument: self.cache}).logits


def cache_argument(model):
    names = inspect.signature(model.forward).parameters
    return next(name for name in ("cache", "past_key_values") if name in names)


def export_static(model, context):
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    if window and window < context and "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        # transformers' module attends to all of a static cache in these layers, which only the first tokens may.
        raise SystemExit(f"layers see a window of {window} tokens: --context {window} at most, or --cache growing")
    length = Dim("length", max=context)
    return torch.export.export(
        StaticCacheDecoder(model, context),
        (torch.zeros(1, EXAMPLE, dtype=torch.long), torch.arange(EXAMPLE)),
        dynamic_shapes=({1: length}, {0: length}),
        strict=False,
    )


def export_growing(model, context):
    register_dynamic_cache_export_support()
    argument = cache_argument(model)
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    past = DynamicCache()
    for layer in range(config.num_hidden_layers):
        x = torch.zeros(1, heads, EXAMPLE, width, dtype=model.dtype)
        past.update(x, x.clone(), layer)
    grows = {2: Dim("past", max=context)}
    return torch.export.export(
        model,
        (),
        {"input_ids": torch.zeros(1, EXAMPLE, dtype=torch.long), argument: past, "use_cache": True},
        dynamic_shapes={
            "input_ids": {1: Dim.DYNAMIC},
            argument: [[grows] * config.num_hidden_layers, [grows] * config.num_hidden_layers],
            "use_cache": None,
        },
        strict=False,
    )


def export_none(model, context):
    return torch.export.export(
        model,
        (),
        {"input_ids": torch.zeros(1, EXAMPLE, dtype=torch.long), "use_cache": False},
        dynamic_shapes={"input_ids": {1: Dim("length", max=context)}, "use_cache": None},
        strict=False,
    )


WAYS = {"static": export_static, "growing": export_growing, "none": export_none}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="with config.json")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--cache", choices=WAYS, default="static")
    parser.add_argument("--context", type=int, default=4096, help="tokens at most, prompt and answer (%(default)s)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="that of config.json if not said")
    arguments = parser.parse_args()
    model = without_weights(arguments.folder, arguments.dtype and getattr(torch, arguments.dtype))
    with torch.no_grad():
        torch.export.save(WAYS[arguments.cache](model, arguments.context), arguments.output)


if __name__ == "__main__":
    main()
