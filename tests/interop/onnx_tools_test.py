"""ONNX models in the tools that people run on them: onnxruntime's optimizer for transformers, and what onnxsim and
onnxslim look for."""

import logging

import onnx
import onnxruntime
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")
AUTO = torch.export.Dim.AUTO


def test_transformers_optimizer(slipway, tmp_path, caplog):
    """It takes the producer without a warning."""
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU()).eval()
    torch.export.save(torch.export.export(net, (torch.randn(2, 8),)), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    assert model.producer_name == "pytorch" and model.producer_version.startswith("slipway ")
    for kind in ("bert", "gpt2", "vit"):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            optimizer.optimize_by_fusion(onnx.load(tmp_path / "m.onnx"), model_type=kind)
        assert not [r for r in caplog.records if "producer" in r.getMessage()]


class Unsqueezed(torch.nn.Module):
    """Chains of one reader each, one whose middle is read by others, and a middle that is an output."""

    def forward(self, x, y):
        alone = x.unsqueeze(1).unsqueeze(0).unsqueeze(-1).unsqueeze(2)
        middle = y.unsqueeze(-1)
        out = x.unsqueeze(2)
        return alone * 2, middle.unsqueeze(0).unsqueeze(2), middle + 1, out, out.unsqueeze(-2)


def test_chains_of_unsqueeze_are_one_node(slipway, tmp_path):
    x, y = torch.randn(3, 4), torch.randn(2, 5)
    shapes = ({0: AUTO, 1: None}, {0: None, 1: AUTO})
    torch.export.save(torch.export.export(Unsqueezed(), (x, y), dynamic_shapes=shapes), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    made = {name: n for n in graph.node for name in n.output}
    chained = [
        n for n in graph.node if n.op_type == "Unsqueeze" and getattr(made.get(n.input[0]), "op_type", "") == n.op_type
    ]
    assert len(chained) == 2 and sum(n.op_type == "Unsqueeze" for n in graph.node) == 5
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for rows, columns in ((3, 5), (7, 2)):
        x, y = torch.randn(rows, 4), torch.randn(2, columns)
        names = [i.name for i in session.get_inputs()]
        got = session.run(None, dict(zip(names, (x.numpy(), y.numpy()))))
        for a, b in zip(got, Unsqueezed()(x, y)):
            assert a.shape == b.shape and (torch.from_numpy(a) == b).all()


class Pooled(torch.nn.Module):
    """A run of known sizes behind a dynamic one, and runs that are not."""

    def forward(self, x):
        pooled = torch.nn.functional.adaptive_avg_pool2d(x, 2)
        return pooled.flatten(1), pooled.flatten(2), pooled.flatten(1, 2), x.flatten(2), x.flatten(0, 1)


def test_flatten_copies_sizes(slipway, tmp_path):
    """Known sizes behind dynamic ones take a constant shape: no node computes it."""
    x = torch.randn(2, 3, 4, 5)
    program = torch.export.export(Pooled(), (x,), dynamic_shapes=({0: AUTO, 2: AUTO, 3: AUTO},))
    torch.export.save(program, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    constants = {i.name for i in graph.initializer}
    shapes = [n.input[1] in constants for n in graph.node if n.op_type == "Reshape"]
    assert sum(shapes) == 3 and len(shapes) == 5
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for sizes in ((2, 3, 4, 5), (7, 3, 6, 2)):
        x = torch.randn(sizes)
        for a, b in zip(session.run(None, {session.get_inputs()[0].name: x.numpy()}), Pooled()(x)):
            torch.testing.assert_close(torch.from_numpy(a), b)


def test_known_sizes_are_numbers(slipway, tmp_path):
    """What lowerings compute of sizes that the program states is not left to each run, and a size is no scalar between
    two lists."""

    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = torch.nn.EmbeddingBag(10, 4, mode="sum")

        def forward(self, ids, offsets):
            return self.bag(ids, offsets)

    class Repeated(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return torch.arange(n).view(n, 1).expand(n, n) + x

    ids, offsets = torch.tensor([1, 2, 4, 5, 3]), torch.tensor([0, 3])
    auto = {"x": {0: AUTO}}
    x = torch.randint(0, 9, (3, 1))
    cases = [
        (Bag(), (ids, offsets), None, {"Shape", "Range", "Squeeze", "Expand"}),
        (Repeated(), (x,), auto, {"Reshape"}),
    ]
    for i, (module, args, dynamic, gone) in enumerate(cases):
        path = tmp_path / f"{i}.pt2"
        torch.export.save(torch.export.export(module.eval(), args, dynamic_shapes=dynamic), path)
        slipway("convert", path, "-o", path.with_suffix(".onnx"))
        nodes = onnx.load(path.with_suffix(".onnx")).graph.node
        one = {k.output[0] for k in nodes if k.op_type == "Squeeze"}
        found = {n.op_type for n in nodes if n.op_type != "Reshape" or n.input[0] in one}
        assert not found & gone, [n.op_type for n in nodes]
        session = onnxruntime.InferenceSession(path.with_suffix(".onnx"))
        given = {v.name: a.numpy() for v, a in zip(session.get_inputs(), args)}
        torch.testing.assert_close(torch.as_tensor(session.run(None, given)[0]), module(*args))
