"""Images for calibration that are damaged, cut off, huge on paper, or of kinds that are not read: one clear error that
names the file, and no output."""

import os
import pathlib
import random
import struct
import subprocess

import pytest
from images import JPEGS, chunk, png, scans

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
READ_IMAGE = pathlib.Path(os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))).parent / "read_image"
GOOD = png([[(x, y, 7) for x in range(9)] for y in range(8)])
JPEG = (JPEGS / "420.jpg").read_bytes()
PROGRESSIVE = (JPEGS / "progressive.jpg").read_bytes()

NET = """slipway.ir 1
weights {
  $conv.weight: f32[4,3,3,3] @ random(seed=1)
}
graph main(
  %w: f32[4,3,3,3] = parameter $conv.weight,
  %x: f32[1,3,8,8],
) {
  %c: f32[1,4,6,6] = aten.conv2d.default(input=%x, weight=%w)
  return %c
}
"""
FLAGS = ["--mean", "0,0,0", "--std", "1", "--size", "8"]


@pytest.fixture
def quantize(slipway, tmp_path):
    """Calibrates with a good image and another; gives what was said."""
    (tmp_path / "net.sw").write_text(NET)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(GOOD)

    def call(name, data, status, *flags):
        if data is not None:
            (tmp_path / "images" / name).write_bytes(data)
        done = slipway("quantize", tmp_path / "net.sw", "--config", "pt2e-x86", "--calibration-images",
                       tmp_path / "images", *(flags or FLAGS), "-o", tmp_path / "q.pt2", status=status)  # fmt: skip
        assert (tmp_path / "q.pt2").exists() == (status == 0)
        if name and status:
            assert name in done.stderr and done.stderr.count("error[") == 1, done.stderr
        return done.stderr

    return call


def read(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    limited = f"ulimit -v 700000; exec '{READ_IMAGE}' '{tmp_path / 'x'}'"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, timeout=60)
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    return done.stderr.decode() if done.returncode else ""


def header(width, height, depth=8, color=2):
    return png([[(0, 0, 0)]], color=color, depth=depth, size=(width, height))


def sized(jpeg, width, height):
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + struct.pack(">HH", height, width) + jpeg[at + 4 :]


CASES = {
    "empty": (b"", 3, "neither a PNG nor a JPEG"),
    "text": (b"hello", 3, "neither a PNG nor a JPEG"),
    "half a png": (GOOD[: len(GOOD) // 2], 3, "damaged PNG"),
    "half a jpeg": (JPEG[: len(JPEG) // 2], 3, "damaged JPEG"),
    "a jpeg without its end": (JPEG[:-2], 3, "damaged JPEG"),
    "a wrong checksum": (GOOD[:-20] + bytes([GOOD[-20] ^ 1]) + GOOD[-19:], 3, "damaged PNG"),
    "more pixels than data": (header(9, 9), 3, "damaged PNG"),
    "a bomb": (header(100000, 100000), 4, "100000x100000"),
    "a bomb of few pixels a byte": (header(8000, 8000), 3, "bytes for 8000x8000 pixels"),
    "a bomb of jpeg": (sized(JPEG, 60000, 60000), 4, "60000x60000"),
    "a jpeg of few bytes": (sized(JPEG, 8000, 8000), 3, "bytes for 8000x8000 pixels"),
    "no rows": (sized(JPEG, 8, 0), 3, "damaged JPEG"),
    "scans": (scans(63), 3, "more than 500 scans"),
    "16 bits of grey": (png([[(300,)] * 8] * 8, color=0, depth=16), 4, "grey PNG file of 16 bits"),
    "a palette that is missing": (png([[(3,)] * 8] * 8, color=3, depth=2), 3, "damaged PNG"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(quantize, case):
    data, status, text = CASES[case]
    said = quantize("b.png", data, status)
    assert text in said, said


def test_other_names_and_kinds(quantize, tmp_path):
    images = tmp_path / "images"
    (images / "c.webp").write_bytes(b"")
    assert "only PNG and JPEG" in quantize("c.webp", None, 4)
    (images / "c.webp").unlink()
    (images / "folder.jpg").mkdir()
    quantize("folder.jpg", None, 3)
    (images / "folder.jpg").rmdir()
    os.mkfifo(images / "pipe.jpg")
    quantize("pipe.jpg", None, 3)
    (images / "pipe.jpg").unlink()
    (images / "line\nfeed.png").write_bytes(b"")
    assert "\nfeed" not in quantize("", None, 3)
    (images / "line\nfeed.png").unlink()
    quantize("b.jpg", GOOD, 0)  # its bytes say what it is
    (tmp_path / "q.pt2").unlink()
    for file in images.iterdir():
        file.unlink()
    assert "no .png, .jpg or .jpeg file" in quantize("", None, 3)
    images.rmdir()
    quantize("images", None, 5)
    images.write_text("")
    assert "is no folder" in quantize("images", None, 3)


def test_flags(slipway, quantize, tmp_path):
    for flags, said in [
        (["--mean", "0,0,0", "--size", "8"], "--calibration-images without --std"),
        (["--mean", "0,0", "--std", "1", "--size", "8"], "--mean '0,0'"),
        (["--mean", "nan", "--std", "1", "--size", "8"], "--mean 'nan'"),
        (["--mean", "0", "--std", "1,0,1", "--size", "8"], "--std '1,0,1'"),
        *[(["--mean", "0", "--std", "1", "--size", size], f"--size '{size}'")
          for size in ("0", "8x", "x8", "8:9", "-8", "8x8x8", "99999", "8.5")],
        ([*FLAGS, "--calibration", "a.safetensors"], "--calibration and --calibration-images"),
    ]:  # fmt: skip
        assert said in quantize("", None, 2, *flags)
    assert "images are f32[1,3,9,9], where the program takes f32[1,3,8,8]" in quantize(
        "", None, 3, "--mean", "0", "--std", "1", "--size", "9"
    )
    done = slipway("quantize", tmp_path / "net.sw", "--config", "pt2e-x86", "--calibration", "a.safetensors", "--size",
                   "8", "-o", tmp_path / "q.pt2", status=2)  # fmt: skip
    assert "--size without images" in done.stderr


@pytest.mark.parametrize("seed", range(4))
def test_mutants(tmp_path, seed):
    """Never a crash, and no memory for pixels that are not there."""
    dice = random.Random(seed)
    sources = [GOOD, png([[(1, 2)] * 5] * 5, color=4, interlaced=True), (JPEGS / "palette.png").read_bytes(), JPEG,
               PROGRESSIVE, (JPEGS / "cmyk.jpg").read_bytes()]  # fmt: skip
    refused = 0
    for i in range(60):
        data = bytearray(sources[i % len(sources)])
        for _ in range(dice.randint(1, 6)):
            data[dice.randrange(len(data))] = dice.choice([0, 255, dice.randrange(256)])
        if dice.random() < 0.3:
            del data[dice.randrange(len(data)) :]
        refused += bool(read(tmp_path, bytes(data)))
    assert 10 < refused < 60


def test_many_scans_are_read(tmp_path):
    assert read(tmp_path, scans(35)) == ""


def test_chunks_that_are_large_when_inflated(tmp_path):
    """Texts and profiles are not read at all."""
    import zlib

    bomb = chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(1 << 28), 9))
    pixels = [[(1, 2, 3)] * 4] * 4
    assert read(tmp_path, png(pixels, chunks=bomb)) == ""
