"""libslipway.so (include/slipway/slipway.h): programs that are in memory, and weights that stay where they are."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ._model import _Device, _DType, _Managed, _Tensor
from ._program import Diagnostic, Option, SlipwayError, option_values

Progress = Callable[[int, int], object]  # bytes done, bytes in all

_WEIGHT = 3
_ALL_PROGRAMS = ctypes.c_size_t(-1)
_SEVERITIES = ("error", "warning", "note")
_PROGRESS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
_USAGE, _NOT_SUPPORTED = 2, 4


class _DiagnosticStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("severity", ctypes.c_int),
        ("id", ctypes.c_char_p),
        ("cause", ctypes.c_char_p),
        ("place", ctypes.c_char_p),
        ("help", ctypes.c_char_p),
    ]


class _ValueStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("dl_dtype", _DType),
        ("is_tensor", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.c_void_p),
        ("mins", ctypes.c_void_p),
        ("maxs", ctypes.c_void_p),
        ("exprs", ctypes.c_void_p),
        ("value", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("stored", ctypes.c_int32),
    ]


def usage_error(cause: str, help: str = "") -> SlipwayError:
    return SlipwayError(_USAGE, [Diagnostic("error", "SW1003", cause, "", help)])


def not_supported(cause: str, help: str = "", place: str = "") -> SlipwayError:
    return SlipwayError(_NOT_SUPPORTED, [Diagnostic("error", "SW2002", cause, place, help)])


def _path() -> Path:
    return Path(__file__).parent / "lib" / "libslipway.so.0"


def build() -> str:
    """Tells builds of the library apart."""
    info = _path().stat()
    return f"{info.st_size}-{info.st_mtime_ns}"


@cache
def _library() -> ctypes.CDLL:
    path = _path()
    try:
        c = ctypes.CDLL(os.fspath(path))
        _declare(c)
    except (OSError, AttributeError) as e:
        raise not_supported(
            f"models in memory need libslipway.so, which is not part of this package: {e}",
            "install a wheel that has it; or torch.export.save() the program and convert the file",
        ) from None
    return c


def _declare(c: ctypes.CDLL) -> None:
    text, size, handle, status = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("open", status, [text, handle, ctypes.POINTER(handle)]),
        ("open_bytes", status, [text, size, text, handle, ctypes.POINTER(handle)]),
        ("new", status, [ctypes.POINTER(handle)]),
        ("close", None, [handle]),
        ("diagnostic_count", size, [handle]),
        ("diagnostic_get", status, [handle, size, ctypes.POINTER(_DiagnosticStruct)]),
        ("value_count", size, [handle, size, status]),
        ("value_get", status, [handle, size, status, size, ctypes.POINTER(_ValueStruct)]),
        ("weight_set", status, [handle, size, text, ctypes.POINTER(_Managed)]),
        ("options_new", handle, []),
        ("options_free", None, [handle]),
        ("options_set", status, [handle, text, text]),
        ("options_error", text, [handle]),
        ("options_progress", None, [handle, _PROGRESS, handle]),
        ("export", status, [handle, size, text, handle, handle]),
        ("export_report", status, [handle, ctypes.POINTER(text)]),
    ):
        function = getattr(c, "slipway_" + name)
        function.restype, function.argtypes = result, arguments


class Lent:
    """Memory of another library as a tensor. Whoever hands it over keeps the memory until the model is closed."""

    def __init__(
        self, address: int, dtype: tuple[int, int, int], sizes: Sequence[int], strides: Sequence[int], owner: Any
    ) -> None:
        self.owner = owner
        self._sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        self._strides = (ctypes.c_int64 * len(strides))(*strides)
        self.managed = _Managed()
        self.managed.version[0], self.managed.version[1] = 1, 1
        t: _Tensor = self.managed.tensor
        t.data, t.device, t.ndim, t.dtype = address, _Device(1, 0), len(sizes), _DType(*dtype)
        t.shape, t.strides = self._sizes, self._strides


class Archive:
    """An open model of the library; a context manager. Calls do not hold the interpreter's lock."""

    def __init__(self) -> None:
        self._c = _library()
        self._handle = ctypes.c_void_p()
        self._lent: list[Lent] = []

    @classmethod
    def of_bytes(cls, data: bytes, name: str) -> Archive:
        a = cls()
        a._opened(a._c.slipway_open_bytes(data, len(data), name.encode(), None, ctypes.byref(a._handle)))
        return a

    @classmethod
    def of_file(cls, path: str) -> Archive:
        a = cls()
        a._opened(a._c.slipway_open(os.fsencode(path), None, ctypes.byref(a._handle)))
        return a

    @classmethod
    def of_weights(cls) -> Archive:
        a = cls()
        a._opened(a._c.slipway_new(ctypes.byref(a._handle)))
        return a

    def _opened(self, status: int) -> None:
        try:
            self._check(status)
        except SlipwayError:
            self.close()
            raise

    def diagnostics(self) -> list[Diagnostic]:
        found = []
        for i in range(self._c.slipway_diagnostic_count(self._handle)):
            d = _DiagnosticStruct(struct_size=ctypes.sizeof(_DiagnosticStruct))
            self._c.slipway_diagnostic_get(self._handle, i, ctypes.byref(d))
            texts = (t.decode(errors="replace") for t in (d.id, d.cause, d.place, d.help))
            found.append(Diagnostic(_SEVERITIES[d.severity], *texts))
        return found

    def _check(self, status: int) -> None:
        if status != 0:
            raise SlipwayError(status, self.diagnostics())

    def weights(self) -> set[str]:
        """The names of the parameters, buffers and constants of the first program."""
        names = set()
        value = _ValueStruct(struct_size=ctypes.sizeof(_ValueStruct))
        for i in range(self._c.slipway_value_count(self._handle, 0, _WEIGHT)):
            self._c.slipway_value_get(self._handle, 0, _WEIGHT, i, ctypes.byref(value))
            names.add(value.name.decode())
        return names

    def set_weight(self, name: str, tensor: Lent) -> None:
        self._lent.append(tensor)
        self._check(self._c.slipway_weight_set(self._handle, 0, name.encode(), ctypes.byref(tensor.managed)))

    def export(
        self, output: str, options: Mapping[str, Option], progress: Progress | None = None
    ) -> tuple[Any, list[Diagnostic]]:
        """The report of `convert --json`, and warnings and notes."""
        handle = self._c.slipway_options_new()
        raised: list[BaseException] = []

        def call(_: Any, done: int, total: int) -> None:
            try:
                if not raised and progress is not None:
                    progress(done, total)
            except BaseException as e:  # carried over the C code in between
                raised.append(e)

        callback = _PROGRESS(call)
        try:
            for name, value in option_values(options):
                key = name.replace("_", "-").encode()
                if self._c.slipway_options_set(handle, key, ("true" if value is None else value).encode()) != 0:
                    error = self._c.slipway_options_error(handle).decode(errors="replace")
                    raise usage_error(error, "docs/cli.md lists the flags of convert")
            if progress is not None:
                self._c.slipway_options_progress(handle, callback, None)
            status = self._c.slipway_export(self._handle, _ALL_PROGRAMS, os.fsencode(output), handle, None)
        finally:
            self._c.slipway_options_free(handle)
        if raised:
            raise raised[0]
        self._check(status)
        diagnostics = self.diagnostics()
        text = ctypes.c_char_p()
        self._c.slipway_export_report(self._handle, ctypes.byref(text))
        return json.loads(text.value or b"{}"), diagnostics

    def close(self) -> None:
        handle, self._handle = self._handle, ctypes.c_void_p()
        self._c.slipway_close(handle)
        self._lent.clear()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
