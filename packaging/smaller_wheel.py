#!/usr/bin/env python3
"""Compresses the members of a wheel once more, in place, by libdeflate at its highest level: what every installer of
wheels unpacks, in 3 % fewer bytes than zlib makes of them. The contents stay the same, and so does their order.

    smaller_wheel.py FILE.whl
"""

import ctypes
import ctypes.util
import os
import struct
import sys
import zipfile

LEVEL = 12


def compressor():
    """Of bytes, as a raw deflate stream."""
    path = ctypes.util.find_library("deflate")
    if path is None:
        sys.exit("error: there is no libdeflate (Debian: libdeflate-dev)")
    library = ctypes.CDLL(path)
    library.libdeflate_alloc_compressor.restype = ctypes.c_void_p
    library.libdeflate_deflate_compress_bound.restype = ctypes.c_size_t
    library.libdeflate_deflate_compress_bound.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.libdeflate_deflate_compress.restype = ctypes.c_size_t
    library.libdeflate_deflate_compress.argtypes = [
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t
    ]  # fmt: skip
    state = library.libdeflate_alloc_compressor(LEVEL)
    if not state:
        sys.exit("error: libdeflate has no memory")

    def compress(data):
        room = ctypes.create_string_buffer(library.libdeflate_deflate_compress_bound(state, len(data)))
        size = library.libdeflate_deflate_compress(state, data, len(data), room, len(room))
        assert size > 0, "less room than libdeflate's own bound"
        return room.raw[:size]

    return compress


def members(path):
    """(name, content, what the central directory says of date, CRC-32 and permissions)"""
    with zipfile.ZipFile(path) as wheel:
        for info in wheel.infolist():
            year, month, day, hour, minute, second = info.date_time
            when = (hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day)
            yield info.filename.encode(), wheel.read(info), when, info.CRC, info.external_attr


def main():
    (path,) = sys.argv[1:]
    compress = compressor()
    made, directory, count = path + ".new", b"", 0
    with open(made, "wb") as out:
        for name, content, when, crc, attributes in members(path):
            packed, method = compress(content), zipfile.ZIP_DEFLATED
            if len(packed) >= len(content):
                packed, method = content, zipfile.ZIP_STORED
            offset, utf8 = out.tell(), 0 if name.isascii() else 0x800
            assert max(offset, len(content)) < 1 << 32, "a wheel of more than 4 GB"
            common = struct.pack("<HHHHHLLLHH", 20, utf8, method, *when, crc, len(packed), len(content), len(name), 0)
            out.write(b"PK\3\4" + common + name + packed)
            made_by = struct.pack("<H", 3 << 8 | 20)  # Unix: so that permissions count
            directory += b"PK\1\2" + made_by + common + struct.pack("<HHHLL", 0, 0, 0, attributes, offset) + name
            count += 1
        end = struct.pack("<HHHHLLH", 0, 0, count, count, len(directory), out.tell(), 0)
        out.write(directory + b"PK\5\6" + end)
    os.replace(made, path)


if __name__ == "__main__":
    main()
