"""`--calibration-images`: files are read as Pillow's convert("RGB") reads them and resized as its BILINEAR does, whose
results are kept here as digests (Pillow 12.0, libjpeg-turbo 3.1), and as torch's antialiased interpolation, which
rounds once; a folder then calibrates as the same numbers in a safetensors file do."""

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "hostile"))
from images import CHANNELS, JPEGS, chunk, png  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
READ_IMAGE = pathlib.Path(os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))).parent / "read_image"


def read(path, *resize):
    """[height, width, 3] of u8."""
    done = subprocess.run([READ_IMAGE, path, *map(str, resize)], capture_output=True)
    assert done.returncode == 0, done.stderr
    head, _, body = done.stdout.partition(b"\n")
    width, height = map(int, head.split())
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).reshape(height, width, 3)


def digest(image):
    return hashlib.sha256(image.numpy().tobytes()).hexdigest()


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (11, 13)], ids=str)
@pytest.mark.parametrize("color, depth", [
    (0, 1), (0, 2), (0, 4), (0, 8), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (4, 16), (6, 8),
    (6, 16)])  # fmt: skip
def test_kinds_of_png(tmp_path, color, depth, size, interlaced):
    pixels = torch.randint(0, 1 << depth, (*size, CHANNELS[color]))
    palette = torch.randint(0, 256, (1 << min(depth, 8), 3))
    # Numbers that others take into account and Pillow does not: transparency, gamma.
    chunks = chunk(b"gAMA", (45455).to_bytes(4, "big"))
    if color == 3:
        chunks += chunk(b"PLTE", bytes(palette.flatten().tolist())) + chunk(b"tRNS", b"\0\x80")
    if color in (0, 2):
        chunks += chunk(b"tRNS", b"\0\1" * CHANNELS[color])
    rows = [[tuple(p) for p in row] for row in pixels.tolist()]
    (tmp_path / "x").write_bytes(png(rows, color, depth, interlaced, chunks))
    want = pixels >> (depth - 8) if depth == 16 else pixels
    if color == 3:
        want = palette[want[..., 0]]
    elif color in (0, 4):
        want = (want[..., :1] * (255 // ((1 << min(depth, 8)) - 1))).expand(*size, 3)
    assert torch.equal(read(tmp_path / "x"), want[..., :3].to(torch.uint8))


@pytest.mark.parametrize("file, of_pillow", {
    "420.jpg": "59e7b5a53b6a17e3de268c6c890504b939e55b40d1c17b6fa419ebe0f4401685",
    "422.jpg": "83deb245fe798ef9f093241a3db575fa0e6eae137a9678ac1e703190c8721887",
    "444.jpg": "32f847ef01b335f581da16ad6aaaf6823060a3242f511f318fbc85bd5d4b74e5",
    "progressive.jpg": "59e7b5a53b6a17e3de268c6c890504b939e55b40d1c17b6fa419ebe0f4401685",
    "grey.jpg": "6fd088278e5f4cce0b47b885ad910052a4fd10a62a53d9bc3c39605964b2dab0",
    "cmyk.jpg": "f7632b85837c30df34527c0b62af12b9a302849c9d78f04209555a568f5265a1",
    "palette.png": "0fe04ddf6e96791be891988623fcacabe582cadf6f4390b35df6074a0629b11d",
}.items())  # fmt: skip
def test_files_of_pillow(file, of_pillow):
    image = read(JPEGS / file)
    assert image.shape == (29, 37, 3) and digest(image) == of_pillow


@pytest.mark.parametrize("width, height, of_pillow", [
    (16, 9, "d6a610cba4da9078af7818058f3c262511d91121775bdbf83391c38332e3c2da"),
    (50, 90, "3f9182f41e0b8e0979fbfd83a1e74416ef160e3e48d1ef3c1a1426d5e6b467f8"),
    (37, 11, "ea2e430031a427088a09b9f5f94b56da509efe03359806a1a8c3aec23a905c05"),
    (1, 1, "456e2be44f7c6998f8a0544b1d21d82c2738c4288d3670fc56cedaa2b488241a")])  # fmt: skip
def test_resize_is_pillow_s(width, height, of_pillow):
    assert digest(read(JPEGS / "420.jpg", width, height)) == of_pillow


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (97, 61), (256, 256)], ids=str)
@pytest.mark.parametrize("to", [(1, 1), (224, 224), (40, 31), (300, 7)], ids=str)
def test_resize_is_torch_s(tmp_path, size, to):
    image = torch.randint(0, 256, (*size, 3))
    (tmp_path / "x").write_bytes(png([[tuple(p) for p in row] for row in image.tolist()]))
    want = F.interpolate(image.permute(2, 0, 1)[None].double(), to, mode="bilinear", antialias=True)
    got = read(tmp_path / "x", to[1], to[0])
    assert (got.permute(2, 0, 1)[None] - want).abs().max() < 1.01  # both passes round
    top, left = to[0] // 3, to[1] // 4
    height, width = to[0] - top - to[0] // 5, to[1] - left
    window = read(tmp_path / "x", to[1], to[0], left, top, width, height)
    assert torch.equal(window, got[top : top + height, left : left + width])


