"""Models as native libraries, through their C interface (slipway_model.h, which a library's own code serves: nothing
else is loaded)."""

from __future__ import annotations

import ctypes
import importlib
import math
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ModelError(RuntimeError):
    """A model that was not opened or did not run; `code` is one of SLIPWAY_MODEL_…, the numbers of the program's exit
    codes."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Managed._fields_ = [
    ("version", ctypes.c_uint32 * 2),
    ("context", ctypes.c_void_p),
    ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))),
    ("flags", ctypes.c_uint64),
    ("tensor", _Tensor),
]


class _ValueStruct(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", _DType),
        ("ndim", ctypes.c_int32),
        ("dims", ctypes.POINTER(ctypes.c_char_p)),
        ("number", ctypes.c_int32),
    ]


@dataclass(frozen=True)
class Value:
    """An input or an output: sizes are numbers, or expressions in the model's dims, such as "2*batch"."""

    name: str
    dtype: str
    dims: tuple[str, ...]


_CPU = 1
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # numpy's kinds, DLPack's codes
_KINDS = {code: kind for kind, code in _CODES.items()}
# Types that numpy has from ml_dtypes alone: without it arrays of their bits are given and taken.
_OTHERS = {
    "bfloat16": (4, 16),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
}
_NAMES = {row: name for name, row in _OTHERS.items()}


def _name(t: _DType) -> str:
    if (t.code, t.bits) in _NAMES:
        return _NAMES[t.code, t.bits]
    if t.code == _CODES["b"]:
        return "bool"
    return {"i": "int", "u": "uint", "f": "float", "c": "complex"}.get(_KINDS.get(t.code, ""), f"type{t.code}_") + str(
        t.bits
    )


def _numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    if name not in _OTHERS:
        return np.dtype(name)
    dtype: np.dtype[Any]
    try:
        dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except (ImportError, AttributeError):
        dtype = np.dtype(f"u{_OTHERS[name][1] // 8}")
    return dtype


