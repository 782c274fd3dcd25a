"""slipway's C library from Python with nothing but ctypes: live torch and numpy tensors are written to ONNX from where
they lie, and a model's weights come back as torch and numpy tensors over the mapped file.

    python samples/python_ctypes.py build/libslipway.so OUT_FOLDER

What is handed over passes to slipway, which gives it back when the model is closed and the files are written.
"""

import ctypes
import pathlib
import sys

VERSIONED, USED = b"dltensor_versioned", b"used_dltensor_versioned"
READ_ONLY = 1
INPUT, OUTPUT, UPDATE, WEIGHT = range(4)
ALL_PROGRAMS = ctypes.c_size_t(-1)


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensorVersioned(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensorVersioned))
DLManagedTensorVersioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", Deleter),
    ("flags", ctypes.c_uint64),
    ("dl_tensor", DLTensor),
]


class Value(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("dl_code", ctypes.c_uint8),
        ("dl_bits", ctypes.c_uint8),
        ("dl_lanes", ctypes.c_uint16),
        ("is_tensor", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("mins", ctypes.POINTER(ctypes.c_int64)),
        ("maxs", ctypes.POINTER(ctypes.c_int64)),
        ("exprs", ctypes.POINTER(ctypes.c_char_p)),
        ("value", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("stored", ctypes.c_int32),
    ]


class Diagnostic(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("severity", ctypes.c_int),
        ("id", ctypes.c_char_p),
        ("cause", ctypes.c_char_p),
        ("place", ctypes.c_char_p),
        ("help", ctypes.c_char_p),
    ]


# ---- capsules, which carry DLPack tensors between Python libraries

_python = ctypes.pythonapi
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _Destructor]
_raw_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", _python))
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))


@_Destructor
def _drop(capsule):
    """A capsule nobody took the tensor out of gives it back."""
    if _raw_name(capsule) == VERSIONED:
        tensor = ctypes.cast(_raw_pointer(capsule, VERSIONED), ctypes.POINTER(DLManagedTensorVersioned))
        tensor.contents.deleter(tensor)


class Weight:
    """A tensor that slipway gave out, once for numpy.from_dlpack, torch.from_dlpack and their kind."""

    def __init__(self, pointer):
        self._capsule = _python.PyCapsule_New(ctypes.cast(pointer, ctypes.c_void_p), VERSIONED, _drop)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if max_version is None or max_version[0] < 1:
            raise BufferError("the weight is read-only, which needs DLPack 1.0 to say")
        capsule, self._capsule = self._capsule, None
        return capsule

    def __dlpack_device__(self):
        return (1, 0)  # the CPU


# ---- the library


