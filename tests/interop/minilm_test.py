"""The main job on the real model: samples/minilm.pt2 with the published weights, converted, against torch eager."""

import make_minilm
import minilm_similarity
import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.torch
import torch

ROOT = make_minilm.pathlib.Path(make_minilm.__file__).resolve().parent
SHAPES = [(1, 8), (2, 64), (4, 128), (8, 512)]
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def converted(slipway, minilm, tmp_path_factory):
    path = tmp_path_factory.mktemp("minilm") / "minilm.onnx"
    slipway("convert", ROOT / "minilm.pt2", "--weights", minilm / "model.safetensors", "-o", path)
    return path


@pytest.fixture(scope="module")
def session(converted):
    return onnxruntime.InferenceSession(str(converted), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def eager(minilm):
    model = make_minilm.MiniLM()
    loaded = model.load_state_dict(safetensors.torch.load_file(minilm / "model.safetensors"), strict=False)
    assert not loaded.missing_keys
    return model.eval()


@pytest.mark.parametrize("batch,length", SHAPES)
def test_equals_eager(session, eager, batch, length):
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    ids = torch.randint(1000, make_minilm.VOCABULARY, (batch, length), generator=generator)
    lengths = torch.randint(1, length + 1, (batch, 1), generator=generator)
    lengths[0] = length
    mask = (torch.arange(length)[None, :] < lengths).to(torch.int64)
    with torch.no_grad():
        expected = list(eager(ids, mask).values())
    names = [value.name for value in session.get_inputs()]
    actual = session.run(None, dict(zip(names, (ids.numpy(), mask.numpy()), strict=True)))
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected):
        assert got.shape == tuple(want.shape) and got.dtype == want.numpy().dtype
        assert np.abs(got - want.numpy()).max() <= TOLERANCE


def test_checked_and_dynamic(converted):
    onnx.checker.check_model(str(converted), full_check=True)
    model = onnx.load(str(converted), load_external_data=False)
    assert [(entry.domain, entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx")] == [
        ("", 20)
    ]
    shapes = [[dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in model.graph.input]
    assert len(shapes) == 2 and shapes[0] == shapes[1]
    assert all(shapes[0]) and shapes[0][0] != shapes[0][1]


def test_missing_weights_are_an_error(slipway, tmp_path):
    output = tmp_path / "out.onnx"
    done = slipway("convert", ROOT / "minilm.pt2", "-o", output, status=3)  # bad input
    assert "embeddings.word_embeddings.weight" in done.stderr
    assert not output.exists()


def test_sentences(session, minilm):
    vocabulary = {line: index for index, line in enumerate((minilm / "vocab.txt").read_text("utf-8").splitlines())}
    sentences = (*minilm_similarity.SENTENCES, "Bread needs flour, water and salt.")
    ids, mask = minilm_similarity.tokenize(sentences, vocabulary)
    names = [value.name for value in session.get_inputs()]
    embeddings = session.run(None, dict(zip(names, (ids, mask), strict=True)))[1]
    similarity = embeddings @ embeddings.T
    assert np.allclose(np.diag(similarity), 1, atol=1e-5)
    assert similarity[0, 1] > 0.6 > 0.3 > similarity[0, 2]
