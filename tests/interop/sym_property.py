"""Property test of the symbolic integers (ir/sym.h) against sympy with torch's functions.

    python tests/interop/sym_property.py BUILD/sym_eval [--count 3000] [--seed 0] [--samples FILE.tsv ...]

Random expressions are given to sym_eval in three spellings: constructor text and infix text of the raw tree, and the
text sympy itself prints after its own simplification. For each assignment of the symbols:
  * the value equals the reference (exact Python integers; torch.utils._sympy.functions on the same numbers),
  * what sym_eval prints, read by sympy, has that value too,
  * RangeOf contains the value,
  * both texts parse back to the identical expression (sym_eval checks that itself).
--samples: tables whose third column is an expression (or a JSON object whose keys are); every one must parse.
"""

import argparse
import json
import math
import random
import subprocess
import sys

import sympy
from torch.utils._sympy import functions as tf

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
NAMES = ["s0", "s1", "s77", "u0", "u1"]


class Undefined(Exception):
    pass


# ---- raw trees: ("sym", name) | ("int", v) | ("float", v) | (op, *children) ----


def leaf(rng):
    r = rng.random()
    if r < 0.55:
        return ("sym", rng.choice(NAMES))
    if r < 0.97:
        return ("int", rng.choice([-8, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32]))
    return ("int", rng.choice([INT64_MAX, INT64_MIN + 1, 2**62, -(2**62), 2**31, 10**12]))


INT_OPS = (
    ["Add"] * 6
    + ["Mul"] * 5
    + ["FloorDiv"] * 5
    + ["PythonMod"] * 4
    + ["Max", "Min"] * 2
    + ["CeilDiv", "Sub", "Sub", "Neg", "Pow", "Round", "Where"]
)


def integer(rng, depth):
    if depth == 0 or rng.random() < 0.12:
        return leaf(rng)
    op = rng.choice(INT_OPS)
    sub = lambda: integer(rng, depth - 1)
    if op in ("Add", "Mul", "Max", "Min"):
        return (op, *[sub() for _ in range(rng.choice([2, 2, 2, 3, 4]))])
    if op in ("FloorDiv", "PythonMod", "CeilDiv"):
        divisor = ("int", rng.choice([1, 2, 2, 3, 4, 4, 6, 8, 12])) if rng.random() < 0.6 else sub()
        if op == "CeilDiv":  # torch's is only right for positive divisors
            divisor = ("int", rng.choice([1, 2, 3, 4, 8])) if rng.random() < 0.6 else ("sym", rng.choice(NAMES[:3]))
        return (op, sub(), divisor)
    if op == "Sub":
        return (op, sub(), sub())
    if op == "Neg":
        return (op, sub())
    if op == "Pow":
        return (op, sub(), ("int", rng.choice([0, 1, 2, 2, 2, 3])))
    if op == "Round":
        return (rng.choice(["TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt"]), real(rng, depth - 1))
    return ("Where", boolean(rng, depth - 1), sub(), sub())


def real(rng, depth):
    if depth <= 0:
        return ("ToFloat", leaf(rng))
    op = rng.choice(["ToFloat", "ToFloat", "FMul", "FMul", "FAdd", "FloatTrueDiv", "IntTrueDiv"])
    if op == "ToFloat":
        return (op, integer(rng, depth - 1))
    if op == "FMul":
        return (op, ("float", rng.choice([0.5, 1.5, 2.0, 0.1, -0.25])), real(rng, depth - 1))
    if op == "FAdd":
        return (op, ("float", rng.choice([0.5, 1.0, -1.5])), real(rng, depth - 1))
    if op == "FloatTrueDiv":
        return (op, real(rng, depth - 1), ("float", rng.choice([2.0, 3.0, 0.75])))
    return (op, integer(rng, depth - 1), ("int", rng.choice([2, 3, 7])))


RELATIONS = {
    "Ge": ("GreaterThan", ">="),
    "Le": ("LessThan", "<="),
    "Gt": ("StrictGreaterThan", ">"),
    "Lt": ("StrictLessThan", "<"),
    "Eq": ("Equality", "=="),
    "Ne": ("Unequality", "!="),
}


def boolean(rng, depth):
    op = rng.choice(list(RELATIONS) * 2 + ["And", "Or", "Not"])
    if op in RELATIONS:
        return (op, integer(rng, max(depth - 1, 0)), integer(rng, max(depth - 1, 0)))
    if depth <= 0:
        return ("Ge", leaf(rng), leaf(rng))
    if op == "Not":
        return (op, boolean(rng, depth - 1))
    return (op, boolean(rng, depth - 1), boolean(rng, depth - 1))


