"""slipway.compile(): a model as a native library in the user's cache, called as the model is called."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _live
from ._convert import flags_of
from ._library import build, not_supported, usage_error
from ._model import _CPU, Model, _Device, _DType, _Result, _Tensor, _view
from ._program import Diagnostic, Option, option_values

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._flags import CompileFlags

_CACHE_BYTES = 10 * 10**9
_CACHE_VARIABLE = "SLIPWAY_CACHE_BYTES"


# ---- The cache


def cache_folder() -> Path:
    """Where libraries of compile() are kept: $XDG_CACHE_HOME/slipway, else ~/.cache/slipway."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "slipway"


def _own_folder() -> Path | None:
    """The cache's folder, made where it is missing; None where other users could put libraries there or it cannot be
    written."""
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except (OSError, RuntimeError):
        return None
    safe = info.st_uid == os.geteuid() and not info.st_mode & 0o022
    return folder if safe and os.access(folder, os.W_OK) else None


def _most_bytes() -> int:
    text = os.environ.get(_CACHE_VARIABLE, "")
    if not text:
        return _CACHE_BYTES
    try:
        return int(text)
    except ValueError:
        raise usage_error(f"{_CACHE_VARIABLE} is '{text}', not a number of bytes") from None


def _make_room(folder: Path, kept: Path) -> None:
    """Removes what was not used for longest until the rest is within the cache's bound; processes that run a library
    go on with it."""
    rows = []
    for file in folder.glob("*.so"):
        try:
            info = file.stat()
        except OSError:
            continue
        rows.append((info.st_mtime_ns, info.st_size, file))
    total, most = sum(size for _, size, _ in rows), _most_bytes()
    for _, size, file in sorted(rows):
        if total <= most:
            break
        if file != kept:
            try:
                file.unlink()
            except OSError:
                continue
            total -= size


def _digest(graph: bytes, weights: Mapping[str, Any], options: Mapping[str, Option]) -> str:
    """Of all that a library is made of: the graph, each weight's numbers, options and their files, this slipway."""
    total = hashlib.sha256()

    def add(*texts: str) -> None:
        for text in texts:
            data = text.encode("utf-8", "surrogateescape")
            total.update(f"{len(data)}:".encode() + data)

    add(build(), hashlib.sha256(graph).hexdigest())
    for name, value in sorted((name, value or "") for name, value in option_values(options)):
        add(name, value)
        if os.path.exists(value):
            for file in [Path(value)] if os.path.isfile(value) else sorted(Path(value).rglob("*")):
                info = file.stat()
                add(os.fspath(file), str(info.st_size), str(info.st_mtime_ns))
    for name in sorted(weights):
        t = weights[name].detach()
        add(name, str(t.dtype), str(tuple(t.shape)))
        t = t.cpu().resolve_conj().resolve_neg().contiguous()
        size = t.numel() * t.element_size()
        if size:
            total.update((ctypes.c_uint8 * size).from_address(t.data_ptr()))
    return total.hexdigest()


# ---- The callable


def _tensor(t: Any, dtype: tuple[int, int, int]) -> _Tensor:
    ndim = t.dim()
    sizes = ctypes.c_int64 * ndim
    return _Tensor(t.data_ptr(), _Device(_CPU, 0), ndim, _DType(*dtype), sizes(*t.shape), sizes(*t.stride()), 0)


class Library:
    """A library with its program's flat inputs and outputs; tensors of torch go in and come out."""

    def __init__(self, program: Any, path: Path, threads: int) -> None:
        self._torch = importlib.import_module("torch")
        signature = program.graph_signature
        kinds = {kind: str(kind).rpartition(".")[2] for kind in {s.kind for s in signature.input_specs}}
        self.input_specs = [s.arg for s in signature.input_specs if kinds[s.kind] == "USER_INPUT"]
        self.output_specs = [s.arg for s in signature.output_specs if str(s.kind).rpartition(".")[2] == "USER_OUTPUT"]
        self.model = Model(path, threads)
        self._dtypes = {getattr(self._torch, n): row for n, row in _live._DTYPES.items() if hasattr(self._torch, n)}
        self._by_dtype = {row[:2]: t for t, row in self._dtypes.items()}
        self._taken = [i for i, a in enumerate(self.input_specs) if type(a).__name__ != "ConstantArgument"]
        self._given = [i for i, a in enumerate(self.output_specs) if type(a).__name__ != "ConstantArgument"]
        if len(self._taken) != len(self.model.inputs) or len(self._given) != len(self.model.outputs):
            raise not_supported(
                f"the library takes {len(self.model.inputs)} inputs and gives {len(self.model.outputs)} outputs; the "
                f"program {len(self._taken)} and {len(self._given)}",
                "call slipway.load() on a library of slipway.convert()",
            )

    def run(self, flat: Sequence[Any]) -> list[Any]:
        torch = self._torch
        views, kept = [], []
        for i, value in zip(self._taken, self.model.inputs):
            x = flat[i]
            row = self._dtypes.get(x.dtype) if type(x) in (torch.Tensor, torch.nn.Parameter) else None
            if row is not None and x.layout == torch.strided and x.device.type == "cpu":
                x = x.resolve_conj().resolve_neg()
                views.append(_tensor(x, row))
                kept.append(x)
                continue
            if isinstance(x, torch.Tensor) and x.device.type != "cpu":
                raise usage_error(f"input {value.name} is on {x.device}", "libraries run on the CPU: x.cpu()")
            view, owner = _view(x, value)
            views.append(view)
            kept.append(owner)
        results = iter(self.model.run_views(views))
        return [
            self._output(spec, next(results)) if i in self._given else spec.value
            for i, spec in enumerate(self.output_specs)
        ]

    def _output(self, spec: Any, result: _Result) -> Any:
        torch = self._torch
        memory, shape, dtype = result.memory()
        t = self._by_dtype[dtype.code, dtype.bits]
        tensor = torch.empty(shape, dtype=t) if memory is None else torch.frombuffer(memory, dtype=t).reshape(shape)
        return tensor if type(spec).__name__ == "TensorArgument" else tensor.item()


