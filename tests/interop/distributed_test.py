"""Checkpoints of torch.distributed.checkpoint, written by a job of four ranks: consolidated, they are the tensors that
the ranks held together.
"""

import os
import shutil

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as multiprocessing
from diagnostics import cause
from safetensors.torch import load_file
from torch.distributed.checkpoint.filesystem import SerializationFormat
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

pytestmark = pytest.mark.filterwarnings("ignore")
RANKS = 4


def tensors():
    generator = torch.Generator().manual_seed(5)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    return {
        "rows": (normal(10, 6), [Shard(0)]),
        "uneven": (normal(9, 3), [Shard(0)]),  # the last rank has none of it
        "columns": (normal(5, 300).bfloat16(), [Shard(1)]),
        "middle": (normal(3, 8, 2), [Shard(1)]),
        "grid": (normal(6, 10), [Shard(0), Shard(1)]),
        "copied": (torch.arange(7), [Replicate()]),
        "large": (normal(64, 2048), [Shard(0)]),
        "large_columns": (normal(256, 4096), [Shard(1)]),
    }


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(24, 10), torch.nn.Linear(10, 3))


def rank(number, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=number, world_size=RANKS)
    line, grid = init_device_mesh("cpu", (RANKS,)), init_device_mesh("cpu", (2, 2))
    held = {
        name: distribute_tensor(t, grid if len(places) == 2 else line, places)
        for name, (t, places) in tensors().items()
    }
    sharded = model()
    for layer in sharded:
        fully_shard(layer, mesh=line)
    fully_shard(sharded, mesh=line)
    state = {
        "model": sharded.state_dict(),
        "more": held,
        "step": 5,
        "name": "x",
        "plain": torch.ones(3),
        "none": torch.zeros(0, 4),
    }
    dcp.save(state, checkpoint_id=f"{folder}/torch")
    os.makedirs(f"{folder}/hf", exist_ok=True)
    dcp.save(held, storage_writer=dcp.HuggingFaceStorageWriter(path=f"{folder}/hf", save_distributed=True))
    written = dcp.FileSystemWriter(f"{folder}/written", serialization_format=SerializationFormat.SAFETENSORS)
    dcp.save({"more": held, "step": 5, "plain": torch.ones(3)}, storage_writer=written)
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dcp")
    multiprocessing.start_processes(rank, (str(folder),), nprocs=RANKS, start_method="fork")
    return folder


def want():
    return {name: t for name, (t, _) in tensors().items()}


def same(got, expected):
    assert set(got) == set(expected)
    for name, tensor in expected.items():
        assert got[name].dtype == tensor.dtype and torch.equal(got[name], tensor), name


def test_consolidates(slipway, checkpoints, tmp_path):
    done = slipway("convert", checkpoints / "torch", "-o", tmp_path / "out.safetensors")
    assert "2 entries that are no tensors are left out" in done.stderr
    expected = {f"more.{name}": t for name, t in want().items()}
    expected |= {f"model.{name}": t for name, t in model().state_dict().items()}
    same(load_file(tmp_path / "out.safetensors"), expected | {"plain": torch.ones(3), "none": torch.zeros(0, 4)})


def test_key_shards_and_casts(slipway, checkpoints, tmp_path):
    slipway(
        "convert", checkpoints / "torch", "--key", "more", "--dtype", "bf16", "--shards", "3", "-o", f"{tmp_path}/out/"
    )
    got = {}
    for file in sorted((tmp_path / "out").glob("*.safetensors")):
        got |= load_file(file)
    same(got, {name: t.bfloat16() if t.is_floating_point() else t for name, t in want().items()})
    refused = slipway("convert", checkpoints / "torch", "--key", "nothing", "-o", tmp_path / "no.safetensors", status=3)
    assert "'nothing.'" in refused.stderr


def test_hugging_face_form(slipway, checkpoints, tmp_path):
    slipway("convert", checkpoints / "hf", "-o", tmp_path / "out.safetensors")
    same(load_file(tmp_path / "out.safetensors"), want())
    # A rank's file gone is a hole, not a smaller tensor.
    shutil.copytree(checkpoints / "hf", tmp_path / "less")
    sorted((tmp_path / "less").iterdir())[0].unlink()
    done = slipway("convert", tmp_path / "less", "-o", tmp_path / "no.safetensors", status=3)
    assert "leave a hole" in cause(done.stderr)


def test_files_of_the_safetensors_writer(slipway, checkpoints, tmp_path):
    """What FileSystemWriter makes of tensors where it is told to; what is no tensor lies before them in a rank's
    file."""
    expected = {f"more.{name}": t for name, t in want().items()} | {"plain": torch.ones(3)}
    done = slipway("convert", checkpoints / "written", "-o", tmp_path / "out.safetensors")
    assert "left out: step" in done.stderr
    same(load_file(tmp_path / "out.safetensors"), expected)
    shutil.copytree(checkpoints / "written", tmp_path / "damaged")
    for file in (tmp_path / "damaged").glob("*.distcp"):
        file.write_bytes(file.read_bytes().replace(b"saved_offsets", b"saved_offset_"))
    slipway("convert", tmp_path / "damaged", "-o", tmp_path / "out.safetensors")
    same(load_file(tmp_path / "out.safetensors"), expected)
    for file in (tmp_path / "damaged").glob("*.distcp"):
        file.write_bytes(file.read_bytes().replace(b'"more.rows"', b'"more.r0ws"'))
    done = slipway("convert", tmp_path / "damaged", "-o", tmp_path / "no.safetensors", status=3)
    assert "'more.rows': its piece at" in done.stderr and "has no tensor of its name" in done.stderr


def test_inspects(slipway, checkpoints):
    for name, prefix in (("torch", "more."), ("hf", "")):
        text = slipway("inspect", checkpoints / name).stdout
        assert f"{prefix}columns " in text and "bf16[5,300]" in text


def test_joins_a_program(slipway, checkpoints, tmp_path):
    empty = torch.nn.Sequential(torch.nn.Linear(24, 10), torch.nn.Linear(10, 3)).bfloat16()
    torch.export.save(torch.export.export(empty, (torch.randn(2, 24).bfloat16(),)), tmp_path / "m.pt2")
    slipway(
        "convert", tmp_path / "m.pt2", "--weights", checkpoints / "torch", "--key", "model", "-o", tmp_path / "o.pt2"
    )
    same(
        torch.export.load(tmp_path / "o.pt2").state_dict,
        {name: t.bfloat16() for name, t in model().state_dict().items()},
    )