def transformed(path, resize, crop):
    """What torchvision's Resize and CenterCrop make of an image: of its shorter side where `resize` is a number."""
    image = read(path)
    h, w = image.shape[:2]
    if isinstance(resize, int):
        small, large = resize, int(resize * max(h, w) / min(h, w))
        new_h, new_w = (small, large) if h <= w else (large, small)
    else:
        new_h, new_w = resize
    image = read(path, new_w, new_h)
    top, left = int(round((new_h - crop[0]) / 2.0)), int(round((new_w - crop[1]) / 2.0))
    return image[top : top + crop[0], left : left + crop[1]]


def normalized(image, mean, std):
    x = image.permute(2, 0, 1).float().div(255)
    return x.sub_(torch.tensor(mean)[:, None, None]).div_(torch.tensor(std)[:, None, None])[None]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 8, 3, 2), nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.conv(x).relu().mean([2, 3]))


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of several sizes, and what is no image: their order is that of their names."""
    folder = tmp_path_factory.mktemp("images")
    torch.manual_seed(0)
    for name, height, width in (("b.PNG", 40, 70), ("a.png", 71, 33), ("B.png", 21, 24), ("z.png", 20, 500)):
        pixels = torch.randint(0, 256, (height, width, 3)).tolist()
        (folder / name).write_bytes(png([[tuple(p) for p in row] for row in pixels]))
    for file in ("420.jpg", "grey.jpg"):
        (folder / file.replace("jpg", "JPEG")).write_bytes((JPEGS / file).read_bytes())
    (folder / "labels.txt").write_text("a b")
    (folder / ".hidden.png").write_text("")
    (folder / "more").mkdir()
    return folder, ["420.JPEG", "B.png", "a.png", "b.PNG", "grey.JPEG", "z.png"]


@pytest.mark.parametrize("options, resize, crop, count", [
    (["--size", "16"], 16, (16, 16), 6), (["--size", "21:16", "--limit", "4"], 21, (16, 16), 4),
    (["--size", "18x12"], (18, 12), (18, 12), 6), (["--size", "17x19", "--limit", "1"], (17, 19), (17, 19), 1)],
    ids=lambda x: "".join(x) if isinstance(x, list) else None)  # fmt: skip
@pytest.mark.parametrize("config", ["pt2e-x86", "awq(int8-weight-only)", "int8-static:act-per=tensor"])
def test_folder_is_the_safetensors_of_its_images(slipway, tmp_path, folder, config, options, resize, crop, count):
    folder, names = folder
    program = torch.export.export(Net().eval(), (torch.randn(1, 3, *crop),))
    torch.export.save(program, tmp_path / "m.pt2")
    samples = [normalized(transformed(folder / n, resize, crop), MEAN, STD) for n in names[:count]]
    save_file({"input.0": torch.stack(samples)}, tmp_path / "data.safetensors")
    common = ["quantize", tmp_path / "m.pt2", "--config", config]
    (tmp_path / "a").mkdir()
    slipway(*common, "--calibration", tmp_path / "data.safetensors", "-o", tmp_path / "a" / "q.pt2")
    done = slipway(*common, "--calibration-images", folder, "--mean", "0.485,0.456,0.406", "--std",
                   "0.229, 0.224,0.225", *options, "-o", tmp_path / "q.pt2")  # fmt: skip
    assert (tmp_path / "a" / "q.pt2").read_bytes() == (tmp_path / "q.pt2").read_bytes()
    assert not config.startswith("pt2e") or f"scales of {count} sample" in done.stderr
