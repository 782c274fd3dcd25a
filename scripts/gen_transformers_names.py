#!/usr/bin/env python3
"""Writes schemas/transformers_names.txt: which names transformers' model classes give to the tensors of checkpoints.

transformers 5 renames tensors while it loads them, and fuses or splits some. A quantized checkpoint that it is to load
must name each weight as the model class does, so slipway computes those names as the loader would
(weights/transformers_names.h). Lines, their fields separated by tabs:

    rules NAME          what is renamed, in this order, for all that `use` names them:
    rename TARGET       the first match of one of the branches below, the earliest, becomes TARGET; \\1 is a group of it
    convert TARGET      the same, and the tensor's values are changed: fused, split, transposed
    branch RE BEFORE AFTER   RE, unless what is before the match ends in BEFORE or what is behind it begins with AFTER
    unknown             a rule that this file cannot state: no names are known where it applies
    use KEY NAME        the rules of a class or a model_type; the class goes first
    class NAME TYPE PREFIX BASE CHILD,CHILD,…
                        a model class, its model_type, its base_model_prefix, whether the base model is a part of it (1,
                        and then the base's children follow) or the class itself (0, its own children)
    part PATH NAME TYPE of the class above: a model in it that has rules
    auto PATH KEY TYPE  of the class above: a model in it that config.json's object KEY chooses; TYPE if it says none
    other PATH          of the class above: a module with a weight of two dimensions that is no nn.Linear, numbers as #,
                        but for embeddings and norms that are called so (quantizer/select.h)
    base TYPE NAME      the class that a model_type's AutoModel is

    python scripts/gen_transformers_names.py            # rewrites the file, in two minutes
    python scripts/gen_transformers_names.py --check    # exit 1 if it is not what the installed transformers gives
    python scripts/gen_transformers_names.py --check ViTModel …    # the same of all rules and of these classes: seconds
"""

import argparse
import logging
import os
import pathlib
import re
import sys
import warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import conversion_mapping, core_model_loading  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "schemas" / "transformers_names.txt"
LEGACY = "legacy"  # of every model, last


def branch(source):
    """A pattern as (RE, BEFORE, AFTER) without look-around, or None."""
    pattern = source.replace("*.", r".*\.")
    if re.search(r"[a-zA-Z0-9]$", pattern):  # as WeightTransform: a pattern ends on a name's boundary
        pattern += r"\b"
    before, after = [], ""
    while match := re.match(r"\(\?<!((?:[^()\\]|\\.)+)\)", pattern):
        before.append(match[1])
        pattern = pattern[match.end() :]
    # ^A(?:(?!B))(.+) of PrefixChange: A, not before B
    if match := re.fullmatch(r"(\^(?:[\w.\\]*))\(\?:\(\?!((?:[^()]|\\.)+)\)\)\(\.\+\)", pattern):
        pattern, after = match[1], match[2]
    elif match := re.fullmatch(r"(.*)\(\?!((?:[^()]|\([^()]*\)|\(\([^()]*\)\))+)\)(\\b)?", pattern):
        pattern, after = match[1] + (match[3] or ""), match[2]
    if re.search(r"\(\?[=!<]", pattern + after) or any(re.search(r"\(\?", b) for b in before):
        return None
    return pattern, "|".join(before), after


def rule(transform):
    """The lines of a transform."""
    plain = (core_model_loading.WeightRenaming, core_model_loading.PrefixChange, core_model_loading.WeightConverter)
    if type(transform) not in plain:
        return ["unknown"]
    branches = [branch(s) for s in sorted(transform.source_patterns, key=lambda s: -len(s))]
    if None in branches:
        return ["unknown"]
    target = transform.target_patterns[0]
    if isinstance(transform, core_model_loading.PrefixChange) and transform.prefix_to_add is not None:
        target = target.removesuffix(r"\1")
    if r"\1" in target and any(re.compile(b[0]).groups == 0 for b in branches):
        return ["unknown"]
    kind = "convert" if hasattr(transform, "operations") else "rename"
    return [f"{kind}\t{target}"] + ["branch\t" + "\t".join(b) for b in branches]


def model_classes():
    """Names of the model classes that the auto classes know, and the model_type of each."""
    found = {}
    for name, mapping in sorted(vars(modeling_auto).items()):
        if name.endswith("_MAPPING_NAMES") and name.startswith("MODEL"):
            for model_type, classes in mapping.items():
                for c in classes if isinstance(classes, (list, tuple)) else [classes]:
                    found.setdefault(c, model_type)
    return found


