"""Image files for tests: PNG of any kind and JPEG of many scans, put together byte by byte; files that Pillow wrote."""

import pathlib
import struct
import zlib

JPEGS = pathlib.Path(__file__).resolve().parent.parent / "interop" / "images"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of PNG's color types
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(samples, depth):
    """A row of numbers as PNG packs them, behind the filter that changes nothing."""
    if depth == 16:
        return b"\0" + struct.pack(f">{len(samples)}H", *samples)
    bits = "".join(format(s, f"0{depth}b") for s in samples)
    bits += "0" * (-len(bits) % 8)
    return b"\0" + bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def png(rows, color=2, depth=8, interlaced=False, chunks=b"", size=None):
    """A PNG of rows of pixels, each a tuple of CHANNELS[color] numbers. `chunks` come before the pixels; `size` is what
    the header says, if not the truth."""
    height, width = len(rows), len(rows[0])
    data = b""
    for x0, y0, dx, dy in ADAM7 if interlaced else ((0, 0, 1, 1),):
        for row in rows[y0::dy]:
            if samples := [s for pixel in row[x0::dx] for s in pixel]:
                data += packed(samples, depth)
    header = struct.pack(">IIBBBBB", *(size or (width, height)), depth, color, 0, 0, int(interlaced))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunks
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


def scans(coefficients):
    """A grey JPEG of 8x8 pixels that refines so many of its coefficients bit by bit, 14 scans each: all are valid."""

    def segment(kind, data):
        return bytes([0xFF, kind]) + struct.pack(">H", len(data) + 2) + data

    def scan(first, last, high, low):
        return segment(0xDA, bytes([1, 1, 0, first, last, high << 4 | low])) + b"\x7f"  # the code 0, padded

    one_code = bytes([1] + [0] * 15 + [0])  # of one bit, for the symbol 0
    out = b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64)
    out += segment(0xC2, struct.pack(">BHHBBBB", 8, 8, 8, 1, 1, 0x11, 0))
    out += segment(0xC4, b"\0" + one_code + b"\x10" + one_code) + scan(0, 0, 0, 0)
    for k in range(1, coefficients + 1):
        out += scan(k, k, 0, 13) + b"".join(scan(k, k, low + 1, low) for low in reversed(range(13)))
    return out + b"\xff\xd9"
