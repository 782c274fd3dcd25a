"""slipway.convert(): files by the program, what a running torch has by the library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _live
from ._library import Archive, Progress, usage_error
from ._program import Option, Result, StrPath, convert_files

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._flags import ConvertFlags

_HOW = "give a path, a torch.nn.Module with args=(…), a torch.export.ExportedProgram or a state dict"


def _is_path(x: Any) -> bool:
    return isinstance(x, (str, os.PathLike))


def progress_of(progress: Any) -> Progress | None:
    """A function of bytes done and bytes in all; a bar with total and update(), as tqdm's, is made one."""
    if progress is None or not hasattr(progress, "update"):
        if progress is not None and not callable(progress):
            raise usage_error(
                f"progress is a {type(progress).__name__}", "give a function of bytes done and in all, or a tqdm bar"
            )
        call: Progress | None = progress
        return call
    shown = 0

    def update(done: int, total: int) -> None:
        nonlocal shown
        progress.total = total
        progress.update(done - shown)
        shown = done

    return update


def flags_of(options: Mapping[str, Any]) -> dict[str, Option]:
    """Options as flags; an argument that is no flag's value is refused with its name."""
    for name, value in options.items():
        plain = value is None or isinstance(value, (bool, int, float, str, os.PathLike))
        if not plain and not isinstance(value, Mapping) and not (isinstance(value, (list, tuple))):
            raise usage_error(f"{name} is a {type(value).__name__}", "options are the flags of docs/cli.md")
    return dict(options)


def _export(archive: Archive, output: StrPath, options: Mapping[str, Option], progress: Progress | None) -> Result:
    with archive:
        report, diagnostics = archive.export(os.fspath(output), options, progress)
    return Result(Path(output), report, tuple(diagnostics))


def convert(
    model: Any,
    output: StrPath,
    args: Iterable[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    weights: None | StrPath | Iterable[StrPath] = None,
    progress: None | Callable[[int, int], object] | Any = None,
    **options: Unpack[ConvertFlags],
) -> Result:
    """Converts a model to the format of `output`'s suffix: .onnx, .so, .pt2, .safetensors.

    `model` is a file (several as a list, several programs of one archive as a mapping by name), a torch.nn.Module,
    which is exported with `args` and `kwargs`, an ExportedProgram, or a state dict. What is in memory is written from
    there: weights are not copied.

    dynamic   of modules: True for sizes as free as torch.export finds them to be, or its dynamic_shapes. Of files and
              programs: True or "auto", or text as --dynamic takes it (docs/shapes.md).
    weights   files or a folder whose tensors replace the program's by name: of a module on the device meta all of them.
    progress  called with bytes done and bytes in all as weights are written; or a bar such as tqdm's. A file is then
              read by this process instead of one of its own.
    options   the flags of `slipway convert` (docs/cli.md), with _ for -.

        slipway.convert("model.pt2", "model.onnx", opset=20, dim_names={"s77": "batch"})
        slipway.convert(module, "model.onnx", args=(x,), dynamic=True)
    """
    if not _is_path(output):
        raise usage_error(f"the output is a {type(output).__name__}, not a path", "convert(model, 'model.onnx', …)")
    flags, progress = flags_of(options), progress_of(progress)
    if weights is not None:
        flags["weights"] = weights if isinstance(weights, (str, os.PathLike)) else list(weights)
    if _live.is_module(model):
        return _convert_module(model, output, args, kwargs, dynamic, flags, progress)
    if args is not None or kwargs is not None:
        raise usage_error(f"args are for modules, and this is a {type(model).__name__}", "leave args and kwargs out")
    if dynamic is True:
        dynamic = "auto"
    if dynamic is not None and dynamic is not False and not isinstance(dynamic, str):
        raise usage_error(
            f"dynamic is a {type(dynamic).__name__}, which is for modules",
            "of files and programs: dynamic=True, or text such as 'x:[batch,3]' (docs/shapes.md)",
        )
    if dynamic:
        flags["dynamic"] = dynamic
    if _live.is_program(model):
        data, lent = _live.graph_bytes(model)
        return _export(_live.open_program(data, lent, "the program"), output, flags, progress)
    if _live.is_tensors(model):
        return _export(_live.open_tensors(model), output, flags, progress)
    if _is_path(model) and progress is not None:
        return _export(Archive.of_file(os.fspath(model)), output, flags, progress)
    several = list(model.values()) if isinstance(model, Mapping) else model
    if not _is_path(model) and not (isinstance(several, (list, tuple)) and several and all(map(_is_path, several))):
        raise usage_error(f"a {type(model).__name__} is no model", _HOW)
    if progress is not None:
        raise usage_error("progress is for one input", "convert each to an output of its own, or without progress")
    return convert_files(model, output, flags)


def _convert_module(
    module: Any, output: StrPath, args: Any, kwargs: Any, dynamic: Any, flags: dict[str, Option], progress: Any
) -> Result:
    path = os.fspath(output)
    if args is None and kwargs is None and (path.endswith((".safetensors", "/")) or flags.get("to") == "safetensors"):
        tensors = dict(module.state_dict())
        if not tensors:
            raise usage_error(f"'{type(module).__name__}' has no weights", _HOW)
        return _export(_live.open_tensors(tensors), output, flags, progress)
    if isinstance(dynamic, str):  # slipway's own, of a program of fixed sizes
        flags["dynamic"], dynamic = dynamic, None
    program = _live.export(module, args, kwargs, dynamic)
    data, lent = _live.graph_bytes(program)
    return _export(_live.open_program(data, lent, type(module).__name__), output, flags, progress)
