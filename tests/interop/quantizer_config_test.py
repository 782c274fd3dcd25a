"""The quantizer's configurations against real torchao: JSON both ways, what is refused, and which module gets which."""

import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import warnings

import pytest
import torch
import torchao.quantization as ao
from torch import nn
from torchao.core.config import config_from_dict, config_to_dict
from torchao.float8.inference import Float8MMConfig
from torchao.prototype.awq import AWQConfig
from torchao.prototype.gptq import GPTQConfig
from torchao.prototype.mx_formats import (
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
)
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.quantization.int4 import PrototypeInt4WeightOnlyConfig
from torchao.prototype.smoothquant import SmoothQuantConfig
from torchao.quantization.granularity import PerAxis, PerBlock, PerGroup, PerRow, PerTensor
from torchao.quantization.quantize_.common import KernelPreference
from torchao.quantization.quantize_.workflows import Int4ChooseQParamsAlgorithm, IntxChooseQParamsAlgorithm

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway")).parent / "quantizer_config"
SYM, NO_CLIPPING, ASYM = (
    ao.MappingType.SYMMETRIC,
    ao.MappingType.SYMMETRIC_NO_CLIPPING_ERR,
    ao.MappingType.ASYMMETRIC,
)
HQQ = IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY
E5M2 = torch.float8_e5m2
FP4 = torch.float4_e2m1fn_x2