class Error(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(str(path))
        text, size, handle = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
        managed = ctypes.POINTER(DLManagedTensorVersioned)
        for name, result, arguments in (
            ("version", text, []),
            ("open", ctypes.c_int, [text, handle, ctypes.POINTER(handle)]),
            ("new", ctypes.c_int, [ctypes.POINTER(handle)]),
            ("close", None, [handle]),
            ("error", text, [handle]),
            ("diagnostic_count", size, [handle]),
            ("diagnostic_get", ctypes.c_int, [handle, size, ctypes.POINTER(Diagnostic)]),
            ("program_count", size, [handle]),
            ("value_count", size, [handle, size, ctypes.c_int]),
            ("value_get", ctypes.c_int, [handle, size, ctypes.c_int, size, ctypes.POINTER(Value)]),
            ("inspect", ctypes.c_int, [handle, ctypes.POINTER(text)]),
            ("weight_get", ctypes.c_int, [handle, size, text, ctypes.POINTER(managed)]),
            ("weight_set", ctypes.c_int, [handle, size, text, managed]),
            ("weights_load", ctypes.c_int, [handle, size, text, handle]),
            ("options_new", handle, []),
            ("options_free", None, [handle]),
            ("options_set", ctypes.c_int, [handle, text, text]),
            ("options_error", text, [handle]),
            ("options_key", text, [size]),
            ("pass_name", text, [size]),
            ("run_pass", ctypes.c_int, [handle, size, text, handle]),
            ("export", ctypes.c_int, [handle, size, text, handle, ctypes.c_void_p]),
        ):
            function = getattr(self.c, "slipway_" + name)
            function.restype, function.argtypes = result, arguments


class Model:
    """An opened file, or weights alone: Model(library). A context manager."""

    def __init__(self, library, path=None):
        self.c = library.c
        self._handle = ctypes.c_void_p()
        if path is None:
            status = self.c.slipway_new(ctypes.byref(self._handle))
        else:
            status = self.c.slipway_open(str(path).encode(), None, ctypes.byref(self._handle))
        try:
            self._check(status)
        except Error:
            self.close()
            raise

    def _check(self, status):
        if status != 0:
            raise Error(status, self.c.slipway_error(self._handle).decode())

    def close(self):
        self.c.slipway_close(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def values(self, role, program=0):
        for i in range(self.c.slipway_value_count(self._handle, program, role)):
            value = Value(struct_size=ctypes.sizeof(Value))
            self._check(self.c.slipway_value_get(self._handle, program, role, i, ctypes.byref(value)))
            yield value.name.decode(), value.dtype.decode(), [value.exprs[k].decode() for k in range(value.rank)]

    def __setitem__(self, name, tensor):
        """The weight becomes this tensor, of torch, numpy or any library with __dlpack__; nothing is copied."""
        capsule = tensor.__dlpack__(max_version=(1, 1))
        pointer = _python.PyCapsule_GetPointer(capsule, VERSIONED)
        _python.PyCapsule_SetName(capsule, USED)  # it is slipway's now, whatever the call returns
        managed = ctypes.cast(pointer, ctypes.POINTER(DLManagedTensorVersioned))
        self._check(self.c.slipway_weight_set(self._handle, 0, name.encode(), managed))

    def __getitem__(self, name):
        managed = ctypes.POINTER(DLManagedTensorVersioned)()
        self._check(self.c.slipway_weight_get(self._handle, 0, name.encode(), ctypes.byref(managed)))
        return Weight(managed)

    def export(self, path, **options):
        handle = self.c.slipway_options_new()
        try:
            for key, value in options.items():
                if self.c.slipway_options_set(handle, key.replace("_", "-").encode(), str(value).encode()) != 0:
                    raise Error(2, self.c.slipway_options_error(handle).decode())
            self._check(self.c.slipway_export(self._handle, ALL_PROGRAMS, str(path).encode(), handle, None))
        finally:
            self.c.slipway_options_free(handle)


def main():
    import numpy
    import torch

    library, folder = Library(sys.argv[1]), pathlib.Path(sys.argv[2])
    print("slipway", library.c.slipway_version().decode(), "· torch", torch.__version__, "· numpy", numpy.__version__)

    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    torch.export.save(torch.export.export(module, (torch.ones(2, 8),)), folder / "model.pt2")

    with Model(library, folder / "model.pt2") as model:
        for name, dtype, shape in model.values(WEIGHT):
            print(f"  {name}: {dtype}[{','.join(shape)}]")

        # Into the model: a tensor that torch goes on using, and an array of numpy's.
        weight = torch.randn(16, 8)
        bias = numpy.linspace(-1, 1, 16, dtype=numpy.float32)
        model["0.weight"] = weight
        model["0.bias"] = bias

        # Out of it: torch's own memory again, and a weight from the mapped file.
        same = torch.from_dlpack(model["0.weight"])
        mapped = numpy.from_dlpack(model["2.weight"])
        print("  the same memory:", same.data_ptr() == weight.data_ptr(), "· read-only:", not mapped.flags.writeable)
        model.export(folder / "model.onnx", opset=20, metadata="made=by samples/python_ctypes.py")

    # The file is closed; what was given out stays.
    expected = module[2].weight.detach().numpy()
    print("  as torch has it:", bool((mapped == expected).all()))
    ok = same.data_ptr() == weight.data_ptr() and not mapped.flags.writeable and bool((mapped == expected).all())

    # Tensors alone, to safetensors: no program, no copy.
    with Model(library) as weights:
        weights["embedding"] = torch.arange(12.0).reshape(3, 4).t()  # strided: gathered as it is written
        weights["scale"] = numpy.array(0.5, dtype=numpy.float16)
        weights.export(folder / "weights.safetensors")
    print("  wrote", *(p.name for p in sorted(folder.glob("*.onnx")) + sorted(folder.glob("*.safetensors"))))
    return 0 if ok else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main())
