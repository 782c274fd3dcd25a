"""Archives that slipway writes, loaded by torch: the same numbers, bit for bit, in both layouts."""

import json
import zipfile

import pytest
import torch

EXTRA = {"notes/a.txt": "kept"}


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("mask", torch.arange(6) % 2 == 0, persistent=False)
        self.shift = torch.full((6,), 0.5)

    def forward(self, x, *, scale=2.0, rows=None):
        self.count.add_(1)
        y = self.second(torch.relu(self.first(x))) * self.mask + self.shift
        return {"y": y * scale + self.count, "n": (x.shape[0], None), "rows": rows}


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        base = torch.randn(64)
        self.register_buffer("left", base[8:20].view(3, 4).t())
        self.register_buffer("right", base[12:24])

    def forward(self, ids):
        return self.head(self.embed(ids)) + self.left.sum() - self.right.mean()


class Branch(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (x.sin(), x + 1), lambda x: (x.cos(), x - 1), (x,))


class Odd(torch.nn.Module):
    """Arguments of many kinds: complex numbers, None in lists, infinities, types, layouts, skipped defaults."""

    def forward(self, x, z):
        y = x[:, torch.tensor([2, 0])].clamp(min=float("-inf")).to(torch.float64, memory_format=torch.contiguous_format)
        w = torch.full_like(z, complex(0.5, -2.0)) * z
        v, i = x.topk(2, dim=1)
        return y.sum(0, dtype=torch.float32), w, v, torch.stack(x.unbind(1)[:2]), i.float().std(correction=0)


BATCH = torch.export.Dim("batch", min=2, max=9)
CASES = {
    "mlp": (Mlp, (torch.randn(3, 6),), {"rows": 3}, {"x": {0: BATCH}, "rows": None}),
    "tied": (Tied, (torch.tensor([[1, 2, 6]]),), {}, None),
    "branch": (Branch, (torch.randn(4),), {}, None),
    "odd": (Odd, (torch.randn(4, 5), torch.randn(3, dtype=torch.complex64)), {}, None),
}


def same(got, want):
    got, want = torch.utils._pytree.tree_flatten(got), torch.utils._pytree.tree_flatten(want)
    assert got[1] == want[1]
    for a, b in zip(got[0], want[0], strict=True):
        assert type(a) is type(b)
        if isinstance(b, torch.Tensor):
            assert a.dtype == b.dtype and a.stride() == b.stride()
            a, b = (t.detach().reshape(-1).contiguous().view(torch.uint8) for t in (a, b))
            assert torch.equal(a, b)
        else:
            assert a == b


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    make, arguments, keywords, dims = CASES[request.param]
    path = tmp_path_factory.mktemp(request.param) / "model.pt2"
    torch.manual_seed(5)
    program = torch.export.export(make().eval(), arguments, keywords, dynamic_shapes=dims)
    torch.export.save(program, path, extra_files=EXTRA)
    return request.param, path, arguments, keywords


def test_both_layouts(slipway, case, tmp_path):
    name, source, arguments, keywords = case
    for release in ("2.9", "2.6"):
        target = tmp_path / f"{release}.pt2"
        if name == "odd" and release == "2.6":
            assert "complex" in slipway("convert", source, "-o", target, "--torch", release, status=4).stderr
            continue
        slipway("convert", source, "-o", target, "--torch", release)
        extra = dict.fromkeys(EXTRA, "")
        got, want = torch.export.load(target, extra_files=extra), torch.export.load(source)
        assert extra == EXTRA
        for _ in range(2):  # state is updated in place
            same(got.module()(*arguments, **keywords), want.module()(*arguments, **keywords))
        assert str(got.range_constraints) == str(want.range_constraints)
        assert [str(s) for s in got.graph_signature.input_specs] == [str(s) for s in want.graph_signature.input_specs]
        same(dict(got.state_dict), {key: want.state_dict[key] for key in got.state_dict})
        same(got.example_inputs, want.example_inputs)
        # Once more through slipway: nothing is lost or added.
        again = tmp_path / "again" / target.name
        again.parent.mkdir(exist_ok=True)
        slipway("convert", target, "-o", again, "--torch", release)
        assert again.read_bytes() == target.read_bytes()


def test_other_sizes(slipway, case, tmp_path):
    name, source, _, _ = case
    if name != "mlp":
        pytest.skip("static")
    slipway("convert", source, "-o", tmp_path / "out.pt2", "--check-crc")
    x = torch.randn(7, 6)
    same(torch.export.load(tmp_path / "out.pt2").module()(x, rows=3), torch.export.load(source).module()(x, rows=3))


def test_sources_are_kept(slipway, case, tmp_path):
    _, source, _, _ = case
    slipway("convert", source, "-o", tmp_path / "out.pt2")

    def nodes(path):  # of nodes without a value of their own the names are torch's choice
        return [
            (n.op, n.op != "get_attr" and str(n.target), n.meta.get("stack_trace"), n.meta.get("nn_module_stack"))
            for n in torch.export.load(path).graph.nodes
        ]

    assert nodes(tmp_path / "out.pt2") == nodes(source)