def constructor(t):
    op, *a = t
    if op == "sym":
        return f"Symbol('{a[0]}', positive=True, integer=True)" if a[0][0] == "s" else f"Symbol('{a[0]}', integer=True)"
    if op == "int":
        return f"Integer({a[0]})"
    if op == "float":
        return f"Float('{a[0]!r}', precision=53)"
    args = [constructor(x) for x in a]
    if op == "Sub":
        return f"Add({args[0]}, Mul(Integer(-1), {args[1]}))"
    if op == "Neg":
        return f"Mul(Integer(-1), {args[0]})"
    name = RELATIONS[op][0] if op in RELATIONS else op.removeprefix("F") if op in ("FMul", "FAdd") else op
    return f"{name}({', '.join(args)})"


def infix(t):
    op, *a = t
    if op == "sym":
        return a[0]
    if op == "int":
        return str(a[0]) if a[0] >= 0 else f"({a[0]})"
    if op == "float":
        return f"({a[0]!r})"
    args = [infix(x) for x in a]
    joined = {
        "Add": " + ",
        "FAdd": " + ",
        "Mul": "*",
        "FMul": "*",
        "Sub": " - ",
        "FloorDiv": "//",
        "PythonMod": " % ",
        "Pow": "**",
        "And": " & ",
        "Or": " | ",
        "FloatTrueDiv": "/",
        "IntTrueDiv": " / ",
    }
    if op in joined:
        return "(" + joined[op].join(args) + ")"
    if op in RELATIONS:
        return f"({args[0]} {RELATIONS[op][1]} {args[1]})"
    if op == "Neg":
        return f"(-{args[0]})"
    if op == "Not":
        return f"(not {args[0]})"
    return f"{op}({', '.join(args)})"


