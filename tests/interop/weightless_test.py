"""Programs exported without weights, on torch's device meta or in FakeTensorMode, whose values are a checkpoint's."""

import io
import json
import math
import shutil
import zipfile

import onnxruntime
import pytest
import torch
from diagnostics import cause
from safetensors.torch import load_file, save_file
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS, WIDTH, HEADS, LAYERS, LENGTH = 50, 32, 4, 3, 7


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, turn):
        q, k, v = (y.unflatten(2, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q * turn, k * turn, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Body(nn.Module):
    """`frequencies` is a buffer that no checkpoint holds; without it the program computes what it holds."""

    def __init__(self, buffer):
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.register_buffer("mean", torch.zeros(WIDTH))
        if buffer:
            self.register_buffer("frequencies", self.made(torch.device("cpu")), persistent=False)
        else:
            self.frequencies = None

    @staticmethod
    def made(device):
        return 1.0 / 100 ** (torch.arange(WIDTH // HEADS, dtype=torch.float32, device=device) / 8)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device, dtype=torch.float32)
        f = self.made(ids.device) if self.frequencies is None else self.frequencies.to(ids.device)
        turn, x = (places[:, None] * f).cos(), self.embed_tokens(ids) - self.mean.to(ids.device)
        for layer in self.layers:
            x = layer(x, turn)
        return x


class Decoder(nn.Module):
    def __init__(self, buffer=False, tied=False):
        super().__init__()
        self.model = Body(buffer)
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.tie()

    def tie(self):
        self.lm_head.weight = self.model.embed_tokens.weight
        return self

    def forward(self, ids):
        return self.lm_head(self.model(ids))


class Wrapped(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, ids):
        return self.m(ids).softmax(-1)


def on_meta(module):
    """Its parameters on the device meta, its buffers as they are: what accelerate.init_empty_weights makes."""
    for m in module.modules():
        for name, p in list(m._parameters.items()):
            if p is not None:
                m._parameters[name] = nn.Parameter(p.to("meta"), requires_grad=p.requires_grad)
    return module


def save(module, path, ids, **options):
    with torch.no_grad():
        torch.export.save(torch.export.export(module.eval(), (ids,), **options), path)
    return path


def export_parameters(path, **options):
    return save(on_meta(Decoder(buffer=True, **options)), path, torch.zeros(2, LENGTH, dtype=torch.long, device="meta"))


def export_meta(path, **options):
    with torch.device("meta"):
        module = Decoder(**options)
    return save(module, path, torch.zeros(2, LENGTH, dtype=torch.long, device="meta"))


def export_fake(path, **options):
    with FakeTensorMode():
        return save(Decoder(**options), path, torch.zeros(2, LENGTH, dtype=torch.long))


WAYS = {"parameters": export_parameters, "meta": export_meta, "fake": export_fake}


@pytest.fixture(scope="module")
def real():
    torch.manual_seed(3)
    module = Decoder(buffer=True).eval()
    nn.init.normal_(module.model.mean)
    return module


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    return {way: export(folder / f"{way}.pt2") for way, export in WAYS.items()}


@pytest.fixture(scope="module")
def checkpoint(real, tmp_path_factory):
    """As the hub has them: shards and their index."""
    folder = tmp_path_factory.mktemp("hub")
    state = {k: v.clone() for k, v in real.state_dict().items()}
    shards = {f"model-0000{i + 1}-of-00002.safetensors": dict(list(state.items())[i::2]) for i in range(2)}
    for name, tensors in shards.items():
        save_file(tensors, folder / name, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {k: name for name, tensors in shards.items() for k in tensors}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps({"tie_word_embeddings": False}))
    return folder


@pytest.fixture
def ids():
    return torch.randint(0, WORDS, (2, LENGTH))


def run(slipway, model, ids, folder):
    save_file({"input.0": ids}, folder / "in.safetensors")
    slipway("run", model, "--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
    return load_file(folder / "out.safetensors")["output.0"]


def close(got, want):
    torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_every_target(slipway, programs, real, checkpoint, ids, tmp_path, way):
    with torch.no_grad():
        want = real(ids)
    for name in ("m.onnx", "m.pt2", "m.so", "m.safetensors"):
        slipway("convert", programs[way], "--weights", checkpoint, "-o", tmp_path / name)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    close(session.run(None, {session.get_inputs()[0].name: ids.numpy()})[0], want)
    with torch.no_grad():
        close(torch.export.load(tmp_path / "m.pt2").module()(ids), want)
    close(run(slipway, tmp_path / "m.so", ids, tmp_path), want)
    close(run(slipway, tmp_path / "m.pt2", ids, tmp_path), want)
    got = load_file(tmp_path / "m.safetensors")
    assert got.keys() - {"model.frequencies"} == real.state_dict().keys()
    assert all(torch.equal(got[k], v) for k, v in real.state_dict().items())
    slipway("verify", tmp_path / "m.pt2", tmp_path / "m.so")


@pytest.mark.parametrize("form", ["index", "file", "bin", "bin shards", "checkpoint"])
def test_forms_of_checkpoints(slipway, programs, real, checkpoint, ids, tmp_path, form):
    state, folder = real.state_dict(), tmp_path / "hub"
    folder.mkdir()
    given = folder
    if form == "index":
        shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
        given = folder / "model.safetensors.index.json"
    if form == "file":
        save_file({k: v.clone() for k, v in state.items()}, folder / "model.safetensors")
    if form == "bin":
        torch.save(state, folder / "pytorch_model.bin")
    if form == "bin shards":
        weight_map = {}
        for i in range(2):
            name = f"pytorch_model-0000{i + 1}-of-00002.bin"
            part = dict(list(state.items())[i::2])
            torch.save({k: v.clone() for k, v in part.items()}, folder / name)
            weight_map |= dict.fromkeys(part, name)
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    if form == "checkpoint":
        given = folder / "last.ckpt"
        torch.save({"epoch": 1, "state_dict": state}, given)
    slipway("convert", programs["meta"], "--weights", given, "-o", tmp_path / "m.pt2")
    with torch.no_grad():
        close(torch.export.load(tmp_path / "m.pt2").module()(ids), real(ids))


def test_dynamic_sizes(slipway, real, checkpoint, tmp_path):
    length = torch.export.Dim("length", min=2, max=64)
    with torch.device("meta"):
        module = Decoder()
    path = save(
        module,
        tmp_path / "dynamic.pt2",
        torch.zeros(2, LENGTH, dtype=torch.long, device="meta"),
        dynamic_shapes=({1: length},),
    )
    slipway("convert", path, "--weights", checkpoint, "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for n in (2, 5, 20):
        ids = torch.randint(0, WORDS, (2, n))
        with torch.no_grad():
            close(session.run(None, {session.get_inputs()[0].name: ids.numpy()})[0], real(ids))


def test_inspect_names_what_is_not_there(slipway, programs):
    report = json.loads(slipway("inspect", programs["parameters"], "--json").stdout)["programs"][0]
    with torch.device("meta"):
        lacking = dict(Decoder().named_parameters())
    assert report["weights_without_values"] == len(lacking)
    assert report["bytes_without_values"] == sum(4 * math.prod(p.shape) for p in lacking.values())
    assert {w["name"] for w in report["weights"] if not w["stored"]} == lacking.keys()
    assert {w["name"] for w in report["weights"] if w["stored"]} == {"model.mean", "model.frequencies"}
    lines = slipway("inspect", programs["parameters"]).stdout.splitlines()
    assert any(line.startswith(f"  without values: {len(lacking)} tensors of ") for line in lines)
    assert any(line.split()[:2] == ["model.layers.*.qkv.weight", f"({LAYERS})"] for line in lines)
    assert len([line for line in lines if "qkv.weight" in line]) == 1
    whole = slipway("inspect", programs["parameters"], "--weights").stdout
    assert all(f" {name} " in whole for name in lacking)


@pytest.mark.parametrize("way", WAYS)
def test_refused_without_weights(slipway, programs, ids, tmp_path, way):
    program = programs[way]
    save_file({"input.0": ids}, tmp_path / "in.safetensors")
    commands = {
        "--weights FILE or FOLDER gives them": [
            *(("convert", program, "-o", tmp_path / name) for name in ("m.onnx", "m.so", "m.safetensors", "m.pt")),
            ("quantize", program, "-o", tmp_path / "q.pt2", "--config", "int8-weight-only"),
        ],
        "slipway convert MODEL.pt2 --weights FILE or FOLDER": [
            ("verify", program, program),
            ("run", program, "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "none"),
            ("minify", program, "-o", tmp_path / "small", "--check", "accuracy:so"),
            ("minify", program, "-o", tmp_path / "small", "--check", "convert:onnx"),
        ],
    }
    for help_text, each in commands.items():
        for command in each:
            refused = slipway(*command, status=3).stderr
            assert "SW1010" in cause(refused) and "weights have no values" in cause(refused), command
            assert "model.embed_tokens.weight" in refused and "… and " in refused and help_text in refused, command
    assert {p.name for p in tmp_path.iterdir()} == {"in.safetensors", "small"}  # with what minify asked


@pytest.mark.parametrize("target", ["onnx", "so", "pt2"])
def test_a_buffer_that_no_checkpoint_holds(slipway, real, checkpoint, ids, tmp_path, target):
    with torch.device("meta"):
        module = Decoder()
        del module.model.frequencies
        module.model.register_buffer("frequencies", Body.made(torch.device("meta")), persistent=False)
    path = save(module, tmp_path / "m.pt2", torch.zeros(2, LENGTH, dtype=torch.long, device="meta"))
    refused = slipway("convert", path, "--weights", checkpoint, "-o", tmp_path / f"o.{target}", status=3).stderr
    assert "1 name of the program is missing: model.frequencies" in cause(refused)
    assert "no checkpoint holds 'model.frequencies'" in refused and "accelerate.init_empty_weights" in refused
    save_file({"model.frequencies": Body.made(torch.device("cpu"))}, tmp_path / "buffers.safetensors")
    slipway("convert", path, "--weights", checkpoint, tmp_path / "buffers.safetensors", "-o", tmp_path / f"o.{target}")
    if target == "pt2":
        with torch.no_grad():
            close(torch.export.load(tmp_path / "o.pt2").module()(ids), real(ids))


@pytest.mark.parametrize("given,wrapper", [("", "m."), ("module._orig_mod.", ""), ("module.", "m."), ("x.y.", "m.")])
def test_one_beginning_for_another(slipway, real, ids, tmp_path, given, wrapper):
    with torch.device("meta"):
        module = Wrapped(Decoder()) if wrapper else Decoder()
    path = save(module, tmp_path / "m.pt2", torch.zeros(2, LENGTH, dtype=torch.long, device="meta"))
    save_file({given + k: v.clone() for k, v in real.state_dict().items()}, tmp_path / "w.safetensors")
    done = slipway("convert", path, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "o.onnx")
    assert "NAME' of the program" in done.stderr or "_orig_mod." in done.stderr
    session = onnxruntime.InferenceSession(tmp_path / "o.onnx")
    with torch.no_grad():
        want = real(ids).softmax(-1) if wrapper else real(ids)
    close(session.run(None, {session.get_inputs()[0].name: ids.numpy()})[0], want)


def test_wrappers_within_names(slipway, programs, real, ids, tmp_path):
    state = {k.replace("layers.1.", "layers.1._orig_mod."): v.clone() for k, v in real.state_dict().items()}
    save_file(state, tmp_path / "w.safetensors")
    done = slipway("convert", programs["meta"], "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "o.pt2")
    assert "'_orig_mod.'" in done.stderr
    with torch.no_grad():
        close(torch.export.load(tmp_path / "o.pt2").module()(ids), real(ids))


def test_a_body_takes_the_body_of_a_checkpoint(slipway, real, checkpoint, ids, tmp_path):
    with torch.device("meta"):
        module = Body(buffer=False)
    path = save(module, tmp_path / "m.pt2", torch.zeros(2, LENGTH, dtype=torch.long, device="meta"))
    done = slipway("convert", path, "--weights", checkpoint, "-o", tmp_path / "o.pt2")
    assert "'model.NAME' there is 'NAME' of the program" in done.stderr
    assert "1 tensor of --weights is not used: lm_head.weight" in done.stderr
    with torch.no_grad():
        close(torch.export.load(tmp_path / "o.pt2").module()(ids), real.model(ids))


def test_two_beginnings_are_refused(slipway, programs, real, tmp_path):
    state = {p + k: v.clone() for p in ("ema.", "net.") for k, v in real.state_dict().items()}
    save_file(state, tmp_path / "w.safetensors")
    flags = ("convert", programs["meta"], "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "o.onnx")
    refused = slipway(*flags, status=3).stderr
    assert "'ema.NAME' there is 'NAME' of the program; 'net.NAME' there" in cause(refused)
    assert "--rename" in refused and not (tmp_path / "o.onnx").exists()
    slipway(*flags, "--rename", r"^net\.=>")


@pytest.mark.parametrize("way", WAYS)
def test_tied_in_the_program(slipway, real, ids, tmp_path, way):
    if way == "parameters":
        path = save(
            on_meta(Decoder(buffer=True)).tie(),
            tmp_path / "m.pt2",
            torch.zeros(2, LENGTH, dtype=torch.long, device="meta"),
        )
    else:
        path = WAYS[way](tmp_path / "m.pt2", tied=True)
    state = {k: v.clone() for k, v in real.state_dict().items() if k != "lm_head.weight"}
    save_file(state, tmp_path / "w.safetensors")
    with torch.no_grad():
        want = nn.functional.linear(real.model(ids), state["model.embed_tokens.weight"])
    for name in ("m.onnx", "o.pt2"):
        slipway("convert", path, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / name)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    close(session.run(None, {session.get_inputs()[0].name: ids.numpy()})[0], want)
    loaded = torch.export.load(tmp_path / "o.pt2")
    with torch.no_grad():
        close(loaded.module()(ids), want)
    a, b = loaded.state_dict["lm_head.weight"], loaded.state_dict["model.embed_tokens.weight"]
    assert a.data_ptr() == b.data_ptr()


def test_tied_in_the_checkpoint(slipway, programs, real, ids, tmp_path):
    state = {k: v.clone() for k, v in real.state_dict().items() if k != "lm_head.weight"}
    save_file(state, tmp_path / "model.safetensors")
    flags = ("convert", programs["meta"], "--weights", tmp_path / "model.safetensors", "-o", tmp_path / "o.pt2")
    refused = slipway(*flags, status=3).stderr
    assert "1 name of the program is missing: lm_head.weight" in cause(refused)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"tie_word_embeddings": True}}))
    done = slipway(*flags)
    assert "'lm_head.weight' is tied to 'model.embed_tokens.weight'" in done.stderr
    with torch.no_grad():
        want = nn.functional.linear(real.model(ids), state["model.embed_tokens.weight"])
        close(torch.export.load(tmp_path / "o.pt2").module()(ids), want)


def test_types_are_cast(slipway, programs, real, ids, tmp_path):
    state = {k: v.to(torch.bfloat16) for k, v in real.state_dict().items()}
    save_file(state, tmp_path / "w.safetensors")
    done = slipway("convert", programs["meta"], "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "o.pt2")
    assert f"{len(state)} tensors of --weights are cast to the program's types: bf16 to f32" in done.stderr
    got = torch.export.load(tmp_path / "o.pt2").state_dict
    assert all(torch.equal(got[k], v.float()) for k, v in state.items())


def test_missing_and_wrong_at_once(slipway, programs, real, tmp_path):
    state = {k: v.clone() for k, v in real.state_dict().items() if "layers" not in k}
    state["model.embed_tokens.weight"] = torch.zeros(WORDS + 1, WIDTH)
    state["lm_head.weight"] = torch.zeros(WORDS, WIDTH, dtype=torch.int64)
    save_file(state, tmp_path / "w.safetensors")
    missing = sum("layers" in k for k in real.state_dict())
    flags = ("convert", programs["meta"], "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "o.onnx")
    refused = slipway(*flags, status=3).stderr
    assert cause(refused).endswith(f"--weights: {missing} names of the program are missing, 2 tensors do not fit")
    assert "  - model.layers.0.norm.bias\n" in refused and f"  … and {missing + 2 - 10} more\n" in refused
    machine = slipway(*flags, "--diagnostics", "json", status=3).stderr
    assert f"f32[{WORDS + 1},{WIDTH}], the program wants f32[{WORDS},{WIDTH}]" in machine
    assert f"i64[{WORDS},{WIDTH}], the program wants" in machine and "model.layers.2.out.bias" in machine
    assert not (tmp_path / "o.onnx").exists()


def rewritten(source, target, change):
    """The archive with members that `change(name, bytes)` gives."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, change(info.filename, old.read(info)))
    return target


def test_damage_is_no_absence(slipway, real, checkpoint, tmp_path):
    path = save(real, tmp_path / "m.pt2", torch.zeros(2, LENGTH, dtype=torch.long))
    whole = path.read_bytes()
    (tmp_path / "cut.pt2").write_bytes(whole[: len(whole) // 2])
    with zipfile.ZipFile(path) as archive:
        info = max((i for i in archive.infolist() if "/weights/weight_" in i.filename), key=lambda i: i.file_size)
    short = rewritten(path, tmp_path / "short.pt2", lambda name, b: b[:-4] if name == info.filename else b)
    # The directory says 0 bytes, and the checksum is of more.
    at = whole.rindex(info.filename.encode()) - 46
    assert whole[at : at + 4] == b"PK\1\2"
    emptied = bytearray(whole)
    emptied[at + 20 : at + 28] = bytes(8)
    (tmp_path / "emptied.pt2").write_bytes(emptied)
    for file in (tmp_path / "cut.pt2", short, tmp_path / "emptied.pt2"):
        for flags in ((), ("--weights", checkpoint)):
            refused = slipway("convert", file, "-o", tmp_path / "o.onnx", *flags, status=3).stderr
            assert "SW1001" in cause(refused), file


def test_sizes_without_values_are_checked(slipway, programs, tmp_path):
    def change(old, new):
        def member(name, content):
            return content.replace(old, new) if name.endswith("_weights_config.json") else content

        return member

    size = json.dumps({"as_int": WORDS}).encode()
    for new in (b"-1", b"0", str(1 << 62).encode()):
        bad = rewritten(programs["meta"], tmp_path / "bad.pt2", change(size, b'{"as_int": ' + new + b"}"))
        refused = slipway("inspect", bad, status=3).stderr
        assert "SW1001" in cause(refused) and "model.embed_tokens.weight" in cause(refused) or "lm_head" in refused


def test_pickled_weights_without_values(slipway, programs, real, checkpoint, ids, tmp_path):
    """The container of torch 2.5 to 2.7, whose weights are a pickle."""
    slipway("convert", programs["fake"], "--no-weights", "--torch", "2.6", "-o", tmp_path / "flat.pt2")
    with torch.device("meta"):
        state = Decoder().state_dict()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    flat = rewritten(
        tmp_path / "flat.pt2",
        tmp_path / "old.pt2",
        lambda name, content: buffer.getvalue() if name == "serialized_state_dict.pt" else content,
    )
    report = json.loads(slipway("inspect", flat, "--json").stdout)["programs"][0]
    assert report["weights_without_values"] == len(state)
    slipway("convert", flat, "--weights", checkpoint, "-o", tmp_path / "o.pt2")
    with torch.no_grad():
        close(torch.export.load(tmp_path / "o.pt2").module()(ids), real(ids))


def test_memory_does_not_grow_with_the_weights(slipway, tmp_path):
    rows, width = 60_000, 1024
    with torch.device("meta"):
        module = nn.Sequential(nn.Embedding(rows, width), nn.Linear(width, 2048))
    path = save(module, tmp_path / "m.pt2", torch.zeros(2, LENGTH, dtype=torch.long, device="meta"))
    sizes = {"0.weight": (rows, width), "1.weight": (2048, width), "1.bias": (2048,)}
    header, at = {}, 0
    for name, shape in sizes.items():
        end = at + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(tmp_path / "w.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    for name in ("o.onnx", "o.pt2", "o.so", "o.safetensors"):
        flags = ("convert", path, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / name, "--json")
        done = json.loads(slipway(*flags).stdout)
        assert done["peak_bytes"] < 120e6 < at, (name, done)
        (tmp_path / name).unlink()