# Each short name and the configuration of torchao's that it stands for.
SHORT = {
    "int8-weight-only": lambda: ao.Int8WeightOnlyConfig(),
    "int8-weight-only:per=tensor": lambda: ao.Int8WeightOnlyConfig(granularity=PerTensor()),
    "int8-weight-only:group=64": lambda: ao.Int8WeightOnlyConfig(granularity=PerGroup(64)),
    "int8-dynamic": lambda: ao.Int8DynamicActivationInt8WeightConfig(),
    "int8-dynamic:act=asymmetric": lambda: ao.Int8DynamicActivationInt8WeightConfig(act_mapping_type=ASYM),
    "int8-dynamic:per=tensor,reduce-range": lambda: ao.Int8DynamicActivationInt8WeightConfig(
        granularity=PerTensor(), reduce_range=True
    ),
    "int8-dynamic:act-per=tensor": lambda: ao.Int8DynamicActivationInt8WeightConfig(
        granularity=[PerTensor(), PerRow()]
    ),
    "int8-dynamic:per=tensor,act-per=row": lambda: ao.Int8DynamicActivationInt8WeightConfig(
        granularity=[PerRow(), PerTensor()]
    ),
    "int8-static": lambda: ao.quant_api.Int8StaticActivationInt8WeightConfig(),
    "int8-static:per=tensor,act=asymmetric": lambda: ao.quant_api.Int8StaticActivationInt8WeightConfig(
        granularity=PerTensor(), act_mapping_type=ASYM
    ),
    "int4-weight-only": lambda: ao.Int4WeightOnlyConfig(),
    "int4-weight-only:group=32,hqq": lambda: ao.Int4WeightOnlyConfig(
        group_size=32, int4_choose_qparams_algorithm=Int4ChooseQParamsAlgorithm.HQQ
    ),
    "int4-weight-only:cpu": lambda: PrototypeInt4WeightOnlyConfig(),
    "int4-weight-only:group=64,hqq,cpu": lambda: PrototypeInt4WeightOnlyConfig(
        group_size=64, int4_choose_qparams_algorithm=Int4ChooseQParamsAlgorithm.HQQ
    ),
    "8da4w": lambda: ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4),
    "8da4w:bits=8": lambda: ao.Int8DynamicActivationIntxWeightConfig(),
    "8da4w:bits=3,per=row,mapping=asymmetric,act=symmetric,scale=bf16,hqq": lambda: (
        ao.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int3,
            weight_granularity=PerAxis(0),
            weight_mapping_type=ASYM,
            weight_scale_dtype=torch.bfloat16,
            act_mapping_type=SYM,
            intx_choose_qparams_algorithm=HQQ,
        )
    ),
    "intx": lambda: ao.IntxWeightOnlyConfig(),
    "intx:bits=1,group=32,mapping=no-clipping,scale=f16": lambda: ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int1, granularity=PerGroup(32), mapping_type=NO_CLIPPING, scale_dtype=torch.float16
    ),
    "intx:scale=f32": lambda: ao.IntxWeightOnlyConfig(scale_dtype=torch.float32),
    "float8-weight-only": lambda: ao.Float8WeightOnlyConfig(),
    "float8-weight-only:element=e5m2,group=64": lambda: ao.Float8WeightOnlyConfig(
        weight_dtype=E5M2, granularity=PerGroup(64)
    ),
    "float8-dynamic": lambda: ao.Float8DynamicActivationFloat8WeightConfig(),
    "float8-dynamic:element=e5m2,per=row,lb=0.25,ub=12.5": lambda: ao.Float8DynamicActivationFloat8WeightConfig(
        activation_dtype=E5M2,
        weight_dtype=E5M2,
        granularity=PerRow(),
        activation_value_lb=0.25,
        activation_value_ub=12.5,
    ),
    "mxfp8": lambda: MXDynamicActivationMXWeightConfig(),
    "mxfp8:element=e5m2,scaling=even": lambda: MXDynamicActivationMXWeightConfig(
        activation_dtype=E5M2,
        weight_dtype=E5M2,
        kernel_preference=KernelPreference.EMULATED,
        scaling_mode=ScaleCalculationMode.EVEN,
    ),
    "mxfp4:scaling=floor": lambda: MXDynamicActivationMXWeightConfig(
        activation_dtype=FP4, weight_dtype=FP4, scaling_mode=ScaleCalculationMode.FLOOR
    ),
    "mxfp4:block=64": lambda: MXDynamicActivationMXWeightConfig(
        block_size=64, activation_dtype=FP4, weight_dtype=FP4, kernel_preference=KernelPreference.EMULATED
    ),
    "nvfp4": lambda: NVFP4WeightOnlyConfig(),
    "nvfp4:one-level": lambda: NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=False),
    "nvfp4-dynamic": lambda: NVFP4DynamicActivationNVFP4WeightConfig(),
    "nvfp4-dynamic:one-level": lambda: NVFP4DynamicActivationNVFP4WeightConfig(use_dynamic_per_tensor_scale=False),
    "awq(int8-weight-only)": lambda: AWQConfig(ao.Int8WeightOnlyConfig(), step="convert"),
    "awq(int4-weight-only:group=32):search=40": lambda: AWQConfig(
        ao.Int4WeightOnlyConfig(group_size=32), step="convert", scale_search_space_size=40
    ),
    "smoothquant(int8-dynamic)": lambda: SmoothQuantConfig(ao.Int8DynamicActivationInt8WeightConfig(), step="convert"),
    "smoothquant(int8-static):alpha=0.75": lambda: SmoothQuantConfig(
        ao.quant_api.Int8StaticActivationInt8WeightConfig(), step="convert", alpha=0.75
    ),
    "gptq(int8-weight-only)": lambda: GPTQConfig(step="convert", base_config=ao.Int8WeightOnlyConfig()),
    "gptq(nvfp4-dynamic):percdamp=0.05,block=128": lambda: GPTQConfig(
        step="convert",
        base_config=NVFP4DynamicActivationNVFP4WeightConfig(),
        percdamp=0.05,
        gptq_quantize_block_size=128,
    ),
}
# config_from_dict() does not know these classes' modules.
NOT_IN_TORCHAO_MODULES = ("PrototypeInt4WeightOnlyConfig", "GPTQConfig")


def tool(config, *modules, status=0):
    """What the tool prints, as lines; of another status its message."""
    text = config if isinstance(config, str) else json.dumps(config)
    done = subprocess.run([TOOL, text, *modules], capture_output=True, text=True)
    assert done.returncode == status, f"{text}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr if status else done.stdout.splitlines()


