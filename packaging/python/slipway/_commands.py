"""The commands as functions. Written by scripts/gen_python_commands.py from the table of flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ._program import Option, Report, Result, StrPath, parsed, report, result


def diff(
    a: StrPath,
    b: StrPath,
    *,
    key: str | None = None,
    tolerance: float | None = None,
    by_value: bool = False,
    html: StrPath | None = None,
) -> Report:
    """Compare the tensors of two checkpoints, or two ONNX models: exit 0 where all are equal, 1 where not.

    a          weights: .safetensors, checkpoint, folder of shards, distributed checkpoint, exported program, ONNX model
    b          the same, of any kind
    key        the dict of a nested checkpoint that holds the tensors, such as model.state_dict
    tolerance  floating-point elements that differ by no more are equal
    by_value   tensors of f64, f32, f16 and bf16 may be of different types: equal where the wider one, rounded to the
               narrower, is
    html       write a page, too: what differs, where and by how much (docs/pages.md)
    """
    flags: dict[str, Option] = {
        "key": key,
        "tolerance": tolerance,
        "by_value": by_value,
        "html": html,
    }
    return report("diff", [a, b], flags, json=True, no_is_answer=True)


def doctor(
    *,
    python: StrPath | None = None,
) -> Report:
    """Say what of this machine slipway works with, and what is in its way.

    python  the Python to look at; python3 and python of PATH, as for verify, if not said
    """
    flags: dict[str, Option] = {
        "python": python,
    }
    return report("doctor", [], flags, json=True, no_is_answer=True)


def inspect(
    file: StrPath,
    *,
    html: StrPath | None = None,
    histograms: bool = False,
    ops: bool = False,
    weights: bool = False,
    kernels: bool = False,
    verify: bool = False,
) -> Any:
    """Show what is in a file.

    file        exported program (.pt2), text form, native library (.so), or weights: .safetensors, checkpoint, folder
                of shards
    html        write a page, too: modules, operators, dims, weights and the graph (docs/pages.md)
    histograms  with --html: read all weights and draw how values are spread
    ops         operators and their counts
    weights     all weights, not only the first
    kernels     of a native library: its products of matrices and the loops that they would take on this machine
    verify      read everything and compare with the checksums that the file states
    """
    flags: dict[str, Option] = {
        "html": html,
        "histograms": histograms,
        "ops": ops,
        "weights": weights,
        "kernels": kernels,
        "verify": verify,
    }
    return parsed("inspect", [file], flags, json=True)


def minify(
    source: StrPath,
    output: StrPath,
    check: str,
    *,
    fail_code: int | None = None,
    fail_regex: str | None = None,
    inputs: StrPath | None = None,
    python: StrPath | None = None,
    html: StrPath | None = None,
    timeout: float | None = None,
    memory: int | str | None = None,
    jobs: int | None = None,
    max_time: float | None = None,
    max_probes: int | None = None,
) -> Report:
    """Find the smallest program that still fails a check.

    source      exported program (.pt2), text form, or ONNX model (.onnx)
    output      the folder for the result; the same command goes on with what is in it
    check       a command that exits 0 where all is well, {} in it being the candidate as .pt2 (of an ONNX model:
                .onnx), {ir} as text, {onnx} as ONNX, {inputs} its inputs; or one of slipway's own:
                convert:onnx[@OPSET], convert:so, run, accuracy:onnx, accuracy:so, accuracy:OTHER.pt2,
                diagnostic:ID[@TARGET]; of an ONNX model run, accuracy:ort-unoptimized, accuracy:OTHER.onnx
    fail_code   only this exit code of the command is the failure
    fail_regex  only output of the command that matches is the failure (RE2)
    inputs      .safetensors with input.0, input.1, …, as for run; the archive's samples, else made-up numbers, if not
                said
    python      for accuracy:onnx and ONNX models: the Python with onnxruntime and numpy; python3 of PATH if not said
    html        write a page, too: the steps of the reduction and what is left (docs/pages.md)
    timeout     seconds that a check may take; 0: any
    memory      bytes that each process of a check may have; 0: any
    jobs        checks at once; the result is the same
    max_time    seconds, after which the best so far is the result
    max_probes  checks, after which the best so far is the result
    """
    flags: dict[str, Option] = {
        "output": output,
        "check": check,
        "fail_code": fail_code,
        "fail_regex": fail_regex,
        "inputs": inputs,
        "python": python,
        "html": html,
        "timeout": timeout,
        "memory": memory,
        "jobs": jobs,
        "max_time": max_time,
        "max_probes": max_probes,
    }
    return report("minify", [source], flags, json=True)


def quantize(
    source: StrPath | Sequence[StrPath],
    output: StrPath,
    config: str,
    *,
    to: Literal["onnx", "pt2", "so", "native-pt2", "safetensors", "torch"] | None = None,
    weights: StrPath | Sequence[StrPath] | None = None,
    dynamic: str | None = None,
    unify: StrPath | Sequence[StrPath] | None = None,
    dim_names: str | Sequence[str] | Mapping[str, object] | None = None,
    require_dynamic: str | Sequence[str] | None = None,
    constant_inputs: StrPath | None = None,
    allow_missing: bool = False,
    key: str | None = None,
    opset: int | None = None,
    onnx_form: Literal["exact", "portable", "ort"] | None = None,
    allow_int8_activations: bool = False,
    exact_casts: bool = False,
    no_algebra: bool = False,
    external_data: Literal["auto", "always", "never"] | None = None,
    strict_types: bool = False,
    node_metadata: Literal["none", "modules", "all"] | None = None,
    state: str | None = None,
    cache_dtype: Literal["int8", "fp8"] | None = None,
    complex: Literal["refuse", "real"] | None = None,
    functions: bool = False,
    custom_op: str | Sequence[str] | Mapping[str, object] | None = None,
    input_names: str | None = None,
    output_names: str | None = None,
    plugin: StrPath | Sequence[StrPath] | None = None,
    target: str | None = None,
    with_program: bool = False,
    torch: Literal["2.9", "2.6"] | None = None,
    no_weights: bool = False,
    keep_io_types: bool = False,
    strict: bool = False,
    tied: Literal["copy", "drop"] | None = None,
    max_shard_size: int | str | None = None,
    shards: int | None = None,
    embeddings: str | None = None,
    requantize: bool = False,
    include: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    numerics: Literal["0.18", "0.14"] | None = None,
    calibration: StrPath | None = None,
    calibration_images: StrPath | None = None,
    mean: str | None = None,
    std: str | None = None,
    size: int | str | None = None,
    limit: int | None = None,
    error_budget: str | None = None,
    size_budget: int | str | None = None,
    save_config: StrPath | None = None,
    require_all: bool = False,
    names: Literal["file", "transformers"] | None = None,
    no_extra_files: bool = False,
    html: StrPath | None = None,
    junit: StrPath | None = None,
    threads: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    metadata: str | Sequence[str] | Mapping[str, object] | None = None,
    check_crc: bool = False,
    max_output: int | str | None = None,
    dry_run: bool = False,
    verify_each: bool = False,
) -> Result:
    """Quantize the weights of a checkpoint or of an exported program.

    source                  weights: .safetensors, checkpoint, folder of shards; or an exported program (.pt2)
    output                  where to write; the suffix chooses the format, as for convert
    config                  quantizes weights: a short name (int8-weight-only, 8da4w, int4-weight-only:group=32, …), a
                            file of torchao's JSON, auto with a budget, or a recipe for a whole program (pt2e-x86);
                            docs/quantize.md. For onnx, pt2, so, native-pt2, safetensors
    to                      the format, where OUT's suffix does not say it
    weights                 safetensors files, checkpoints or folders of shards whose tensors replace the program's by
                            name, or by what follows one beginning (model.) that all names have or lack, or by the names
                            of transformers' model class (docs/quantize.md) that config.json beside them has; names they
                            lack are an error, and so are other shapes and types, but floating-point types are cast to
                            the program's, and tied weights share their values. dlpack:LIBRARY.so loads a shared
                            library, running its code, and takes the tensors it gives
    dynamic                 makes dimensions of inputs dynamic that the program was exported without: auto, all of them,
                            or those of 'ids:[batch,seq=1..512],mask:[batch,seq]', where a number pins; docs/shapes.md.
                            For onnx, pt2, so, native-pt2
    unify                   an export of the same model at other sizes: dimensions that differ become dynamic; may be
                            repeated. docs/shapes.md. For onnx, pt2, so, native-pt2
    dim_names               new names of dynamic dimensions: s77=batch; may be repeated. For onnx, pt2, so, native-pt2
    require_dynamic         exit code 4 with the reason where that dimension is static; may be repeated. For onnx, pt2,
                            so, native-pt2
    constant_inputs         tensors (.safetensors) that inputs of an ONNX model have for good, by name: sizes, axes and
                            switches that the model takes as inputs, so that what depends on them is decided. For onnx,
                            pt2, so, native-pt2
    allow_missing           names that the files of --weights lack keep the archive's values
    key                     the dict of a nested checkpoint that holds the tensors: model.state_dict; . is the outermost
    opset                   the opset to declare, exactly; 18 … 28. For onnx
    onnx_form               how products with quantized weights are written: as the program computes them; in standard
                            operators; in those that ONNX Runtime runs fast. portable and ort let the runtime round
                            activations to 8 bits, with errors of some per cent; docs/quantize.md. For onnx
    allow_int8_activations  rounds the activations of linear layers with quantized weights to 8 bits while the library
                            runs, each row by a scale of its own, and multiplies integers: numbers change by some tenths
                            of a per cent. For so, native-pt2
    exact_casts             rounds dequantized weights and their scales to bf16 or f16 one by one, as eager torch does;
                            without it they are multiplied as they are, which is faster and nearer the exact result. For
                            so, native-pt2
    no_algebra              convolutions and batch norms of one image that are added up stay what they are, and so do
                            factors of channels behind a layer (layer scale) and batch norms behind linear layers and
                            (not native-pt2, whose weights callers may set) convolutions; without it they become one
                            layer, whose weights have names of their own: conv.weight.merged. Results differ by
                            rounding. Layers of whose results one index is read compute all; without it that one. (ONNX)
                            linear layers whose results are cut into parts stay one; without it each part has its rows
                            of the weight: qkv.weight.0. (Native) sums over a few branches stay reductions. For onnx,
                            so, native-pt2
    external_data           weights in a file of their own; auto: above 2 GB. For onnx
    strict_types            never cast around operators for whose type ONNX Runtime's CPU has no kernel: for devices
                            that compute in halves. For onnx
    node_metadata           what nodes say of their origin, under torch.onnx's keys: nothing; the modules that they are
                            in, which Netron shows; also classes, scopes and the stack trace. For onnx
    state                   what becomes of buffers and inputs that the program updates: dropped with a warning; ONNX,
                            io: carried, state_in.FQN is an input (its default the value in the file), state_out.FQN an
                            output; libraries, auto: kept by the library between runs, and so is each input that an
                            output returns with something behind it (a decoder's past keys and values), which both leave
                            the signature; or these pairs alone, IN=OUT,IN=OUT. For onnx, so
    cache_dtype             with --state: a decoder's keys and values are kept in 8 bits, each row (of a token in one
                            head) with a scale, in a quarter of the memory that f32 takes: numbers change by the
                            rounding; docs/native.md. For onnx, so
    complex                 what becomes of complex inputs and outputs, which these targets have not: real takes and
                            gives them as torch.view_as_real does, real tensors with a last dim of two; ONNX's metadata
                            slipway.complex names them. For onnx, so, native-pt2
    functions               repeated blocks, modules that compute the same on values of the same types, are kept as
                            local functions. For onnx
    custom_op               writes an operator as a node of a custom domain: tensors and symbolic numbers are its
                            inputs, constants its attributes by name; may be repeated. For onnx
    input_names             names of the inputs, in order; all of them. For onnx
    output_names            names of the outputs, in order; all of them. For onnx
    plugin                  a shared library with kernels for operators of your own (slipway_kernel.h), whose code is
                            run; it is put into the output. May be repeated. For so, native-pt2
    target                  the machine that the library is for, this one if not said; run and verify take one for
                            another machine where qemu-user is installed; docs/native.md. For so, native-pt2
    with_program            the exported program as well, so that torch.export.load opens the same file. Its weights are
                            in the file twice. For native-pt2
    torch                   the oldest torch that shall load it. 2.6: the flat layout with pickled weights, which 2.6 …
                            2.14 load. For pt2
    no_weights              the programs only. torch wants the weights back before it loads them; slipway reads such
                            archives. For pt2
    keep_io_types           with --dtype: inputs and outputs stay f32, cast behind and before them. For onnx, so,
                            native-pt2
    strict                  with --dtype: exit code 1, and no output, where a value becomes infinite or zero that was
                            not. For safetensors
    tied                    tensors that share all their values with another one, as tied weights do: written again, or
                            only the first by name. For safetensors
    max_shard_size          into a folder: the most bytes of a shard, 5GB if not said (KB MB GB TB, KiB MiB GiB TiB).
                            For safetensors
    shards                  into a folder: exactly N shards of about the same size. For safetensors
    embeddings              with --quantize: embeddings and output heads tied to them are quantized, too: int8,
                            int4:group=32, … (intx of so many bits), int8-weight-only or float8-weight-only. For onnx,
                            pt2, so, native-pt2, safetensors
    requantize              with --quantize: a checkpoint that comes quantized (docs/dequantize.md) is dequantized
                            first, and the errors of both add up; without it such a checkpoint is refused. For
                            safetensors
    include                 with --quantize: also the weights whose names the expression is found in; may be repeated.
                            For onnx, pt2, so, native-pt2, safetensors
    exclude                 with --quantize: not the weights whose names …; may be repeated. For onnx, pt2, so,
                            native-pt2, safetensors
    numerics                with --quantize: the torchao whose numbers are made. For onnx, pt2, so, native-pt2,
                            safetensors
    calibration             with --quantize: .safetensors of inputs, for the methods that look at activations;
                            docs/quantize.md. For onnx, pt2, so, native-pt2
    calibration_images      in place of --calibration, for a program with one input, an image: a folder of PNG and JPEG,
                            one sample each, by name, as (RGB / 255 - mean) / std; docs/quantize.md. For onnx, pt2, so,
                            native-pt2
    mean                    with --calibration-images: the mean of each channel. For onnx, pt2, so, native-pt2
    std                     with --calibration-images: the standard deviation of each channel. For onnx, pt2, so,
                            native-pt2
    size                    with --calibration-images: 224, the shorter side is resized and the center cut out; 256:224,
                            the center is smaller; or HEIGHTxWIDTH. For onnx, pt2, so, native-pt2
    limit                   with --calibration-images: only the first N. For onnx, pt2, so, native-pt2
    error_budget            with --quantize auto: the smallest whose weights are off by at most this, 1% or 0.01, all
                            together; with calibration data or a recipe: layers stay in float until the outputs are. For
                            onnx, pt2, so, native-pt2, safetensors
    size_budget             with --quantize auto: the most exact whose tensors take at most this. For onnx, pt2, so,
                            native-pt2, safetensors
    save_config             with --quantize: the configuration of each layer as JSON, which --quantize FILE reproduces
                            the run with. For onnx, pt2, so, native-pt2, safetensors
    require_all             with --quantize: exit code 1, and no output, where a weight that was asked for stays in
                            float. For onnx, pt2, so, native-pt2, safetensors
    names                   with --quantize, into a folder: whose names of weights its metadata has, the file's alone or
                            also those of transformers' model class, which from_pretrained looks for; what that class
                            fuses while it loads stays in float then. If not said, transformers' where config.json names
                            a model that it knows; docs/quantize.md. For safetensors
    no_extra_files          with --quantize, from folder to folder: without the tokenizer and the other small files of
                            the source. For safetensors
    html                    with --quantize: a page, too: sizes, errors by layer, what a budget chose among;
                            docs/pages.md. For onnx, pt2, so, native-pt2, safetensors
    junit                   with --quantize: JUnit XML, a test case a weight. For onnx, pt2, so, native-pt2, safetensors
    threads                 with --quantize: how many threads; as many as run takes if not said. For onnx, pt2, so,
                            native-pt2, safetensors
    rank                    with --quantize and --world-size: of several processes that write one folder, which this is.
                            Taken from the environment of Slurm, Open MPI and Kubernetes' indexed jobs where not said.
                            For safetensors
    world_size              with --rank: how many processes there are; 1: the environment is not asked. For safetensors
    metadata                stored in the output, in a PT2 archive as an extra file of that name; may be repeated. For
                            onnx, pt2, so, native-pt2, safetensors
    check_crc               compares all weights with the CRC-32 that the source states (archives and checkpoints)
                            before anything is written; exit code 3 where one is wrong. Without it those are compared
                            that are read or copied through memory
    max_output              the most bytes to write (exit code 6); if not said, 1 GiB and four times what the input's
                            weights take
    dry_run                 all but the writing
    verify_each             checks the program's consistency after every pass; a failure is a bug (exit code 70). For
                            onnx, so, native-pt2
    """
    flags: dict[str, Option] = {
        "output": output,
        "config": config,
        "to": to,
        "weights": weights,
        "dynamic": dynamic,
        "unify": unify,
        "dim_names": dim_names,
        "require_dynamic": require_dynamic,
        "constant_inputs": constant_inputs,
        "allow_missing": allow_missing,
        "key": key,
        "opset": opset,
        "onnx_form": onnx_form,
        "allow_int8_activations": allow_int8_activations,
        "exact_casts": exact_casts,
        "no_algebra": no_algebra,
        "external_data": external_data,
        "strict_types": strict_types,
        "node_metadata": node_metadata,
        "state": state,
        "cache_dtype": cache_dtype,
        "complex": complex,
        "functions": functions,
        "custom_op": custom_op,
        "input_names": input_names,
        "output_names": output_names,
        "plugin": plugin,
        "target": target,
        "with_program": with_program,
        "torch": torch,
        "no_weights": no_weights,
        "keep_io_types": keep_io_types,
        "strict": strict,
        "tied": tied,
        "max_shard_size": max_shard_size,
        "shards": shards,
        "embeddings": embeddings,
        "requantize": requantize,
        "include": include,
        "exclude": exclude,
        "numerics": numerics,
        "calibration": calibration,
        "calibration_images": calibration_images,
        "mean": mean,
        "std": std,
        "size": size,
        "limit": limit,
        "error_budget": error_budget,
        "size_budget": size_budget,
        "save_config": save_config,
        "require_all": require_all,
        "names": names,
        "no_extra_files": no_extra_files,
        "html": html,
        "junit": junit,
        "threads": threads,
        "rank": rank,
        "world_size": world_size,
        "metadata": metadata,
        "check_crc": check_crc,
        "max_output": max_output,
        "dry_run": dry_run,
        "verify_each": verify_each,
    }
    return result("quantize", [source], flags, json=True)


def run(
    model: StrPath,
    inputs: StrPath,
    outputs: StrPath,
    *,
    decode: StrPath | None = None,
    plugin: StrPath | None = None,
    repeat: int | None = None,
    threads: int | None = None,
    onnxruntime: bool = False,
    python: StrPath | None = None,
    emulator: StrPath | None = None,
    profile: bool = False,
    html: StrPath | None = None,
) -> Report:
    """Run a program, a native library or an ONNX model on inputs from a file.

    model        exported program (.pt2), text form, native library (.so), or ONNX model (.onnx)
    inputs       .safetensors with input.0, input.1, …: the flattened arguments, tensors and symbolic numbers only
    outputs      .safetensors to write, with output.0, output.1, …
    decode       inputs of one token: a library with state runs --inputs, the prompt, and then these --repeat times
    plugin       a shared library with kernels of your own (slipway_kernel.h), whose code is run
    repeat       runs; outputs are those of the last
    threads      threads at once; 0: SLIPWAY_NUM_THREADS, OMP_NUM_THREADS or one a processor
    onnxruntime  run an .onnx by onnxruntime, not by slipway's kernels
    python       the same in this Python, which has onnxruntime and numpy; python3 of PATH if not said
    emulator     the qemu-user that runs a library of another machine; by its name in PATH if not said
    profile      time by operator
    html         with --profile: write a page, too: time by module and by step, and what bounds the steps
                 (docs/pages.md)
    """
    flags: dict[str, Option] = {
        "inputs": inputs,
        "outputs": outputs,
        "decode": decode,
        "plugin": plugin,
        "repeat": repeat,
        "threads": threads,
        "onnxruntime": onnxruntime,
        "python": python,
        "emulator": emulator,
        "profile": profile,
        "html": html,
    }
    return report("run", [model], flags, json=True)


def shapes(
    file: StrPath,
    *,
    to: Literal["onnx", "pt2", "so", "native-pt2", "safetensors", "torch"] | None = None,
    dynamic: str | None = None,
    unify: StrPath | Sequence[StrPath] | None = None,
    dim_names: str | Sequence[str] | Mapping[str, object] | None = None,
    require_dynamic: str | Sequence[str] | None = None,
    verify_each: bool = False,
    output: StrPath | None = None,
) -> Report:
    """Show which dimensions of the inputs are dynamic and which node made the others static.

    file             exported program (.pt2) or its text form
    to               the format, where OUT's suffix does not say it
    dynamic          makes dimensions of inputs dynamic that the program was exported without: auto, all of them, or
                     those of 'ids:[batch,seq=1..512],mask:[batch,seq]', where a number pins; docs/shapes.md
    unify            an export of the same model at other sizes: dimensions that differ become dynamic; may be repeated.
                     docs/shapes.md
    dim_names        new names of dynamic dimensions: s77=batch; may be repeated
    require_dynamic  exit code 4 with the reason where that dimension is static; may be repeated
    verify_each      checks the program's consistency after every pass; a failure is a bug (exit code 70)
    output           writes the program as the flags make it, to the format of OUT's suffix, as convert does
    """
    flags: dict[str, Option] = {
        "to": to,
        "dynamic": dynamic,
        "unify": unify,
        "dim_names": dim_names,
        "require_dynamic": require_dynamic,
        "verify_each": verify_each,
        "output": output,
    }
    return report("shapes", [file], flags, json=True)


def unpack(
    source: StrPath,
    output: StrPath,
    *,
    program: str | Sequence[str] | None = None,
    torch: Literal["2.9", "2.6"] | None = None,
    check_crc: bool = False,
    max_output: int | str | None = None,
    dry_run: bool = False,
) -> Report:
    """Write each program of a PT2 archive to an archive of its own.

    source      a PT2 archive
    output      the folder that NAME.pt2 goes to
    program     only the program of this name; may be repeated
    torch       the oldest torch that shall load it. 2.6: the flat layout with pickled weights, which 2.6 … 2.14 load
    check_crc   compares all weights with the CRC-32 that the source states (archives and checkpoints) before anything
                is written; exit code 3 where one is wrong. Without it those are compared that are read or copied
                through memory
    max_output  the most bytes to write (exit code 6); if not said, 1 GiB and four times what the input's weights take
    dry_run     all but the writing
    """
    flags: dict[str, Option] = {
        "output": output,
        "program": program,
        "torch": torch,
        "check_crc": check_crc,
        "max_output": max_output,
        "dry_run": dry_run,
    }
    return report("unpack", [source], flags, json=True)


def verify(
    a: StrPath,
    b: StrPath,
    *,
    inputs: StrPath | Sequence[StrPath] | None = None,
    seed: int | None = None,
    adversarial: bool = False,
    sweep: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    no_reference: bool = False,
    layers: bool = False,
    html: StrPath | None = None,
    python: StrPath | None = None,
    emulator: StrPath | None = None,
    ort_unoptimized: bool = False,
    timeout: float | None = None,
    plugin: StrPath | None = None,
    threads: int | None = None,
    junit: StrPath | None = None,
) -> Report:
    """Run two models on the same inputs and compare what they give: exit 0 where they agree, 1 where not.

    a                exported program (.pt2), text form, native library (.so), whose code is run, or ONNX model (.onnx)
    b                the same, of any kind; without it the library that convert makes of A
    inputs           .safetensors with input.0, input.1, …, as for run; may be repeated. Without it the program's sample
                     inputs, else what --seed makes
    seed             make inputs within the program's types, ranges and relations; another number makes others
    adversarial      make inputs with edge values: zeros, infinities, NaN, denormals, extremes
    sweep            make inputs of N sets of sizes from the ranges, their ends first
    rtol             elements may differ by RTOL · |a| + ATOL, as in torch.testing.assert_close; of floating-point
                     outputs
    atol             see --rtol; one that is given alone makes the other 0
    no_reference     do not run the program in f64 to say which side is further from it
    layers           find the first node whose value differs, and where it comes from
    html             write a page, too: outputs, and of a program how far the values of each node differ (docs/pages.md)
    python           the Python with onnxruntime and numpy that runs an .onnx; python3 of PATH if not said
    emulator         the qemu-user that runs a library of another machine; by its name in PATH if not said
    ort_unoptimized  A, an .onnx, is run without onnxruntime's optimizations; it may be B, too
    timeout          seconds that onnxruntime may take
    plugin           a shared library with kernels of your own (slipway_kernel.h), whose code is run
    threads          threads at once; 0: as for run
    junit            a file to write as JUnit XML: a test case an output
    """
    flags: dict[str, Option] = {
        "inputs": inputs,
        "seed": seed,
        "adversarial": adversarial,
        "sweep": sweep,
        "rtol": rtol,
        "atol": atol,
        "no_reference": no_reference,
        "layers": layers,
        "html": html,
        "python": python,
        "emulator": emulator,
        "ort_unoptimized": ort_unoptimized,
        "timeout": timeout,
        "plugin": plugin,
        "threads": threads,
        "junit": junit,
    }
    return report("verify", [a, b], flags, json=True, no_is_answer=True)