class Compiled:
    """A model as a library. Calls take and give what the model does, from any thread."""

    def __init__(self, program: Any, path: Path, threads: int, folder: Any = None) -> None:
        self._tree = importlib.import_module("torch.utils._pytree")
        self._folder = folder  # a temporary one goes with this object
        self._spec = program.call_spec.in_spec
        self._out_spec = program.call_spec.out_spec
        self._library = Library(program, path, threads)
        self.path = path
        self.inputs, self.outputs = self._library.model.inputs, self._library.model.outputs

    def __repr__(self) -> str:
        return repr(self._library.model).replace("slipway.Model", "slipway.Compiled", 1)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:  # in the order of the arguments that the model was exported with
            names = self._spec.children_specs[1].context
            if set(names) == set(kwargs):
                kwargs = {name: kwargs[name] for name in names}
        flat, spec = self._tree.tree_flatten((args, kwargs))
        if spec != self._spec:
            raise usage_error(
                f"the arguments are not of the structure that the model was exported with: {spec} in place of "
                f"{self._spec}",
                "call it as args and kwargs of slipway.compile() were",
            )
        for x, a in zip(flat, self._library.input_specs):
            if type(a).__name__ == "ConstantArgument" and not (x is a.value or x == a.value):
                raise usage_error(
                    f"the model was exported with {a.name} = {a.value!r}, and this is {x!r}",
                    "compile it once more with that value",
                )
        return self._tree.tree_unflatten(self._library.run(flat), self._out_spec)


_DROPPED_STATE = "SW2010"


def _refuse_updates(diagnostics: Iterable[Diagnostic]) -> None:
    """A function of its arguments has no state: what the library would forget is an error here."""
    dropped = [d.cause for d in diagnostics if d.id == _DROPPED_STATE]
    if dropped:
        raise not_supported(
            f"the model has a state, which a compiled one does not keep: {'; '.join(dropped[:5])}",
            "model.eval() where these are statistics of norms; else slipway.convert(…, 'm.so', state='auto') and "
            "slipway.load()",
        )


def library_of(program: Any, name: str, options: Mapping[str, Option], cache: bool) -> tuple[Path, Any]:
    """The program's library, of the cache where it is there; and the temporary folder that it is in otherwise."""
    graph, lent = _live.graph_bytes(program, samples=False)
    folder = _own_folder() if cache else None
    temporary = None
    if folder is None:
        if cache:
            warnings.warn(
                f"slipway: {cache_folder()} cannot be written or other users can write to it: nothing is cached",
                stacklevel=3,
            )
        temporary = tempfile.TemporaryDirectory(prefix="slipway-")
        folder = Path(temporary.name)
        path = folder / f"{os.urandom(16).hex()}.so"  # of its own: the linker knows libraries by their names
    else:
        path = folder / f"{_digest(graph, lent, options)}.so"
        try:
            os.utime(path)
            return path, None
        except OSError:
            pass
    # Under another name until it is known to be right: other processes look for this one.
    part = path.with_name(f"{path.stem}-{os.urandom(8).hex()}.so")
    with _live.open_program(graph, lent, name) as archive:
        _, diagnostics = archive.export(os.fspath(part), {**options, "to": "so"})
    try:
        _refuse_updates(diagnostics)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if temporary is None:
        _make_room(folder, path)
    return path, temporary


def compile(
    model: Any,
    args: Iterable[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    threads: int = 0,
    cache: bool = True,
    **options: Unpack[CompileFlags],
) -> Compiled:
    """A torch.nn.Module or an ExportedProgram as a native library that is called as the model is:

        fast = slipway.compile(model, (x,), dynamic=True)
        y = fast(x)

    `args`, `kwargs` and `dynamic` are as for convert(), `options` its flags for a .so. The library is kept in the
    user's cache folder ($XDG_CACHE_HOME/slipway) by a digest of the graph, the weights and the options, so that the
    next process finds it; $SLIPWAY_CACHE_BYTES (10 GB) bounds the folder. Without `cache` it is a temporary file. It
    holds a copy of the weights: later changes to the model's do not count.
    """
    flags = flags_of(options)
    for name in ("to", "state"):
        if flags.get(name) is not None:
            raise usage_error(
                f"{name} is not for slipway.compile()", "slipway.convert(…, 'model.so') and slipway.load() take it"
            )
    if isinstance(dynamic, str):
        flags["dynamic"], dynamic = dynamic, None
    if _live.is_program(model):
        if args is not None or kwargs is not None:
            raise usage_error("args are for modules, and this is an ExportedProgram", "leave args and kwargs out")
        program, name = model, "the program"
        if dynamic is True:
            flags["dynamic"] = "auto"
        elif dynamic:
            raise usage_error("dynamic_shapes are for modules", "dynamic=True, or text (docs/shapes.md)")
    elif _live.is_module(model):
        program, name = _live.export(model, args, kwargs, dynamic), type(model).__name__
    else:
        raise usage_error(
            f"a {type(model).__name__} is no model of torch",
            "give a torch.nn.Module or an ExportedProgram; of files: slipway.convert(…, 'model.so') and slipway.load()",
        )
    path, folder = library_of(program, name, flags, cache)
    return Compiled(program, path, threads, folder)
