#!/usr/bin/env python3
"""Writes schemas/ops.txt: every operator overload the installed torch registers, one schema a line, sorted.

slipway has no torch at run time, so the op table (names, typed arguments with defaults, results, aliasing) is data made
here. The name is written as programs spell it (`aten.add.Tensor`, `aten.relu.default`); the rest of the line is torch's
own schema text. Operators torch does not register (`_operator.*`, `torch.sym_*`, torchao, ...) are declared by hand in
schemas/ops_extra.txt.

    python scripts/gen_op_schemas.py            # rewrites schemas/ops.txt
    python scripts/gen_op_schemas.py --check    # exit 1 if schemas/ops.txt is not what the installed torch gives
"""

import argparse
import pathlib
import re
import sys

import torch
import torch._inductor.inductor_prims  # noqa: F401  (registers prims.*)
import torch.ao.quantization.fx._decomposed  # noqa: F401  (registers quantized_decomposed.*)
import torch.export  # noqa: F401  (registers export.*)

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "schemas" / "ops.txt"
NAMESPACES = ("aten", "export", "prim", "prims", "quantized_decomposed", "rngprims")


def keep(namespace, text):
    """TorchScript's own `prim` builtins with free-form or generic types cannot occur in an exported program."""
    if namespace != "prim":
        return True
    return "..." not in text and not re.search(r"\b(t|Any|AnyEnumType|Await|Future|Dict)\b", text.split("(", 1)[1])


def lines():
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace not in NAMESPACES:
            continue
        text = str(schema)
        arguments = text[text.index("(") :]
        if keep(namespace, text):
            yield f"{namespace}.{name}.{schema.overload_name or 'default'}{arguments}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="compare with the checked-in file instead of writing it")
    arguments = parser.parse_args()
    version = torch.__version__.split("+")[0]
    table = sorted(set(lines()))
    text = f"# torch {version}: operator schemas, written by scripts/gen_op_schemas.py\n" + "\n".join(table) + "\n"
    if arguments.check:
        if OUTPUT.read_text() != text:
            sys.exit(f"{OUTPUT} differs from what torch {version} registers")
        return
    OUTPUT.write_text(text)
    print(f"{OUTPUT}: {len(table)} operators of torch {version}")


if __name__ == "__main__":
    main()
