"""The types of convert's flags. Written by scripts/gen_python_commands.py from the table of flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from ._program import StrPath


class ConvertFlags(TypedDict, total=False):
    """Flags of `slipway convert`."""

    to: Literal["onnx", "pt2", "so", "native-pt2", "safetensors", "torch"] | None
    unify: StrPath | Sequence[StrPath] | None
    dim_names: str | Sequence[str] | Mapping[str, object] | None
    require_dynamic: str | Sequence[str] | None
    constant_inputs: StrPath | None
    allow_missing: bool | None
    key: str | None
    opset: int | None
    onnx_form: Literal["exact", "portable", "ort"] | None
    allow_int8_activations: bool | None
    exact_casts: bool | None
    no_algebra: bool | None
    external_data: Literal["auto", "always", "never"] | None
    strict_types: bool | None
    node_metadata: Literal["none", "modules", "all"] | None
    state: str | None
    cache_dtype: Literal["int8", "fp8"] | None
    complex: Literal["refuse", "real"] | None
    functions: bool | None
    custom_op: str | Sequence[str] | Mapping[str, object] | None
    input_names: str | None
    output_names: str | None
    plugin: StrPath | Sequence[StrPath] | None
    target: str | None
    with_program: bool | None
    torch: Literal["2.9", "2.6"] | None
    no_weights: bool | None
    dtype: Literal["bf16", "f16", "f32"] | None
    keep_io_types: bool | None
    strict: bool | None
    include: str | Sequence[str] | None
    exclude: str | Sequence[str] | None
    rename: str | Sequence[str] | Mapping[str, object] | None
    tied: Literal["copy", "drop"] | None
    max_shard_size: int | str | None
    shards: int | None
    tp: int | None
    tp_rules: StrPath | None
    quantize: str | None
    embeddings: str | None
    requantize: bool | None
    quantize_include: str | Sequence[str] | None
    quantize_exclude: str | Sequence[str] | None
    numerics: Literal["0.18", "0.14"] | None
    calibration: StrPath | None
    calibration_images: StrPath | None
    mean: str | None
    std: str | None
    size: int | str | None
    limit: int | None
    error_budget: str | None
    size_budget: int | str | None
    save_config: StrPath | None
    require_all: bool | None
    names: Literal["file", "transformers"] | None
    no_extra_files: bool | None
    html: StrPath | None
    junit: StrPath | None
    threads: int | None
    rank: int | None
    world_size: int | None
    metadata: str | Sequence[str] | Mapping[str, object] | None
    check_crc: bool | None
    max_output: int | str | None
    dry_run: bool | None
    verify_each: bool | None


class CompileFlags(TypedDict, total=False):
    """Those that libraries take."""

    unify: StrPath | Sequence[StrPath] | None
    dim_names: str | Sequence[str] | Mapping[str, object] | None
    require_dynamic: str | Sequence[str] | None
    constant_inputs: StrPath | None
    allow_missing: bool | None
    key: str | None
    allow_int8_activations: bool | None
    exact_casts: bool | None
    no_algebra: bool | None
    complex: Literal["refuse", "real"] | None
    plugin: StrPath | Sequence[StrPath] | None
    target: str | None
    dtype: Literal["bf16", "f16", "f32"] | None
    keep_io_types: bool | None
    rename: str | Sequence[str] | Mapping[str, object] | None
    quantize: str | None
    embeddings: str | None
    quantize_include: str | Sequence[str] | None
    quantize_exclude: str | Sequence[str] | None
    numerics: Literal["0.18", "0.14"] | None
    calibration: StrPath | None
    calibration_images: StrPath | None
    mean: str | None
    std: str | None
    size: int | str | None
    limit: int | None
    error_budget: str | None
    size_budget: int | str | None
    save_config: StrPath | None
    require_all: bool | None
    html: StrPath | None
    junit: StrPath | None
    metadata: str | Sequence[str] | Mapping[str, object] | None
    check_crc: bool | None
    max_output: int | str | None
    dry_run: bool | None
    verify_each: bool | None