def reference(t, env):
    """Exact value: Python integers and IEEE doubles."""
    op, *a = t
    if op == "sym":
        return env[a[0]]
    if op in ("int", "float"):
        return a[0]
    if op == "Where":
        return reference(a[1] if reference(a[0], env) else a[2], env)
    v = [reference(x, env) for x in a]
    if op in ("Add", "FAdd"):
        r = v[0]
        for x in v[1:]:
            r = r + x
        return r
    if op in ("Mul", "FMul"):
        r = v[0]
        for x in v[1:]:
            r = r * x
        return r
    if op in ("FloorDiv", "PythonMod", "CeilDiv", "FloatTrueDiv", "IntTrueDiv") and v[1] == 0:
        raise Undefined from None
    table = {
        "Sub": lambda: v[0] - v[1],
        "Neg": lambda: -v[0],
        "FloorDiv": lambda: v[0] // v[1],
        "PythonMod": lambda: v[0] % v[1],
        "CeilDiv": lambda: -((-v[0]) // v[1]),
        "Pow": lambda: v[0] ** v[1],
        "Max": lambda: max(v),
        "Min": lambda: min(v),
        "ToFloat": lambda: float(v[0]),
        "FloatTrueDiv": lambda: v[0] / v[1],
        "IntTrueDiv": lambda: v[0] / v[1],
        "TruncToInt": lambda: math.trunc(v[0]),
        "FloorToInt": lambda: math.floor(v[0]),
        "CeilToInt": lambda: math.ceil(v[0]),
        "RoundToInt": lambda: round(v[0]),
        "Ge": lambda: v[0] >= v[1],
        "Le": lambda: v[0] <= v[1],
        "Gt": lambda: v[0] > v[1],
        "Lt": lambda: v[0] < v[1],
        "Eq": lambda: v[0] == v[1],
        "Ne": lambda: v[0] != v[1],
        "And": lambda: v[0] and v[1],
        "Or": lambda: v[0] or v[1],
        "Not": lambda: not v[0],
    }
    try:
        return table[op]()
    except OverflowError:
        raise Undefined from None


LOCALS = {
    n: getattr(tf, n)
    for n in [
        "FloorDiv",
        "CeilDiv",
        "CleanDiv",
        "Mod",
        "PythonMod",
        "ModularIndexing",
        "Where",
        "PowByNatural",
        "FloatPow",
        "FloatTrueDiv",
        "IntTrueDiv",
        "ToFloat",
        "TruncToInt",
        "FloorToInt",
        "CeilToInt",
        "RoundToInt",
        "TruncToFloat",
        "Max",
        "Min",
        "Identity",
    ]
}


def sympy_value(text, env):
    """The value of `text` as sympy and torch's functions see it, the symbols being numbers from the start."""
    numbers = {n: sympy.Integer(v) for n, v in env.items()}
    scope = {**LOCALS, **numbers, "Symbol": lambda name, **_: numbers[name]}
    try:
        v = sympy.sympify(text, locals=scope)
    except (ZeroDivisionError, AssertionError, OverflowError):
        raise Undefined from None
    if v in (sympy.true, sympy.false):
        return bool(v)
    if v.is_Integer:
        return int(v)
    if v.is_Float:
        return float(v)
    raise Undefined


def symbolic(t):
    """sympy's own, simplified expression of an integer tree."""
    scope = {**LOCALS}
    return sympy.sympify(constructor(t), locals=scope)


def intermediates(t, env):
    op, *a = t
    yield abs(reference(t, env))
    for x in a:
        if isinstance(x, tuple):
            yield from intermediates(x, env)


def has_float(t):
    return any(isinstance(x, tuple) and (x[0] in ("float", "ToFloat", "IntTrueDiv") or has_float(x)) for x in t)


def run_tool(tool, lines):
    out = subprocess.run(
        [tool], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(out) == len(lines), f"{len(lines)} lines gave {len(out)}"
    return out


def ranges_for(rng):
    """A range for each symbol; an end may be open (None)."""
    out = {}
    for n in NAMES:
        low = rng.choice([1, 1, 2, 3]) if n[0] == "s" else rng.choice([None, 0, -5, 1, -20])
        high = rng.choice([None, None, 9, 40])
        out[n] = (low, high)
    return out


def value_in(rng, r):
    low = r[0] if r[0] is not None else -30
    high = r[1] if r[1] is not None else 60
    if r[1] is None and rng.random() < 0.03:
        return rng.choice([10**6, 2**33])
    return rng.randint(low, high)


def parse_value(text):
    return (
        {"True": True, "False": False, "none": None}[text]
        if text in ("True", "False", "none")
        else (float(text) if any(c in text for c in ".en") else int(text))
    )


def check_random(tool, seed, count, with_sympy):
    rng = random.Random(seed)
    lines, cases = [], []
    for i in range(count):
        tree = integer(rng, rng.choice([1, 2, 2, 3, 3, 4])) if rng.random() < 0.85 else boolean(rng, 3)
        texts = [constructor(tree), infix(tree)]
        if i < with_sympy and not has_float(tree):
            try:
                e = symbolic(tree)
                if not any(x in str(e) for x in ("oo", "nan", "zoo")) and not e.atoms(sympy.Rational) - e.atoms(
                    sympy.Integer
                ):
                    texts += [sympy.srepr(e), str(e)]
            except (ZeroDivisionError, AssertionError, ValueError, TypeError):
                pass
        ranges = ranges_for(rng)
        for _ in range(2):
            env = {n: value_in(rng, r) for n, r in ranges.items()}
            for text in texts:
                if len(text) > 60000:
                    continue
                e = lambda x: "" if x is None else str(x)
                lines.append(
                    "\t".join(
                        [
                            text,
                            ",".join(f"{n}={v}" for n, v in env.items()),
                            ",".join(f"{n}={e(a)}:{e(b)}" for n, (a, b) in ranges.items()),
                        ]
                    )
                )
                cases.append((tree, env, text))
    failures, valued, sympy_checked, refused = [], 0, 0, 0
    for (tree, env, text), out, line in zip(cases, run_tool(tool, lines), lines):

        def fail(why):
            failures.append(f"{why}\n  input: {line}\n  output: {out}")

        if out.startswith("error: "):
            if "beyond 64 bits" in out:
                refused += 1
            else:
                fail("did not parse")
            continue
        shown, shown_constructor, value, bounds, round_trip = out.split("\t")
        if round_trip != "same":
            fail("round trip")
        try:
            expected = reference(tree, env)
            largest = max(intermediates(tree, env))
        except Undefined:
            continue
        got = parse_value(value)
        if got is None:
            if largest < 2**63:
                fail(f"no value, expected {expected}")
            continue
        valued += 1
        if got != expected:
            fail(f"value {got}, expected {expected}")
            continue
        if isinstance(got, int) and not isinstance(got, bool):
            low, high = map(int, bounds.split(":"))
            if not (low <= got <= high):
                fail(f"value {got} outside of its range")
        if rng.random() < 0.15 and largest < 2**62:
            for printed in (shown, shown_constructor):
                try:
                    v = sympy_value(printed, env)
                except Undefined:
                    continue
                sympy_checked += 1
                if v != got:
                    fail(f"sympy reads {v} from {printed}")
    print(
        f"seed {seed}: {len(lines)} evaluations, {valued} with a value, {sympy_checked} read back by sympy, {refused} "
        f"refused, {len(failures)} failures"
    )
    return failures


def check_samples(tool, paths):
    texts = []
    for path in paths:
        for line in open(path, encoding="utf-8"):
            fields = line.rstrip("\n").split("\t")
            if line.startswith("#") or len(fields) < 3 or "L[" in fields[2] or "Error(" in fields[2]:
                continue
            texts += json.loads(fields[2]) if fields[2].startswith("{") else [fields[2]]
    texts = sorted(set(texts))
    failures = []
    for text, out in zip(texts, run_tool(tool, texts)):
        if out.startswith("error") or not out.endswith("\tsame"):
            failures.append(f"sample\n  input: {text}\n  output: {out}")
    print(f"{len(texts)} sample expressions, {len(failures)} failures")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--sympy", type=int, default=400, help="how many of them sympy simplifies and prints as well")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", nargs="*", default=[])
    args = parser.parse_args()
    failures = check_random(args.tool, args.seed, args.count, args.sympy)
    if args.samples:
        failures += check_samples(args.tool, args.samples)
    for f in failures[:12]:
        print(f)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