def canonical(config):
    """The dict as text, in which the order of keys counts."""
    return json.dumps(config)


@pytest.mark.parametrize("short", SHORT)
def test_short_name_and_json_are_torchaos(short):
    want = config_to_dict(SHORT[short]())
    written, printed = tool(short)
    assert canonical(json.loads(written)) == canonical(want)
    assert printed == short
    assert tool(want) == [written, short], "torchao's JSON reads as the short name does"
    assert tool(printed.replace("-", "_")) == [written, short]
    if want["_type"] not in NOT_IN_TORCHAO_MODULES:
        assert canonical(config_to_dict(config_from_dict(json.loads(written)))) == canonical(want)


def test_the_documented_table_is_the_tables():
    rows = [
        r
        for r in (ROOT / "docs" / "quantize.md").read_text().splitlines()
        if re.match(r"\| `[\w-]+` \|.*Config` \|$", r)
    ]
    assert rows == tool("--names")


def test_all_schemes_are_in_torchaos_defaults():
    """An object with no fields at all has torchao's defaults."""
    for make in (
        ao.Int8WeightOnlyConfig,
        ao.Int8DynamicActivationInt8WeightConfig,
        ao.quant_api.Int8StaticActivationInt8WeightConfig,
        ao.IntxWeightOnlyConfig,
        ao.Int8DynamicActivationIntxWeightConfig,
        ao.Int4WeightOnlyConfig,
        PrototypeInt4WeightOnlyConfig,
        ao.Float8WeightOnlyConfig,
        ao.Float8DynamicActivationFloat8WeightConfig,
        MXDynamicActivationMXWeightConfig,
        NVFP4WeightOnlyConfig,
        NVFP4DynamicActivationNVFP4WeightConfig,
    ):
        want = config_to_dict(make())
        written = tool({**want, "_data": {}})[0]
        assert canonical(json.loads(written)) == canonical(want)


def test_fields_that_change_no_number_are_taken():
    for config in (
        ao.Int8WeightOnlyConfig(set_inductor_config=False),
        ao.Float8DynamicActivationFloat8WeightConfig(
            mm_config=Float8MMConfig(emulate=True), kernel_preference=KernelPreference.TORCH, set_inductor_config=False
        ),
        AWQConfig(ao.Int8WeightOnlyConfig(), step="prepare"),
        SmoothQuantConfig(ao.Int8WeightOnlyConfig(), step="prepare_for_loading", use_running_absmax=True),
        GPTQConfig(step="observe", base_config=ao.Int8WeightOnlyConfig()),
    ):
        tool(config_to_dict(config))


def changed(config, path, value):
    """config_to_dict(config) with another value at `path`, a field or several, one in another."""
    out = config_to_dict(config)
    at = out
    for name in path[:-1]:
        at = at["_data"][name]
    (at if path[-1].startswith("_") else at["_data"])[path[-1]] = value
    return out