def test_aliases_stay(slipway, tmp_path):
    torch.manual_seed(5)
    torch.export.save(torch.export.export(Tied(), (torch.tensor([[1, 2, 6]]),)), tmp_path / "in.pt2")
    for release in ("2.9", "2.6"):
        slipway("convert", tmp_path / "in.pt2", "-o", tmp_path / "out.pt2", "--torch", release)
        state = torch.export.load(tmp_path / "out.pt2").state_dict
        assert state["embed.weight"].data_ptr() == state["head.weight"].data_ptr()
        assert state["left"].untyped_storage().data_ptr() == state["right"].untyped_storage().data_ptr()
        assert state["right"].data_ptr() - state["left"].data_ptr() == 16
        # Of the base of 64 elements only those are written that a tensor addresses.
        assert state["left"].untyped_storage().nbytes() == 64


def test_several_programs(slipway, tmp_path):
    torch.manual_seed(5)
    shared = torch.nn.Linear(40, 50)
    for name, tail in (("a", torch.nn.ReLU()), ("b", torch.nn.Tanh())):
        torch.export.save(
            torch.export.export(torch.nn.Sequential(shared, tail), (torch.ones(2, 40),)), tmp_path / f"{name}.pt2"
        )
    out = tmp_path / "both.pt2"
    slipway(
        "convert",
        f"encoder={tmp_path / 'a.pt2'}",
        f"decoder={tmp_path / 'b.pt2'}",
        "-o",
        out,
        "--metadata",
        "made by=test",
    )
    loaded = torch.export.pt2_archive._package.load_pt2(str(out))
    assert list(loaded.exported_programs) == ["encoder", "decoder"] and loaded.extra_files == {"made by": "test"}
    x = torch.randn(2, 40)
    same(loaded.exported_programs["encoder"].module()(x), torch.relu(shared(x)))
    same(loaded.exported_programs["decoder"].module()(x), torch.tanh(shared(x)))
    payloads = [i for i in zipfile.ZipFile(out).infolist() if "/weight_" in i.filename]
    assert sorted(i.file_size for i in payloads) == [200, 8000]
    assert (
        "two programs"
        in slipway("convert", f"x={tmp_path / 'a.pt2'}", f"x={tmp_path / 'b.pt2'}", "-o", out, status=3).stderr
    )


def test_without_weights_and_back(slipway, case, tmp_path):
    name, source, arguments, keywords = case
    if name != "mlp":
        pytest.skip("one is enough")
    thin, weights, out = tmp_path / "thin.pt2", tmp_path / "w.safetensors", tmp_path / "out.pt2"
    slipway("convert", source, "-o", thin, "--no-weights")
    archive = zipfile.ZipFile(thin)
    assert json.loads(archive.read("thin/data/weights/model_weights_config.json")) == {"config": {}}
    slipway("convert", source, "-o", weights)
    slipway("convert", source, "-o", out, "--weights", weights)
    same(
        torch.export.load(out).module()(*arguments, **keywords),
        torch.export.load(source).module()(*arguments, **keywords),
    )


def test_harmful_sample_inputs_are_left_out(slipway, tmp_path):
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), tmp_path / "in.pt2")
    marker = tmp_path / "executed"
    with zipfile.ZipFile(tmp_path / "in.pt2") as old, zipfile.ZipFile(tmp_path / "evil.pt2", "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if "sample_inputs" in item.filename:
                inner = tmp_path / "inner.zip"
                with zipfile.ZipFile(inner, "w") as z:
                    z.writestr("archive/data.pkl", f"cos\nsystem\n(S'touch {marker}'\ntR.".encode())
                    z.writestr("archive/version", "3\n")
                data = inner.read_bytes()
            new.writestr(item.filename, data)
    done = slipway("convert", tmp_path / "evil.pt2", "-o", tmp_path / "out.pt2")
    assert "sample inputs" in done.stderr and "left out" in done.stderr
    same(torch.export.load(tmp_path / "out.pt2").module()(torch.ones(2)), torch.ones(2))
    assert not marker.exists()


def test_wrong_crc_is_found(slipway, tmp_path):
    torch.export.save(torch.export.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),)), tmp_path / "in.pt2")
    raw = bytearray((tmp_path / "in.pt2").read_bytes())
    with zipfile.ZipFile(tmp_path / "in.pt2") as z:
        info = next(i for i in z.infolist() if i.filename.endswith("weight_0"))
        at = raw.find(z.read(info), info.header_offset)
    raw[at] ^= 1
    (tmp_path / "bad.pt2").write_bytes(raw)
    assert "CRC" in slipway("convert", tmp_path / "bad.pt2", "-o", tmp_path / "out.pt2", "--check-crc", status=3).stderr
    assert not (tmp_path / "out.pt2").exists()