class _Result:
    """A result's memory, which numpy arrays over it keep; it is given back with the last of them."""

    def __init__(self, library: ctypes.CDLL, managed: Any) -> None:
        self._library, self._managed = library, managed  # the library's code deletes: it stays loaded

    def memory(self) -> tuple[Any, tuple[int, ...], _DType]:
        """The bytes, which keep the result, sizes and dtype; None for no bytes."""
        t = self._managed.contents.tensor
        shape = tuple(t.shape[: t.ndim])
        count = math.prod(shape)
        if count == 0:
            return None, shape, t.dtype
        memory = (ctypes.c_uint8 * (count * t.dtype.bits * t.dtype.lanes // 8)).from_address(t.data + t.byte_offset)
        setattr(memory, "_owner", self)
        return memory, shape, t.dtype

    def array(self) -> npt.NDArray[Any]:
        import numpy as np

        memory, shape, t = self.memory()
        dtype = _numpy_dtype(_name(t))
        return np.empty(shape, dtype) if memory is None else np.frombuffer(memory, dtype).reshape(shape)

    def __del__(self) -> None:
        self._managed.contents.deleter(self._managed)


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _view(x: Any, value: Value) -> tuple[_Tensor, Any]:
    """The memory of `x` as a DLTensor, strides and all, and what keeps it."""
    import numpy as np

    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
        capsule = (x.detach() if hasattr(x, "detach") else x).__dlpack__()
        return _Tensor.from_address(_capsule_pointer(capsule, b"dltensor")), capsule
    array = np.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else np.asarray(x, _numpy_dtype(value.dtype))
    t = _Tensor(array.ctypes.data, _Device(_CPU, 0), array.ndim)
    bits_of_other = value.dtype in _OTHERS and array.dtype == np.dtype(f"u{_OTHERS[value.dtype][1] // 8}")
    other = _OTHERS.get(value.dtype if bits_of_other else array.dtype.name)
    if other is None and array.dtype.kind not in _CODES:
        raise TypeError(f"input {value.name}: arrays of {array.dtype} are not taken")
    if not array.dtype.isnative or any(s % array.itemsize for s in array.strides):
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        t.data = array.ctypes.data
    t.dtype = _DType(other[0], other[1], 1) if other else _DType(_CODES[array.dtype.kind], array.itemsize * 8, 1)
    t.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    t.strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
    return t, array


class Model:
    """A model's library, opened. Calls run it; from several threads at once, too."""

    def __init__(self, path: str | os.PathLike[str], threads: int = 0) -> None:
        self.path = os.path.abspath(path)
        self._model = ctypes.c_void_p()
        try:
            self._library = ctypes.CDLL(self.path)
            self._library.slipway_model_error.restype = ctypes.c_char_p
        except (OSError, AttributeError) as e:
            raise ModelError(3, f"{path} is no model's library: {e}") from None
        for name in ("input_count", "output_count"):
            getattr(self._library, f"slipway_model_{name}").restype = ctypes.c_size_t
        self._has_state = hasattr(self._library, "slipway_model_state_count")  # libraries of older slipways have none
        if self._has_state:
            self._library.slipway_model_state_count.restype = ctypes.c_size_t
            self._library.slipway_model_state_length.restype = ctypes.c_int64
        self._library.slipway_model_close.restype = None
        self._check(self._library.slipway_model_open(ctypes.byref(self._model)))
        self._lock = threading.Lock()
        self.inputs = self._values("input")
        self.outputs = self._values("output")
        self.states = self._values("state") if self._has_state else ()
        if threads:
            self.set_threads(threads)

    def _check(self, code: int) -> None:
        if code != 0:
            raise ModelError(code, self._library.slipway_model_error().decode(errors="replace"))

    def _values(self, what: str) -> tuple[Value, ...]:
        values = []
        for i in range(getattr(self._library, f"slipway_model_{what}_count")(self._model)):
            v = _ValueStruct()
            getattr(self._library, f"slipway_model_{what}")(self._model, ctypes.c_size_t(i), ctypes.byref(v))
            values.append(Value(v.name.decode(), _name(v.dtype), tuple(v.dims[d].decode() for d in range(v.ndim))))
        return tuple(values)

    def set_threads(self, threads: int) -> None:
        """How many threads a run may use; 0: as many as there are processors."""
        self._check(self._library.slipway_model_set_threads(self._model, ctypes.c_int(threads)))

    def __call__(self, *inputs: Any, **named: Any) -> list[npt.NDArray[Any]]:
        """Runs on arrays and tensors in the CPU's memory, in the order of `inputs` or by their names. Gives numpy
        arrays over the library's own memory, a new one for each output."""
        given: Sequence[Any] = inputs
        if named:
            names = [v.name for v in self.inputs]
            unknown = [n for n in named if n not in names[len(inputs) :]]
            missing = [n for n in names[len(inputs) :] if n not in named]
            if unknown or missing:
                raise TypeError(f"inputs are {', '.join(names)}; not known: {unknown}; missing: {missing}")
            given = [*inputs, *(named[n] for n in names[len(inputs) :])]
        if len(given) != len(self.inputs):
            raise TypeError(
                f"{len(given)} inputs, and the model takes {len(self.inputs)}: {', '.join(v.name for v in self.inputs)}"
            )
        views = [_view(x, v) for x, v in zip(given, self.inputs)]
        return [result.array() for result in self.run_views([t for t, _ in views])]

    def run_views(self, views: Sequence[_Tensor]) -> list[_Result]:
        """Runs on tensors whose memory the caller keeps."""
        tensors = (ctypes.POINTER(_Tensor) * len(views))(*map(ctypes.pointer, views))
        results = (ctypes.POINTER(_Managed) * len(self.outputs))()
        code = self._library.slipway_model_run(
            self._model, tensors, ctypes.c_size_t(len(views)), results, ctypes.c_size_t(len(results))
        )
        self._check(code)
        return [_Result(self._library, r) for r in results]

    def __repr__(self) -> str:
        def show(values: Sequence[Value]) -> str:
            return ", ".join(f"{v.name}: {v.dtype}[{', '.join(v.dims)}]" for v in values)

        return f"<slipway.Model '{self.path}' ({show(self.inputs)}) -> ({show(self.outputs)})>"

    # What a library of `convert --state auto` keeps between runs; `states` names it.

    def reset_state(self) -> None:
        """All states as they are in the beginning."""
        if self._has_state:
            self._check(self._library.slipway_model_reset_state(self._model))

    def state_length(self, i: int = 0) -> int:
        """How long state `i` is along the dim that grows: the position of the next token; -1 for one of fixed size."""
        self._check_state(i)
        return int(self._library.slipway_model_state_length(self._model, ctypes.c_size_t(i)))

    def truncate_state(self, length: int) -> None:
        """Forgets what lies behind `length` in all growing states."""
        if self._has_state:
            self._check(self._library.slipway_model_truncate_state(self._model, ctypes.c_int64(length)))

    def get_state(self, i: int = 0) -> npt.NDArray[Any]:
        """A copy of state `i`."""
        self._check_state(i)
        result = ctypes.POINTER(_Managed)()
        self._check(self._library.slipway_model_get_state(self._model, ctypes.c_size_t(i), ctypes.byref(result)))
        return _Result(self._library, result).array()

    def set_state(self, value: Any, i: int = 0) -> None:
        """A copy of `value` becomes state `i`: of any size along the dim that grows."""
        self._check_state(i)
        tensor, _kept = _view(value, self.states[i])
        self._check(self._library.slipway_model_set_state(self._model, ctypes.c_size_t(i), ctypes.byref(tensor)))

    def _check_state(self, i: int) -> None:
        if not 0 <= i < len(self.states):
            raise IndexError(f"state {i} of {len(self.states)}")

    def close(self) -> None:
        """Closes the model; arrays that it gave stay."""
        with self._lock:
            model, self._model = self._model, ctypes.c_void_p()
        if model:
            self._library.slipway_model_close(model)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            self.close()


def load(path: str | os.PathLike[str], threads: int = 0) -> Model:
    """Opens a library that `slipway.convert(…, "model.so")` made. Its code is run: only for files that you trust."""
    return Model(path, threads)