@pytest.mark.parametrize(
    "config, message",
    [
        (changed(ao.Int8WeightOnlyConfig(), ["group_size"], 64), "PerGroup with group_size 64 instead"),
        (changed(ao.Int8WeightOnlyConfig(), ["_version"], 1), "write 2"),
        (changed(ao.Int8DynamicActivationInt8WeightConfig(), ["_version"], 1), "write 2"),
        (changed(ao.Int8WeightOnlyConfig(), ["granularity"], None), "granularity: "),
        (changed(ao.Int8WeightOnlyConfig(), ["granularity", "_type"], "PerRwo"), "did you mean 'PerRow'?"),
        (changed(ao.Int8WeightOnlyConfig(), ["granulrity"], None), "did you mean 'granularity'?"),
        (changed(ao.Int8WeightOnlyConfig(), ["_type"], "Int8WeightOnlyConfg"), "did you mean 'Int8WeightOnlyConfig'?"),
        (changed(ao.IntxWeightOnlyConfig(), ["weight_dtype", "_data"], "int9"), "did you mean 'int1'?"),
        (changed(ao.IntxWeightOnlyConfig(), ["granularity", "axis"], 1), "axis is 0"),
        (changed(ao.IntxWeightOnlyConfig(), ["granularity", "_type"], "PerRow"), "there are PerAxis, PerGroup"),
        (changed(ao.Int8DynamicActivationInt8WeightConfig(), ["act_mapping_type", "_data"], NO_CLIPPING.name), "sym"),
        (changed(ao.Int8DynamicActivationIntxWeightConfig(), ["act_mapping_type", "_data"], NO_CLIPPING.name), "sym"),
        (changed(MXDynamicActivationMXWeightConfig(), ["activation_dtype", "_data"], "float8_e5m2"), "differ"),
        (changed(ao.Int4WeightOnlyConfig(), ["int4_tile_packed_ntile"], 12), "8 or 16"),
        (changed(AWQConfig(ao.Int8WeightOnlyConfig(), step="convert"), ["step"], "convrt"), "did you mean 'convert'?"),
    ],
)
def test_what_torchao_refuses_is_refused(config, message):
    with pytest.raises((ValueError, AssertionError, AttributeError, TypeError)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config_from_dict(config)
    assert message in tool(config, status=1)


def test_all_problems_at_once():
    config = changed(ao.Int8WeightOnlyConfig(), ["granulrity"], None)
    config["_data"].update(group_size=64, set_inductor_config=3)
    config["_version"] = 1
    message = tool(config, status=1)
    for part in ("_version 1", "group_size: is null", "set_inductor_config: ", "'granulrity'"):
        assert part in message


def test_known_and_not_supported():
    for config in (
        changed(ao.Int4WeightOnlyConfig(), ["int4_packing_format", "_data"], "TILE_PACKED_TO_4D"),
        config_to_dict(ao.Float8DynamicActivationInt4WeightConfig()),
        config_to_dict(
            ao.Float8DynamicActivationFloat8WeightConfig(granularity=[PerBlock([1, 128]), PerBlock([128, 128])])
        ),
        config_to_dict(SmoothQuantConfig(ao.Int8WeightOnlyConfig(), step="convert", alpha=None)),
    ):
        tool(config, status=2)


def fqn_to_config(entries):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # _default is deprecated
        return ao.FqnToConfig(entries)


def test_map_reads_and_writes_as_torchaos():
    entries = {
        r"re:encoder\.\d+\..*": ao.Int8WeightOnlyConfig(),
        "head": None,
        "head.weight": AWQConfig(ao.Int8WeightOnlyConfig(), step="convert"),
        "_default": ao.Float8WeightOnlyConfig(),
    }
    want = config_to_dict(fqn_to_config(entries))
    written = json.loads(tool(want)[0])
    assert canonical(written) == canonical(want)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert canonical(config_to_dict(config_from_dict(written))) == canonical(want)
    older = {**want, "_type": "ModuleFqnToConfig", "_data": {"module_fqn_to_config": want["_data"]["fqn_to_config"]}}
    assert canonical(json.loads(tool(older)[0])) == canonical(want)
    want["_data"]["module_fqn_to_config"]["head"] = config_to_dict(ao.Int8WeightOnlyConfig())
    with pytest.raises(ValueError):
        config_from_dict(want)
    assert "differ" in tool(want, status=1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("query", "key", "value"):
            setattr(self, name, nn.Linear(32, 32, bias=False))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(32, 32, bias=False)


MODULES = [f"layers.{i}.{name}" for i in range(3) for name in ("query", "key", "value")] + ["head"]
# Told apart by the weights that they make.
CHOICES = {
    None: "null",
    3: "intx:bits=3",
    4: "intx:bits=4",
    5: "intx:bits=5",
    6: "intx:bits=6",
}


def config_of(choice):
    return choice and ao.IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{choice}"))


def random_keys():
    layer = random.choice(["0", "1", "2", r"\d", "[01]"])
    name = random.choice(["query", "key", "value", "(query|key)", "[kv].*y", r"\w+e"])
    module = f"layers.{layer}.{name}" if random.random() < 0.7 else random.choice(["head", rf".*\.{name}"])
    if re.fullmatch(r"[\w.]+", module) and random.random() < 0.7:
        return random.choice([module, module + ".weight"])
    return "re:" + module + random.choice(["", r"\.weight", r"\.w.*t"])


def test_precedence_is_torchaos():
    """Random maps over a model. Where several expressions match one parameter, or one beside its very name, torchao
    applies all of them, one to the other's result, so that those maps are left out here."""
    checked = 0
    while checked < 60:
        keys = dict.fromkeys(random_keys() for _ in range(random.randint(1, 6)))
        if random.random() < 0.5:
            keys["_default"] = None
        patterns = [k[3:] for k in keys if k.startswith("re:")]
        times = lambda name: (name in keys) + sum(bool(re.fullmatch(p, name)) for p in patterns)  # noqa: E731
        if any(times(m + ".weight") > 1 for m in MODULES):
            continue
        choices = {k: random.choice(list(CHOICES)) for k in keys}
        config = fqn_to_config({k: config_of(c) for k, c in choices.items()})
        model = Model()
        ao.quantize_(model, config, filter_fn=None)
        lines = tool(config_to_dict(config), *MODULES)
        got = dict(line.split("\t")[::2] for line in lines if line.count("\t") == 2)
        for name in MODULES:
            weight = model.get_submodule(name).weight
            dtype = getattr(weight, "target_dtype", None)
            bits = dtype and int(str(dtype).removeprefix("torch.int"))
            assert got[name] == CHOICES[bits], f"{name}: {choices}"
        matched = (
            lambda k: any(  # noqa: E731
                re.fullmatch(k[3:], n) if k.startswith("re:") else k == n for m in MODULES for n in (m, m + ".weight")
            )
        )
        unmatched = [line.split("\t")[1] for line in lines if line.startswith("unmatched\t")]
        assert unmatched == [k for k in choices if k != "_default" and not matched(k)]
        checked += 1


def test_expressions_that_are_not_read_alike():
    config = config_to_dict(ao.Int8WeightOnlyConfig())
    of = lambda *keys: {  # noqa: E731
        "_type": "FqnToConfig",
        "_version": 1,
        "_data": {"fqn_to_config": dict.fromkeys(keys, config)},
    }
    for python_only in (r"re:a(?!b).*", r"re:(?<=a)b", r"re:(a)\1", r"re:(?P<n>a)(?P=n)"):
        assert "not supported" in tool(of(python_only), "a", status=2)
    for nowhere in (r"re:a(", r"re:[", r"re:*"):
        with pytest.raises(re.error):
            re.compile(nowhere[3:])
        tool(of(nowhere), "a", status=1)
    for re2_only in (r"re:\pL+", r"re:\Qa.b\E", r"re:(?U)a+"):
        with pytest.raises(re.error):
            re.compile(re2_only[3:])
        assert "Python" in tool(of(re2_only), "a", status=1)
    message = tool(of("re:(", "re:[", "x"), status=1)
    assert "re:(" in message and "re:[" in message


def transformers_config(**changes):
    out = {
        "include_input_output_embeddings": False,
        "modules_to_not_convert": ["head"],
        "quant_method": "torchao",
        "quant_type": {"default": config_to_dict(ao.Int8WeightOnlyConfig())},
        "quant_type_kwargs": {},
        "untie_embedding_weights": False,
    }
    return {k: v for k, v in {**out, **changes}.items() if v is not ...}


def test_transformers():
    config = transformers_config()
    for form in (config, {"architectures": ["X"], "vocab_size": 3, "quantization_config": config}):
        lines = tool(form, "head", "lm_head", "head.0", "heads", "body.head.x", "body")
        assert json.loads(lines[0]) == config
        got = [line.split("\t")[2] for line in lines[2:]]
        assert got == ["skipped", "skipped", "skipped", "int8-weight-only", "skipped", "int8-weight-only"]
    absent = transformers_config(modules_to_not_convert=None, untie_embedding_weights=True)
    assert json.loads(tool(absent)[0]) == absent
    for quant_type, arguments, short in (
        ("int8_weight_only", {}, "int8-weight-only"),
        ("int8_weight_only", {"group_size": 32}, "int8-weight-only:group=32"),
        ("int8_weight_only", {"group_size": None}, "int8-weight-only"),
        ("int4_weight_only", {}, "int4-weight-only"),
        ("int4_weight_only", {"layout": ["Int4CPULayout", {}], "use_hqq": True}, "int4-weight-only:hqq"),
        ("int8_dynamic_activation_int8_weight", {}, "int8-dynamic"),
    ):
        assert tool(transformers_config(quant_type=quant_type, quant_type_kwargs=arguments))[1] == short
    assert "did you mean 'int8_weight_only'?" in tool(transformers_config(quant_type="int8_weight_onyl"), status=1)
    assert "unknown argument 'gruop_size'" in tool(
        transformers_config(quant_type="int4_weight_only", quant_type_kwargs={"gruop_size": 3}), status=1
    )
    assert "modules_to_not_convert" in tool(transformers_config(modules_to_not_convrt=[]), status=1)
    tool(transformers_config(quant_type="autoquant"), status=2)
    tool(transformers_config(quant_method="gptq"), status=2)
    tool(transformers_config(quant_type=...), status=1)
    tool({"architectures": ["X"]}, status=1)


def test_hostile_documents():
    good = json.dumps(config_to_dict(fqn_to_config({"a": ao.Int8WeightOnlyConfig()})))
    for text in itertools.chain(
        (good[:n] for n in range(1, len(good), 7)),
        (
            '{"_type": ' * 5000,
            '{"_type":"AWQConfig","_version":1,"_data":{"base_config":' * 300 + "{}" + "}}" * 300,
            good.replace('"group_size": null', '"group_size": 1e400'),
            good.replace('"group_size": null', '"group_size": 99999999999999999999'),
            good.replace('"dim": -1', '"dim": -9223372036854775809'),
            good.replace('"_version": 2', '"_version": -9223372036854775808'),
            good.replace('"a"', '"a": null, "a"'),
            good.replace('"set_inductor_config": true', '"' + "x" * 10000 + '": 1'),
            good.replace('"set_inductor_config": true', ", ".join(f'"x{i}": 1' for i in range(1000))),
            good.replace("Int8WeightOnlyConfig", "\\u0000\\u001b[31m"),
            json.dumps(changed(ao.Int4WeightOnlyConfig(), ["group_size"], 0)),
            json.dumps(changed(ao.Int4WeightOnlyConfig(), ["group_size"], 1 << 62)),
            json.dumps(changed(ao.Float8DynamicActivationFloat8WeightConfig(), ["activation_value_lb"], float("nan"))),
            json.dumps(changed(MXDynamicActivationMXWeightConfig(), ["block_size"], -5)),
        ),
    ):
        message = tool(text, status=1)
        assert len(message) < 5000 and "\x1b" not in message
    for name in (
        *("", ":", "(", ")", "awq()", "awq(awq(int8-weight-only))", "awq(int8-weight-only)x", "gptq(int8-dynamic)"),
        *("intx:bits=99999999999999999999", "intx:bits=-1", "intx:bits", "int4-weight-only:hqq=1", "x" * 2000),
        *("smoothquant(int8-dynamic):alpha=nan", "smoothquant(int8-dynamic):alpha=1e999"),
        "int8-weight-only:" + "group=32," * 90,
    ):
        tool(name, status=1)
