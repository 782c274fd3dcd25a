"""Pickles assembled opcode by opcode, good and hostile, and the three kinds of checkpoints around them: torch.save's
zip, its form before 1.6, and the folders of torch.distributed.checkpoint.

A Case is one hostile checkpoint. Where it carries an exploit, the exploit makes a file named MARK in the working
folder. Long because it is a catalogue: every hostile checkpoint is an entry.
"""

import dataclasses
import io
import struct
import zipfile

MARK = "marker"
COMMAND = f"touch {MARK}"
PYTHON = f"open({MARK!r}, 'w')"

HUGE = 1 << 62
OK_BYTES = struct.pack("<4f", 1, 2, 3, 4)


class Code(bytes):
    """Opcodes that leave one value on the stack."""


def enc(value):
    """The opcodes of a Python value; Code stays as it is."""
    if isinstance(value, Code):
        return value
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        if 0 <= value < 256:
            return b"K" + bytes([value])
        if -(1 << 31) <= value < 1 << 31:
            return b"J" + struct.pack("<i", value)
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(raw)]) + raw
    if isinstance(value, str):
        raw = value.encode()
        return b"X" + struct.pack("<I", len(raw)) + raw
    if isinstance(value, bytes):
        return b"B" + struct.pack("<I", len(value)) + value
    if isinstance(value, tuple):
        return b"(" + b"".join(map(enc, value)) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(map(enc, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(enc(k) + enc(v) for k, v in value.items()) + b"u"
    raise TypeError(type(value))


def name(module, attribute):
    return Code(f"c{module}\n{attribute}\n".encode())


def stack_name(module, attribute):
    return Code(enc(module) + enc(attribute) + b"\x93")


def call(function, *arguments):
    return Code(function + enc(arguments) + b"R")


def record(module, class_name, state):
    return Code(name(module, class_name) + b")\x81" + enc(state) + b"b")


def pickle(body, protocol=2):
    return b"\x80" + bytes([protocol]) + enc(body) + b"."


# ---- tensors


def storage(key="0", count=4, kind="FloatStorage", identity=None):
    return Code(enc(identity or ("storage", name("torch", kind), key, "cpu", count)) + b"Q")


def tensor(held=None, offset=0, sizes=(4,), strides=(1,), more=()):
    return call(
        name("torch._utils", "_rebuild_tensor_v2"),
        held or storage(),
        offset,
        sizes,
        strides,
        False,
        call(name("collections", "OrderedDict")),
        *more,
    )


def array(shape, data, kind="f4"):
    """A NumPy array."""
    dtype = Code(call(name("numpy", "dtype"), kind, False, True) + enc((3, "<", None, None, None, -1, -1, 0)) + b"b")
    made = call(name("numpy._core.multiarray", "_reconstruct"), name("numpy", "ndarray"), (0,), b"b")
    return Code(made + enc((1, shape, dtype, False, data)) + b"b")


# ---- files


def zipped(program, storages=None):
    """A checkpoint in zip form around a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("m/data.pkl", program)
        for key, data in ({"0": OK_BYTES} if storages is None else storages).items():
            z.writestr(f"m/data/{key}", data)
        z.writestr("m/version", "3\n")
    return out.getvalue()


MAGIC = 0x1950A86A20F9469CFC6C
MACHINE = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


def counted(data=OK_BYTES, count=4):
    return struct.pack("<q", count) + data


def legacy(body=None, magic=MAGIC, protocol=1001, machine=MACHINE, keys=("0",), tail=None):
    """A checkpoint in the form before torch 1.6."""
    body = {"w": tensor()} if body is None else body
    keys = list(keys) if isinstance(keys, tuple) else keys
    return b"".join(pickle(part) for part in (magic, protocol, machine, body, keys)) + (
        counted() if tail is None else tail
    )


DCP = "torch.distributed.checkpoint.metadata"
FILES = "torch.distributed.checkpoint.filesystem"


def size(*values):
    return call(name("torch", "Size"), values)


def chunk(offsets, sizes):
    return record(DCP, "ChunkStorageMetadata", {"offsets": size(*offsets), "sizes": size(*sizes)})


def properties(dtype="float32"):
    layout = call(name("torch.serialization", "_get_layout"), "torch.strided")
    memory = call(name(DCP, "_MEM_FORMAT_ENCODING"), 0)
    return record(DCP, "TensorProperties", (name("torch", dtype), layout, False, memory, False))


def entry(sizes, chunks):
    return record(
        DCP,
        "TensorStorageMetadata",
        {"properties": properties(), "size": size(*sizes), "chunks": [chunk(*c) for c in chunks]},
    )


def stored(items):
    """storage_data: (name, offsets, file, offset, length, transforms) each."""
    pairs = b""
    for fqn, offsets, file, at, length, *transforms in items:
        state = {"relative_path": file, "offset": at, "length": length} | (
            {"transform_descriptors": transforms[0]} if transforms else {}
        )
        pairs += record(DCP, "MetadataIndex", {"fqn": fqn, "offset": size(*offsets), "index": 0}) + record(
            FILES, "_StorageInfo", state
        )
    return Code(b"}(" + pairs + b"u")


BLOB = zipped(pickle(tensor(sizes=(2, 2), strides=(2, 1))))


def distributed(
    sizes=(4, 2), chunks=(((0, 0), (2, 2)), ((2, 0), (2, 2))), items=None, more=None, metadata=None, blob=BLOB
):
    """The files of a distributed checkpoint of a tensor "w" in two pieces."""
    if items is None:
        items = [("w", (0, 0), "__0_0.distcp", 0, len(blob)), ("w", (2, 0), "__0_0.distcp", len(blob), len(blob))]
    entries = {"w": entry(sizes, chunks)} | (more or {})
    if metadata is None:
        metadata = record(
            DCP, "Metadata", {"state_dict_metadata": entries, "planner_data": None, "storage_data": stored(items)}
        )
    return {".metadata": pickle(metadata, 4), "__0_0.distcp": blob + blob}


# ---- what must be refused


@dataclasses.dataclass
class Case:
    name: str
    data: object  # bytes of a file, or name -> bytes of a folder
    message: str  # a regular expression for the cause
    status: int = 3
    program: bytes = None  # the pickle of an exploit that Python's own unpickler carries out


OFFSET = r"pickle byte \d+: "


def programs():
    """(name, pickle, message, whether Python runs it)"""
    system = name("os", "system")
    refused = OFFSET + r"the name '.*' is not one of those that rebuild tensors; refused"
    yield "reduce_os_system", pickle({"w": call(system, COMMAND)}), refused, True
    yield "reduce_posix_system", pickle(call(name("posix", "system"), COMMAND)), refused, True
    yield "stack_global", pickle(call(stack_name("os", "system"), COMMAND), 4), refused, True
    split = Code(enc("os") + b"q\x050" + enc("system") + b"q\x060h\x05h\x06\x93")
    yield "stack_global_from_memo", pickle(call(split, COMMAND), 4), refused, True
    yield "stack_global_dotted", pickle(call(stack_name("os", "path.os.system"), COMMAND), 4), refused, True
    yield (
        "stack_global_through_an_allowed_module",
        pickle(call(stack_name("torch.serialization", "os.system"), COMMAND), 4),
        refused,
        False,
    )
    yield (
        "stack_global_through_an_allowed_class",
        pickle(call(stack_name("collections", "OrderedDict.__init__"), COMMAND), 4),
        refused,
        False,
    )
    yield "stack_global_of_numbers", pickle(Code(enc(1) + enc(2) + b"\x93"), 4), OFFSET + "a global is named", False
    yield "inst", pickle(Code(b"(" + enc(COMMAND) + b"ios\nsystem\n"), 1), OFFSET + r"opcode 0x69 \(INST\)", True
    yield "obj", pickle(Code(b"(" + system + enc(COMMAND) + b"o"), 1), refused, True
    allowed = name("collections", "OrderedDict")
    yield "obj_of_an_allowed_class", pickle(Code(b"(" + allowed + b"o"), 1), OFFSET + r"opcode 0x6f \(OBJ\)", False
    popen = name("subprocess", "Popen")
    yield "newobj", pickle(Code(popen + enc((COMMAND,)) + b"\x81")), refused, False
    yield "newobj_ex", pickle(Code(popen + enc((COMMAND,)) + enc({}) + b"\x92"), 4), refused, False
    yield (
        "newobj_ex_of_an_allowed_class",
        pickle(Code(allowed + enc(()) + enc({}) + b"\x92"), 4),
        OFFSET + r"opcode 0x92 \(NEWOBJ_EX\)",
        False,
    )
    yield (
        "build_sets_setstate",
        pickle(
            Code(call(name("types", "SimpleNamespace")) + enc({"__setstate__": system}) + b"b" + enc(COMMAND) + b"b")
        ),
        refused,
        True,
    )
    yield (
        "build_on_a_number",
        pickle(Code(enc(1) + enc({"a": 1}) + b"b")),
        OFFSET + "attributes are set on a value that has none",
        False,
    )
    builtin = lambda f, *a: call(name("builtins", f), *a)
    for function, source in (("eval", PYTHON), ("exec", PYTHON)):
        yield f"builtins_{function}", pickle(builtin(function, source)), refused, True
        yield f"builtins2_{function}", pickle(call(name("__builtin__", function), source)), refused, True
    yield (
        "import_and_getattr",
        pickle(call(builtin("getattr", builtin("__import__", "os"), "system"), COMMAND)),
        refused,
        True,
    )
    yield (
        "nested_reduce",
        pickle(call(call(name("operator", "attrgetter"), "system"), builtin("__import__", "os"))),
        refused,
        False,
    )
    yield "map_of_eval", pickle(builtin("list", builtin("map", name("builtins", "eval"), [PYTHON]))), refused, True
    yield "partial", pickle(call(call(name("functools", "partial"), system), COMMAND)), refused, True
    yield (
        "methodcaller",
        pickle(call(call(name("operator", "methodcaller"), "system", COMMAND), builtin("__import__", "os"))),
        refused,
        True,
    )
    yield "run_code", pickle(call(name("runpy", "_run_code"), PYTHON, {})), refused, True
    yield (
        "timeit",
        pickle(call(name("timeit", "timeit"), PYTHON, "pass", Code(stack_name("time", "perf_counter")), 1), 4),
        refused,
        True,
    )
    yield "pickle_within", pickle(call(name("_pickle", "loads"), pickle(call(system, COMMAND)))), refused, True
    yield (
        "torch_load_from_bytes",
        pickle(call(name("torch.storage", "_load_from_bytes"), zipped(pickle(call(system, COMMAND))))),
        refused,
        False,
    )
    yield "torch_import_by_name", pickle(call(name("torch._utils", "_import_dotted_name"), "os.system")), refused, False
    yield "numpy_load", pickle(call(name("numpy", "load"), "x", None, True)), refused, False
    yield (
        "copyreg_reconstructor",
        pickle(call(name("copyreg", "_reconstructor"), name("builtins", "object"), name("builtins", "object"), None)),
        refused,
        False,
    )
    yield "factory_of_defaultdict", pickle(call(name("collections", "defaultdict"), system)), refused, False
    yield "argument_of_a_rebuild", pickle(tensor(more=(call(system, COMMAND),))), refused, True
    yield "hook_of_a_tensor", pickle(Code(enc(0) + b"0" + tensor() + b"0" + call(system, COMMAND))), refused, False
    yield "codec", pickle(call(name("_codecs", "encode"), "x", "rot13")), OFFSET + "the encoding 'rot13'", False
    yield "call_of_a_type", pickle(builtin("int", "7")), OFFSET + "a call of builtins int", False
    yield (
        "call_of_a_result",
        pickle(call(call(allowed), COMMAND)),
        OFFSET + "a call of something that is not a name",
        False,
    )
    yield "space_in_a_name", pickle(call(name("torch._utils", " _rebuild_tensor_v2"))), refused, False
    yield "nul_in_a_name", pickle(call(name("torch._utils", "_rebuild_tensor_v2\0"))), refused, False
    yield "cyrillic_letter", pickle(call(name("t\u043erch._utils", "_rebuild_tensor_v2"))), refused, False
    yield "escape_in_a_name", pickle(call(name("os\x1b[2J", "system\u202e"))), refused, False
    yield "empty_name", pickle(name("", "")), refused, False
    for code, width in ((0x82, 1), (0x83, 2), (0x84, 4)):
        yield (
            f"ext{width}",
            pickle(Code(bytes([code]) + b"\1" * width)),
            OFFSET + rf"opcode {code:#x} \(EXT{width}\)",
            False,
        )
    yield "persid", pickle(Code(b"Pstorage\n")), OFFSET + r"opcode 0x50 \(PERSID\)", False
    yield "next_buffer", pickle(Code(b"\x97"), 5), OFFSET + r"opcode 0x97 \(NEXT_BUFFER\)", False
    yield "unknown_opcode", pickle(Code(b"\xff")), OFFSET + "opcode 0xff", False

    cycle = OFFSET + "a container contains itself"
    yield "recursive_list", pickle(Code(b"]q\1h\1a")), cycle, False
    yield "recursive_dict", pickle(Code(b"}q\1" + enc("w") + b"h\1s")), cycle, False
    yield "recursive_tuple", pickle(Code(b"]q\1h\1\x85q\2ah\2")), cycle, False
    yield "recursive_set", pickle(Code(b"\x8fq\1(]h\1a\x90"), 4), cycle + "|container", False
    yield "deep", pickle(Code(b"N" + b"\x85" * 1_000_000)), OFFSET + "containers nest deeper", False
    laughs = b"]q\0" + b"".join(
        b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60)
    )
    yield "memo_bomb", pickle(Code(laughs)), OFFSET + "values shared within each other", False
    copies = b"](" + b"N" * 20000 + b"eq\1](" + (name("builtins", "set") + b"h\1\x85R") * 20000 + b"e"
    yield "copy_bomb", pickle(Code(copies)), OFFSET + "the pickle copies its own values", False
    yield "marks", pickle(Code(b"(" * 2_000_000)), OFFSET + r"more than \d+ marks", False
    yield "stack", pickle(Code(b"N" * 2_000_000)), OFFSET + r"more than \d+ values on the stack", False
    yield "memo_of_nothing", pickle(Code(b"h\7")), OFFSET + "memo entry 7 was never stored", False

    # Objects of unknown classes are records, which may refer to each other: what is walked stays limited.
    yield (
        "getattr_names_a_function",
        pickle(call(builtin("getattr", name("mylib", "os"), "system"), COMMAND)),
        refused,
        False,
    )
    yield "numpy_runstring", pickle(call(name("numpy.testing._private.utils", "runstring"), PYTHON, {})), refused, False
    yield "state_of_a_record_runs", pickle({"w": record("mylib", "A", {"a": call(system, COMMAND)})}), refused, False
    yield (
        "array_too_short",
        pickle({"w": array((3,), b"abc")}),
        OFFSET + "an array of 3 elements of 4 bytes has 3 bytes",
        False,
    )
    yield (
        "array_overflows",
        pickle({"w": array((HUGE, HUGE), b"abc")}),
        OFFSET + "the shape of an array is not one",
        False,
    )
    yield (
        "array_of_negative_size",
        pickle({"w": array((-1,), b"abc")}),
        OFFSET + "the shape of an array is not one",
        False,
    )
    module = lambda children: record("mylib", "M", {"_parameters": {}, "_buffers": {}, "_modules": children})
    doubled = enc(record("mylib", "M", {"_parameters": {"w": tensor()}, "_buffers": {}, "_modules": {}})) + b"q\0"
    for i in range(40):
        doubled += enc(module({"a": Code(b"h" + bytes([i])), "b": Code(b"h" + bytes([i]))})) + b"q" + bytes([i + 1])
    yield "module_bomb", pickle(Code(doubled)), "met more often than the limit", False
    itself = Code(
        name("mylib", "M")
        + b")\x81q\7"
        + enc({"_parameters": {"w": tensor()}, "_buffers": {}, "_modules": {"a": Code(b"h\7")}})
        + b"b"
    )
    yield "module_within_itself", pickle(itself), "the module 'a.' is within itself", False
    chain = enc(None)
    for i in range(5000):
        chain = name("mylib", "A") + b")\x81" + b"}" + enc("a") + chain + b"sb"
    yield "deep_records", pickle(Code(chain)), OFFSET + "containers nest deeper", False
    yield "list_in_itself_beside_records", pickle({"a": record("mylib", "A", {}), "b": Code(b"]q\1h\1a")}), cycle, False

    early = OFFSET + "the pickle ends too early"
    yield "long4_bomb", pickle(Code(b"\x8b\xff\xff\xff\x7f1")), early, False
    yield "long4_negative", pickle(Code(b"\x8b\xff\xff\xff\xff1")), early, False
    yield "long1_cut", pickle(Code(b"\x8a\xff1")), early, False
    yield "unicode8_bomb", pickle(Code(b"\x8d" + struct.pack("<Q", 1 << 63)), 4), early, False
    yield "bytes8_bomb", pickle(Code(b"\x8e" + struct.pack("<Q", (1 << 64) - 1)), 4), early, False
    yield "bytearray8_bomb", pickle(Code(b"\x96" + struct.pack("<Q", HUGE)), 5), early, False
    yield "frame_bomb", pickle(Code(b"\x95" + struct.pack("<Q", HUGE) + b"N"), 4), OFFSET + "a frame is longer", False
    yield "line_without_end", pickle(Code(b"cos")), OFFSET + "the pickle ends within a line", False
    yield "not_utf8", pickle(Code(b"X\2\0\0\0\xc3\x28")), OFFSET + "a string is not UTF-8", False
    yield "surrogate", pickle(Code(b"X\3\0\0\0\xed\xa0\x80")), OFFSET + "a string is not UTF-8", False
    yield "empty", b"", early, False
    yield "only_stop", pickle(Code(b"")), OFFSET + "the stack is empty", False
    yield "protocol_6", pickle({}, 6), OFFSET + "protocol 6 is unknown", False
    yield "goes_on", pickle({"w": tensor()}) + b"N.", r"bytes follow the pickle at byte \d+", False
    yield "setitem_on_a_list", pickle(Code(b"]" + enc("a") + b"Ns")), OFFSET + "the value to fill is not a dict", False
    yield (
        "setitem_on_a_tensor",
        pickle(Code(tensor() + enc("a") + b"Ns")),
        OFFSET + "the value to fill is not a dict",
        False,
    )
    yield (
        "setitem_on_a_name",
        pickle(Code(allowed + enc("a") + b"Ns")),
        OFFSET + "the value to fill is not a dict",
        False,
    )
    yield "append_to_a_dict", pickle(Code(b"}Na")), OFFSET + "the value to fill is not a list", False
    yield "appends_without_mark", pickle(Code(b"]e")), OFFSET + "no mark is on the stack", False
    yield "reaches_below_a_mark", pickle(Code(b"](0(a")), OFFSET, False
    yield "key_without_value", pickle(Code(b"}(" + enc("a") + b"u")), OFFSET + ".*a key but no value", False
    yield "list_as_key", pickle(Code(b"}(]Nu")), OFFSET + "a container is the key", False
    yield (
        "key_twice",
        pickle(Code(b"}(" + (enc("w") + tensor()) * 2 + b"u")),
        OFFSET + "a dict repeats the key 'w'",
        False,
    )

    outside = OFFSET + "a tensor of dtype float32 .* does not lie inside its storage '0'"
    for case, made in {
        "offset_negative": tensor(offset=-1),
        "offset_huge": tensor(offset=HUGE),
        "offset_past_end": tensor(offset=1),
        "stride_negative": tensor(strides=(-1,)),
        "stride_huge": tensor(strides=(HUGE,)),
        "size_negative": tensor(sizes=(-4,)),
        "size_huge": tensor(sizes=(HUGE,)),
        "sizes_overflow": tensor(sizes=(HUGE, HUGE, 4), strides=(0, 0, 0)),
        "strides_overflow": tensor(sizes=(2, 2), strides=(HUGE, HUGE)),
        "one_too_far": tensor(sizes=(2, 2), strides=(3, 1)),
    }.items():
        yield case, pickle({"w": made}), outside, False
    yield "more_sizes", pickle(tensor(sizes=(2, 2))), OFFSET + "a tensor has 2 sizes and 1 strides", False
    yield "dimensions", pickle(tensor(sizes=(1,) * 100, strides=(1,) * 100)), OFFSET + "a tensor has 100 sizes", False
    yield "size_of_no_number", pickle(tensor(sizes=("4",))), OFFSET + "argument 2 .* is not a tuple of integers", False
    yield "offset_beyond_int64", pickle(tensor(offset=1 << 70)), OFFSET + "argument 1 .* is not an integer", False
    yield (
        "storage_too_large",
        pickle(tensor(storage(count=5))),
        OFFSET + "storage '0' claims 20 bytes, but has 16",
        False,
    )
    yield "storage_overflows", pickle(tensor(storage(count=HUGE))), OFFSET + "storage '0' claims", False
    yield "storage_of_negative_size", pickle(tensor(storage(count=-4))), OFFSET + "a persistent id is not", False
    yield "storage_missing", pickle(tensor(storage("9"))), OFFSET + "storage '9' is not in the archive", False
    yield (
        "storage_elsewhere",
        pickle(tensor(storage("../../etc/passwd"))),
        OFFSET + "storage '../../etc/passwd' is not in the archive",
        False,
    )
    yield (
        "storage_of_a_function",
        pickle(tensor(storage(identity=("storage", name("torch._utils", "_rebuild_tensor"), "0", "cpu", 4)))),
        OFFSET + "a storage is of the class",
        False,
    )
    yield (
        "tensor_as_storage",
        pickle(call(name("torch._utils", "_rebuild_tensor"), tensor(), 0, (4,), (1,))),
        OFFSET + "argument 0 .* is not a storage",
        False,
    )


def identities():
    """Persistent ids that are none."""
    kind = name("torch", "FloatStorage")
    good = ("storage", kind, "0", "cpu", 4)
    yield "arity_4", good[:4]
    yield "arity_7", good + (None, None)
    yield "no_tuple", [*good]
    yield "text", "storage"
    yield "tag", ("module", *good[1:])
    yield "class_is_text", ("storage", "FloatStorage", *good[2:])
    yield "key_is_a_number", ("storage", kind, 0, "cpu", 4)
    yield "key_is_a_tuple", ("storage", kind, ("0",), "cpu", 4)
    yield "count_is_a_float", ("storage", kind, "0", "cpu", Code(b"G\x40\x10\0\0\0\0\0\0"))
    yield "count_is_negative", ("storage", kind, "0", "cpu", -1)


def views():
    """view_metadata that is none; 4 elements exist."""
    yield "first_negative", ("v", -1, 2)
    yield "count_negative", ("v", 0, -1)
    yield "past_end", ("v", 3, 2)
    yield "first_past_end", ("v", 5, 0)
    yield "overflow", ("v", HUGE, HUGE)
    yield "beyond_int64", ("v", 1 << 70, 1)
    yield "arity", ("v", 0)
    yield "key", (7, 0, 4)
    yield "no_tuple", "v"


def cases():
    for case, program, message, runs in programs():
        yield Case(f"zip_{case}", zipped(program), message, program=program if runs else None)
    for case, identity in identities():
        message = OFFSET + "(a persistent id is not|a storage is of the class)"
        yield Case(f"zip_id_{case}", zipped(pickle(tensor(storage(identity=identity)))), message)
        yield Case(
            f"legacy_id_{case}",
            legacy({"w": tensor(storage(identity=identity))}),
            "the object, which begins at byte .*" + message,
        )
    for case, view in views():
        held = storage(identity=("storage", name("torch", "FloatStorage"), "0", "cpu", 4, view))
        yield Case(
            f"legacy_view_{case}",
            legacy({"w": tensor(held, sizes=(1,))}),
            OFFSET + "(a view of .* does not lie inside|the view of a storage is not)",
        )
    half = storage(identity=("storage", name("torch", "FloatStorage"), "0", "cpu", 4, ("v", 2, 2)))
    yield Case(
        "legacy_tensor_outside_its_view",
        legacy({"w": tensor(half, sizes=(3,))}),
        OFFSET + "a tensor .* does not lie inside",
    )

    exploit = call(name("os", "system"), COMMAND)
    for part in ("magic", "protocol", "machine", "body", "keys"):
        where = {
            "magic": "the magic number",
            "protocol": "the protocol version",
            "machine": "the description",
            "body": "the object",
            "keys": "the list of storages",
        }[part]
        yield Case(
            f"legacy_exploit_in_{part}",
            legacy(**{part: exploit}),
            where + r".*, which begins at byte \d+: " + OFFSET + r"the name 'os\.system'",
            program=pickle(exploit),
        )
    yield Case("legacy_magic", legacy(magic=MAGIC + 1), "at byte 0: .*magic number")
    yield Case("legacy_plain_pickle", pickle({"w": 1}), "at byte 0: .*magic number")
    yield Case("legacy_protocol", legacy(protocol=1002), r"at byte \d+: the protocol version is not 1001")
    yield Case("legacy_machine", legacy(machine={}), r"at byte \d+: the file does not say its byte order")
    yield Case("legacy_big_endian", legacy(machine=MACHINE | {"little_endian": False}), "big-endian", status=4)
    yield Case(
        "legacy_count",
        legacy(tail=counted(count=3)),
        r"at byte \d+: storage '0' has 3 elements, where the pickle says 4",
    )
    yield Case("legacy_count_negative", legacy(tail=counted(count=-4)), r"at byte \d+: storage '0' has -4 elements")
    yield Case(
        "legacy_cut_storage",
        legacy(tail=counted(OK_BYTES[:-1])),
        r"at byte \d+: storage '0' of 16 bytes runs past the end",
    )
    yield Case("legacy_no_storage", legacy(tail=b"\0\0\0"), r"at byte \d+: the file ends before storage '0'")
    yield Case("legacy_goes_on", legacy(tail=counted() + b"x"), r"at byte \d+: the file goes on")
    yield Case(
        "legacy_huge_storage",
        legacy({"w": tensor(storage(count=1 << 60))}, tail=counted(count=1 << 60)),
        r"at byte \d+: storage '0' of \d+ bytes runs past",
    )
    yield Case("legacy_unlisted", legacy(keys=(), tail=b""), r"at byte \d+: storage '0' is not in the list")
    yield Case("legacy_listed_twice", legacy(keys=("0", "0"), tail=counted() * 2), r"at byte \d+: .*repeats '0'")
    yield Case("legacy_unknown_key", legacy(keys=("0", "1"), tail=counted() * 2), r"at byte \d+: .*names '1'")
    yield Case("legacy_keys_are_numbers", legacy(keys=[0]), r"at byte \d+: ")
    yield Case("legacy_keys_are_no_list", legacy(keys={"0": 1}), r"at byte \d+: .*no list")
    two = {"a": tensor(storage()), "b": tensor(storage(kind="IntStorage"))}
    yield Case("legacy_two_types", legacy(two), r"at byte \d+: .*two types or sizes")

    w = "__0_0.distcp"
    first, second = ("w", (0, 0), w, 0, len(BLOB)), ("w", (2, 0), w, len(BLOB), len(BLOB))
    yield Case(
        "dcp_exploit",
        distributed(metadata=exploit),
        r"\.metadata: " + OFFSET + "the name 'os.system'",
        program=pickle(exploit),
    )
    yield Case(
        "dcp_exploit_as_record", distributed(metadata=record("os", "system", COMMAND)), OFFSET + "the name 'os.system'"
    )
    for module, attribute in (
        (DCP, "os.system"),
        (DCP + ".x", "Metadata"),
        (DCP, "Metadata.x"),
        (DCP, "metadata"),
        ("pathlib", "Path.home"),
        ("pathlib", "os"),
    ):
        yield Case(
            f"dcp_name_{module[-6:]}_{attribute}",
            distributed(metadata=call(name(module, attribute), 1)),
            OFFSET + "the name '.*' is not one of those",
        )
    yield Case(
        "dcp_exploit_in_a_shard",
        distributed(
            items=[("w", (0, 0), w, 0, len(zipped(pickle(exploit))))],
            chunks=[((0, 0), (4, 2))],
            blob=zipped(pickle(exploit)),
        ),
        OFFSET + "the name 'os.system'",
        program=pickle(exploit),
    )
    yield Case("dcp_not_metadata", distributed(metadata={"a": 1}), "not the metadata of a distributed checkpoint")
    yield Case(
        "dcp_other_record",
        distributed(metadata=record(DCP, "StorageMeta", {"state_dict_metadata": {}, "storage_data": {}})),
        "not the metadata",
    )
    own = Code(name(DCP, "Metadata") + b")\x81q\7" + b"}" + enc("state_dict_metadata") + b"h\7sb")
    yield Case("dcp_record_in_itself", distributed(metadata=own), OFFSET + "a container contains itself")
    for path in ("../__0_0.distcp", "/etc/passwd", "a/b", "..", ".", "", "__0_0.distcp\0x"):
        yield Case(
            f"dcp_path_{path!r}",
            distributed(items=[first[:2] + (path,) + first[3:], second]),
            "'w': .* is not a file of the checkpoint's folder",
        )
    yield Case(
        "dcp_offset_outside",
        distributed(items=[first, ("w", (2, 0), w, 2 * len(BLOB), 1)]),
        "its piece at .* lie outside __0_0.distcp",
    )
    yield Case(
        "dcp_length_outside",
        distributed(items=[first, ("w", (2, 0), w, len(BLOB), HUGE)]),
        "its piece at .* lie outside __0_0.distcp",
    )
    yield Case(
        "dcp_offset_negative",
        distributed(items=[first, ("w", (2, 0), w, -1, 1)]),
        "'w': it has no path, offset and length",
    )
    yield Case("dcp_offset_huge", distributed(items=[first, ("w", (2, 0), w, (1 << 63) - 1, HUGE)]), "lie outside")
    yield Case(
        "dcp_within_a_shard", distributed(items=[first, ("w", (2, 0), w, len(BLOB) + 5, len(BLOB) - 5)]), "its piece at"
    )
    yield Case("dcp_no_storage", distributed(items=[first]), r"its piece at \[2,0\] is not in storage_data")
    yield Case("dcp_stored_twice", distributed(items=[first, second, second]), "storage_data of 'w': it is there twice")
    yield Case(
        "dcp_hole", distributed(chunks=[((0, 0), (2, 2))]), "'w': the pieces leave a hole: they hold 4 of 8 elements"
    )
    yield Case(
        "dcp_overlap",
        distributed(
            sizes=(3, 2),
            chunks=[((0, 0), (2, 2)), ((1, 0), (2, 2))],
            items=[first, ("w", (1, 0), w, len(BLOB), len(BLOB))],
        ),
        "'w': the piece .* overlap",
    )
    yield Case(
        "dcp_overlap_and_hole",
        distributed(
            sizes=(2, 4),
            chunks=[((0, 0), (2, 2)), ((0, 1), (2, 2))],
            items=[first, ("w", (0, 1), w, len(BLOB), len(BLOB))],
        ),
        "overlap",
    )
    yield Case(
        "dcp_piece_outside",
        distributed(chunks=[((0, 0), (2, 2)), ((3, 0), (2, 2))], items=[first, ("w", (3, 0), w, len(BLOB), len(BLOB))]),
        "reaches outside the tensor",
    )
    yield Case(
        "dcp_piece_far_outside",
        distributed(
            chunks=[((0, 0), (2, 2)), ((HUGE, 0), (2, 2))], items=[first, ("w", (HUGE, 0), w, len(BLOB), len(BLOB))]
        ),
        "reaches outside the tensor",
    )
    yield Case("dcp_size_overflows", distributed(sizes=(HUGE, HUGE)), "'w': tensor size overflows")
    yield Case("dcp_size_negative", distributed(sizes=(-4, 2)), "'w': it is not described as a tensor of pieces")
    yield Case(
        "dcp_shape_differs",
        distributed(chunks=[((0, 0), (2, 2)), ((2, 0), (1, 2))]),
        r"is f32\[2,2\] in __0_0.distcp, not f32\[1,2\]",
    )
    yield Case("dcp_other_rank", distributed(sizes=(8,)), "another number of dimensions")
    yield Case("dcp_shard_is_no_tensor", distributed(blob=zipped(pickle({"w": tensor()}))), "is no tensor")
    yield Case("dcp_shard_is_no_zip", distributed(blob=b"x" * 100), "its piece at")
    yield Case("dcp_compressed", distributed(items=[first + (["zstd"],), second]), "transformed", status=4)
    yield Case(
        "dcp_unknown_name",
        distributed(metadata=record("mytorch.metadata", "Metadata", {})),
        OFFSET + "the name 'mytorch.metadata.Metadata'",
    )
