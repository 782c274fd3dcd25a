"""Runs a model library from Python with ctypes and numpy: no torch, no slipway, nothing to build.

    model = Model("model.so")
    y, = model(x)

The structures are those of include/slipway/slipway_model.h and of DLPack.
"""

import ctypes
import os

import numpy as np


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


class _Value(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", _DType),
        ("ndim", ctypes.c_int32),
        ("dims", ctypes.POINTER(ctypes.c_char_p)),
        ("number", ctypes.c_int32),
    ]


_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # numpy's kinds, DLPack's codes
_KINDS = {code: kind for kind, code in _CODES.items()}
_CPU = 1


def _numpy_type(dtype):
    if dtype.code == _CODES["b"]:
        return np.dtype(bool)
    if dtype.code not in _KINDS:
        return np.dtype(f"u{dtype.bits // 8}")  # bfloat16: its bits
    return np.dtype(f"{_KINDS[dtype.code]}{dtype.bits // 8}")


class Model:
    def __init__(self, path):
        self._library = ctypes.CDLL(os.path.abspath(path))
        for name in ("input_count", "output_count"):
            getattr(self._library, f"slipway_model_{name}").restype = ctypes.c_size_t
        self._library.slipway_model_error.restype = ctypes.c_char_p
        self._model = ctypes.c_void_p()
        self._check(self._library.slipway_model_open(ctypes.byref(self._model)))
        self.inputs = self._values("input")
        self.outputs = self._values("output")

    def _check(self, code):
        if code != 0:
            raise RuntimeError(self._library.slipway_model_error().decode())

    def _values(self, what):
        """[(name, numpy dtype, dims as texts)]"""
        out = []
        for i in range(getattr(self._library, f"slipway_model_{what}_count")(self._model)):
            v = _Value()
            getattr(self._library, f"slipway_model_{what}")(self._model, ctypes.c_size_t(i), ctypes.byref(v))
            out.append((v.name.decode(), _numpy_type(v.dtype), [v.dims[d].decode() for d in range(v.ndim)]))
        return out

    def set_threads(self, threads):
        """How many threads a run may use; 0: as many as there are processors."""
        self._check(self._library.slipway_model_set_threads(self._model, threads))

    @staticmethod
    def _view(array, dtype):
        """The array's own memory, strides and all. bfloat16 goes as its bits."""
        t = _Tensor(array.ctypes.data, _Device(_CPU, 0), array.ndim)
        t.dtype = (
            _DType(4, 16, 1)
            if dtype == np.uint16 == array.dtype
            else _DType(_CODES[array.dtype.kind], array.itemsize * 8, 1)
        )
        t.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        t.strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
        return t

    def _views(self, arrays, values):
        tensors = [self._view(a, dtype) for (_, dtype, _), a in zip(values, arrays)]
        return (ctypes.POINTER(_Tensor) * len(tensors))(*map(ctypes.pointer, tensors))

    def __call__(self, *arrays):
        inputs = self._views(arrays, self.inputs)
        results = (ctypes.POINTER(_Managed) * len(self.outputs))()
        self._check(
            self._library.slipway_model_run(
                self._model, inputs, ctypes.c_size_t(len(arrays)), results, ctypes.c_size_t(len(results))
            )
        )
        return [self._taken(r) for r in results]

    @staticmethod
    def _taken(r):
        """A copy of a result, which is deleted."""
        t = r.contents.tensor
        shape = tuple(t.shape[d] for d in range(t.ndim))
        n = int(np.prod(shape, dtype=np.int64)) * t.dtype.bits // 8
        out = np.frombuffer(ctypes.string_at(t.data, n), _numpy_type(t.dtype)).reshape(shape).copy()
        r.contents.deleter(r)
        return out

    def bind(self, inputs, outputs):
        """A function without arguments that runs on these arrays' memory, again and again: dense outputs of the right
        sizes."""
        views = self._views(inputs, self.inputs), self._views(outputs, self.outputs)
        args = self._model, views[0], ctypes.c_size_t(len(inputs)), views[1], ctypes.c_size_t(len(outputs))
        run, kept = self._library.slipway_model_run_into, (inputs, outputs)

        def call(_kept=kept):
            self._check(run(*args))

        return call

    # What a library of `convert --state` keeps between runs.

    @property
    def states(self):
        """[(name, numpy dtype, dims as texts)]; the dim that grows is the one that is no number."""
        self._library.slipway_model_state_count.restype = ctypes.c_size_t
        return self._values("state")

    def reset_state(self):
        self._check(self._library.slipway_model_reset_state(self._model))

    def state_length(self, i=0):
        """The position of the next token; -1 for a state of fixed size."""
        self._library.slipway_model_state_length.restype = ctypes.c_int64
        return self._library.slipway_model_state_length(self._model, ctypes.c_size_t(i))

    def truncate_state(self, length):
        self._check(self._library.slipway_model_truncate_state(self._model, ctypes.c_int64(length)))

    def get_state(self, i=0):
        result = ctypes.POINTER(_Managed)()
        self._check(self._library.slipway_model_get_state(self._model, ctypes.c_size_t(i), ctypes.byref(result)))
        return self._taken(result)

    def set_state(self, array, i=0):
        view = self._view(array, self.states[i][1])
        self._check(self._library.slipway_model_set_state(self._model, ctypes.c_size_t(i), ctypes.byref(view)))

    def close(self):
        if self._model:
            self._library.slipway_model_close(self._model)
            self._model = None