def base_class(model_type):
    name = modeling_auto.MODEL_MAPPING_NAMES.get(model_type)
    return name[0] if isinstance(name, (list, tuple)) else name


def instantiate(name):
    """A model of the class's default configuration, on the meta device; None for what has none, or needs packages."""
    try:
        cls = getattr(transformers, name)
        config = cls.config_class()
        with torch.device("meta"):
            return cls(config)
    except Exception:
        return None


def config_key(config, wanted, path=""):
    """Where an object is in a configuration ("text_config"), and whether its class is open; None if nowhere."""
    for key, cls in (config.sub_configs or {}).items():
        inner = getattr(config, key, None)
        if inner is wanted:
            return path + key, cls.__name__ == "AutoConfig"
        if isinstance(inner, transformers.PretrainedConfig) and (at := config_key(inner, wanted, f"{path}{key}.")):
            return at
    return None


def is_told_by_name(path):
    last = path.rpartition(".")[2].lower()
    embeds = re.search("embed|embd", last) and not re.search("proj|out|dense|linear", last)
    return embeds or "norm" in last or last in ("wte", "wpe", "shared", "lookup", "relative_attention_bias")


def others(model, autos):
    """Lines for what is no linear layer, though its weight looks like one's."""
    found = set()
    for path, module in model.named_modules():
        weight = module._parameters.get("weight")
        if weight is None or weight.dim() != 2 or isinstance(module, torch.nn.Linear) or is_told_by_name(path):
            continue
        if not any(path.startswith(a + ".") for a in autos):
            found.add(".".join("#" if p.isdigit() else p for p in path.split(".")))
    return [f"other\t{path}" for path in sorted(found)]


def parts(model, keys):
    """Lines for the models within a model."""
    out, autos = [], []
    for path, module in model.named_modules():
        if not path or not isinstance(module, transformers.PreTrainedModel):
            continue
        if any(path.startswith(a + ".") for a in autos):
            continue  # of the class that is chosen
        name, model_type = type(module).__name__, module.config.model_type
        at = config_key(model.config, module.config)
        if at and at[1] and base_class(model_type) == name:
            autos.append(path)
            out.append(f"auto\t{path}\t{at[0]}\t{model_type}")
        elif name in keys or model_type in keys:
            out.append(f"part\t{path}\t{name}\t{model_type}")
    return out + others(model, autos)


def lines(classes):
    """The lines of the file, of all classes or of those named."""
    mapping = conversion_mapping._build_checkpoint_conversion_mapping()
    names_of, rules, uses = {}, [], []
    for key in sorted(mapping):
        text = tuple(line for transform in mapping[key] for line in rule(transform))
        if text not in names_of:
            names_of[text] = key
            rules += [f"rules\t{key}", *text]
        uses.append(f"use\t{key}\t{names_of[text]}")
    yield from rules
    yield from uses
    for name, model_type in sorted(model_classes().items()):
        if classes and name not in classes:
            continue
        model = instantiate(name)
        if model is None:
            continue
        prefix = model.base_model_prefix
        base = getattr(model, prefix, model) if prefix else model
        inside = base is not model
        children = sorted({key.split(".")[0] for key in base.state_dict()})
        yield f"class\t{name}\t{model.config.model_type}\t{prefix}\t{int(inside)}\t{','.join(children)}"
        yield from parts(model, mapping.keys())
        if base_class(model_type) == name:
            yield f"base\t{model_type}\t{name}"


def of_classes(text, classes):
    """The text without the classes that are not named, where any are."""
    out, keep = [], True
    for line in text.splitlines(keepends=True):
        word, _, rest = line.rstrip("\n").partition("\t")
        if word == "class":
            keep = not classes or rest.split("\t")[0] in classes
        if keep:
            out.append(line)
    return "".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("classes", nargs="*", help="with --check")
    arguments = parser.parse_args()
    header = f"# scripts/gen_transformers_names.py, transformers {transformers.__version__}\n"
    text = header + "".join(f"{line}\n" for line in lines(arguments.classes))
    if arguments.check:
        return int(of_classes(OUTPUT.read_text(), arguments.classes) != text)
    OUTPUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
