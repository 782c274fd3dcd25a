#!/usr/bin/env python3
"""Makes samples/minilm.pt2: all-MiniLM-L6-v2 as torch.export writes it, without its weights.

The model is plain torch (six BERT layers, hidden size 384, then mean pooling and normalisation); its parameters and its
buffer carry the names of the tensors in the published model.safetensors, so

    slipway convert samples/minilm.pt2 --weights model.safetensors -o minilm.onnx

finds each by name. Batch and length (1 to 512) are dynamic. The archive has no weight payloads and no sample inputs;
its program is deflated to keep the checkout small. Nothing in it depends on the machine that made it.

    python samples/make_minilm.py [OUT.pt2]
"""

import io
import json
import pathlib
import re
import sys
import zipfile

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, HIDDEN, LAYERS, HEADS, INTERMEDIATE, POSITIONS, EPSILON = 30522, 384, 6, 12, 1536, 512, 1e-12


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCABULARY, HIDDEN, padding_idx=0)
        self.position_embeddings = nn.Embedding(POSITIONS, HIDDEN)
        self.token_type_embeddings = nn.Embedding(2, HIDDEN)
        self.LayerNorm = nn.LayerNorm(HIDDEN, eps=EPSILON)
        self.register_buffer("position_ids", torch.arange(POSITIONS).unsqueeze(0))

    def forward(self, input_ids):
        words = self.word_embeddings(input_ids)
        types = self.token_type_embeddings(torch.zeros_like(input_ids))
        positions = self.position_embeddings(self.position_ids[:, : input_ids.shape[1]])
        return self.LayerNorm(words + types + positions)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, hidden, mask):
        batch, length, _ = hidden.shape

        def heads(projected):
            return projected.view(batch, length, HEADS, HIDDEN // HEADS).transpose(1, 2)

        context = functional.scaled_dot_product_attention(
            heads(self.query(hidden)), heads(self.key(hidden)), heads(self.value(hidden)), attn_mask=mask
        )
        return context.transpose(1, 2).reshape(batch, length, HIDDEN)


class Output(nn.Module):
    """A projection back to the hidden size, added to the residual and normalised."""

    def __init__(self, inputs):
        super().__init__()
        self.dense = nn.Linear(inputs, HIDDEN)
        self.LayerNorm = nn.LayerNorm(HIDDEN, eps=EPSILON)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden, residual):
        return self.LayerNorm(self.dropout(self.dense(hidden)) + residual)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.self = SelfAttention()
        self.output = Output(HIDDEN)

    def forward(self, hidden, mask):
        return self.output(self.self(hidden, mask), hidden)


class Intermediate(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(HIDDEN, INTERMEDIATE)

    def forward(self, hidden):
        return functional.gelu(self.dense(hidden))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.intermediate = Intermediate()
        self.output = Output(INTERMEDIATE)

    def forward(self, hidden, mask):
        attended = self.attention(hidden, mask)
        return self.output(self.intermediate(attended), attended)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, hidden, mask):
        for layer in self.layer:
            hidden = layer(hidden, mask)
        return hidden


class MiniLM(nn.Module):
    """input_ids, attention_mask: int64[batch, length] -> last hidden state, normalised mean of its unmasked
    positions."""

    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = Encoder()

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(self.embeddings(input_ids), attention_mask[:, None, None, :].to(torch.bool))
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return {"last_hidden_state": hidden, "sentence_embedding": functional.normalize(pooled, dim=1)}


def export(model):
    """The exported program of `model` with a dynamic batch and length."""
    batch, length = torch.export.Dim("batch", min=1), torch.export.Dim("length", min=1, max=POSITIONS)
    ids, mask = (
        torch.zeros(2, 16, dtype=torch.int64),
        torch.ones(2, 16, dtype=torch.int64),
    )  # two: one would be one input
    shape = {0: batch, 1: length}
    return torch.export.export(
        model.eval(), (ids, mask), dynamic_shapes={"input_ids": shape, "attention_mask": shape}, strict=False
    )


def without_paths(value):
    """Source places keep the file's name and the line of this file's frames only: the folders say where it was made."""
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {key: without_paths(item) for key, item in value.items()}
    if isinstance(result.get("stack_trace"), str):
        frames = re.findall(r'File "[^"]*?([^"/]+)", line (\d+), in (\w+)', result["stack_trace"])
        own = [frame for frame in frames if frame[0] == pathlib.Path(__file__).name]
        result["stack_trace"] = "\n".join(
            f'File "{name}", line {line}, in {function}' for name, line, function in own[-1:]
        )
    return result


def weightless(program):
    """The bytes of the archive of `program` with empty weights and sample inputs; constants stay."""
    saved = io.BytesIO()
    torch.export.save(program, saved)
    result = io.BytesIO()
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(result, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if re.search(r"/data/weights/weight_\d+$|/serialization_id$", name):
                continue
            if name.endswith("_weights_config.json"):
                data = b'{"config": {}}'
            elif "/data/sample_inputs/" in name:
                data = b""
            elif re.search(r"/models/[^/]+\.json$", name):
                document = without_paths(json.loads(data))
                document["torch_version"] = document["torch_version"].split("+")[0]
                data = json.dumps(document, separators=(",", ":")).encode()
            member = zipfile.ZipInfo("minilm/" + name.split("/", 1)[1])
            packed = zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED
            target.writestr(member, data, packed, 9)
    return result.getvalue()


def main():
    default = pathlib.Path(__file__).resolve().with_name("minilm.pt2")
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    data = weightless(export(MiniLM()))
    path.write_bytes(data)
    print(f"{path}: {len(data)} bytes, torch {torch.__version__.split('+')[0]}")


if __name__ == "__main__":
    main()
