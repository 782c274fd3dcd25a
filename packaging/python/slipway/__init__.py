"""PyTorch models made into ONNX, PT2, safetensors and native libraries, without torch.

    import slipway
    slipway.convert("model.pt2", "model.onnx", opset=20)
    slipway.quantize("model/", "quantized/", config="8da4w")
    model = slipway.load("model.so")      # made by slipway.convert("model.pt2", "model.so")
    y, = model(x)                         # numpy arrays, torch tensors, anything with __dlpack__

Conversions run in a process of their own: what a damaged file could do ends there.
"""

from ._backend import backend
from ._commands import diff, doctor, inspect, minify, quantize, run, shapes, unpack, verify
from ._compile import Compiled, compile
from ._convert import convert
from ._model import Model, ModelError, Value, load
from ._program import Diagnostic, Report, Result, SlipwayError, program, run_command

__all__ = [
    "Compiled", "Diagnostic", "Model", "ModelError", "Report", "Result", "SlipwayError", "Value", "backend", "compile",
    "convert", "diff", "doctor", "inspect", "load", "minify", "program", "quantize", "run", "run_command", "shapes",
    "unpack", "verify", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("slipway")
    raise AttributeError(f"module 'slipway' has no attribute {name!r}")
