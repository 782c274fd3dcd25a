#!/usr/bin/env python3
"""Writes passes/decompositions/special/tables.h: polynomials that passes/decompositions/special/special.cc and its
neighbours evaluate.

Each polynomial is a Chebyshev fit of a function's definition, computed with mpmath in 34 digits, cut where terms no
longer count in binary64, and written in powers of t, where t runs over -1..1 as the variable runs over the interval.

    python scripts/gen_special_tables.py            # writes the header; needs mpmath and clang-format
    python scripts/gen_special_tables.py --check    # exit 1 if the header is not what the installed mpmath gives
"""

import argparse
import pathlib
import subprocess
import sys

from mpmath import (
    airyai,
    airybi,
    bernoulli,
    besseli,
    besselj,
    besselk,
    bessely,
    cos,
    erfc,
    exp,
    factorial,
    findroot,
    log,
    loggamma,
    mp,
    mpf,
    nstr,
    pi,
    sin,
    sqrt,
)

mp.dps = 34
EPSILON = mpf(2) ** -55
HEADER = pathlib.Path(__file__).resolve().parent.parent / "passes/decompositions/special/tables.h"


def chebyshev(f, a, b, nodes=64):
    """Coefficients of the interpolant at Chebyshev nodes, cut where all that follow are negligible."""
    xs = [cos(pi * (2 * k + 1) / (2 * nodes)) for k in range(nodes)]
    ys = [f((a + b) / 2 + (b - a) / 2 * x) for x in xs]
    out = []
    for j in range(nodes):
        out.append(2 * sum(y * cos(pi * j * (2 * k + 1) / (2 * nodes)) for k, y in enumerate(ys)) / nodes)
    out[0] /= 2
    scale = max(abs(y) for y in ys)
    while len(out) > 1 and abs(out[-1]) < EPSILON * scale:
        out.pop()
    assert len(out) < nodes * 2 // 3, "no fit"
    return out, scale


def powers(coefficients):
    """The same polynomial in powers of t, highest first."""
    n = len(coefficients)
    total = [mpf(0)] * n
    before, last = [mpf(1)], [mpf(0), mpf(1)]
    for j, c in enumerate(coefficients):
        term = before if j == 0 else last
        for k, v in enumerate(term):
            total[k] += c * v
        if j >= 1:
            following = [mpf(0)] + [2 * v for v in last]
            for k, v in enumerate(before):
                following[k] -= v
            before, last = last, following
    return total[::-1]


def erfcinv(q):
    """y with erfc(y) = q, 0 < q < 1."""
    w = sqrt(-log(q * (2 - q)))
    return findroot(lambda y: log(erfc(y)) - log(q), w * mpf("0.9") if w < 3 else w - log(w * sqrt(pi)) / (2 * w))


def of_w(w):
    """erfinv(x) / x where w = -log(1 - x^2)."""
    if w == 0:
        return sqrt(pi) / 2
    x = sqrt(-mp.expm1(-w))
    q = exp(-w) / (1 + x)  # 1 - x
    return erfcinv(q) / x


def scaled_erfc(t):
    """(1 + 2 x) exp(x^2) erfc(x) where t = (x - 15/4) / (x + 15/4)."""
    x = mpf(15) / 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * exp(x * x) * erfc(x)


def hankel(order, which):
    """P or x Q / 8 of J = sqrt(2 / (pi x)) (P cos - Q sin), Y likewise (DLMF 10.17), as a function of (8 / x)^2."""

    def f(z):
        x = 8 / sqrt(z)
        angle = x - order * pi / 2 - pi / 4
        j, y, scale = besselj(order, x), bessely(order, x), sqrt(pi * x / 2)
        if which == "p":
            return scale * (j * cos(angle) + y * sin(angle))
        return scale * (y * cos(angle) - j * sin(angle)) * x / 8

    return f


def airy_tail(which):
    """P or Q of Ai(-x) = (P cos + Q sin / zeta) / (sqrt(pi) x^(1/4)) of zeta - pi/4 (DLMF 9.7), as functions of
    zeta^-2."""

    def f(z):
        zeta = 1 / sqrt(z)
        x = (3 * zeta / 2) ** (mpf(2) / 3)
        scale, angle = sqrt(pi) * x ** (mpf(1) / 4), zeta - pi / 4
        a, b = airyai(-x), airybi(-x)
        return (
            scale * (a * cos(angle) - b * sin(angle))
            if which == "p"
            else scale * zeta * (a * sin(angle) + b * cos(angle))
        )

    return f


def airy_decay(z):
    zeta = 1 / z
    x = (3 * zeta / 2) ** (mpf(2) / 3)
    return 2 * sqrt(pi) * x ** (mpf(1) / 4) * exp(zeta) * airyai(x)


def root(f):
    """f of sqrt(u), away from u = 0."""
    return lambda u: f(sqrt(u))


FITS = [
    # name, what is fitted, function, interval
    ("ScaledErfc", "(1 + 2x) exp(x^2) erfc(x) of t = (x - 3.75) / (x + 3.75), x >= 0", scaled_erfc, -1, 1),
    ("ErfinvNear", "erfinv(x) / x of w = -log(1 - x^2)", of_w, 0, 6),
    ("ErfinvFar", "erfinv(x) / x of sqrt(w)", lambda s: of_w(s * s), mpf("2.4"), 7),
    ("ErfinvTail", "erfinv(x) / (x sqrt(w)) of 1 / sqrt(w)", lambda r: of_w(1 / (r * r)) * r, mpf(1) / 28, mpf(1) / 7),
    ("LogGammaNear2", "lgamma(2 + z) / z", lambda z: loggamma(2 + z) / z, mpf(-1) / 2, mpf(1) / 2),
    ("BesselJ0", "J0 of x^2", root(lambda x: besselj(0, x)), 0, 64),
    ("BesselJ1", "J1(x) / x of x^2", root(lambda x: besselj(1, x) / x), 0, 64),
    (
        "BesselY0",
        "Y0(x) - (2 / pi) log(x) J0(x) of x^2 (DLMF 10.8.2)",
        root(lambda x: bessely(0, x) - 2 / pi * log(x) * besselj(0, x)),
        0,
        64,
    ),
    (
        "BesselY1",
        "(Y1(x) - (2 / pi) (log(x) J1(x) - 1 / x)) / x of x^2 (DLMF 10.8.1)",
        root(lambda x: (bessely(1, x) - 2 / pi * (log(x) * besselj(1, x) - 1 / x)) / x),
        0,
        64,
    ),
    ("BesselP0", "P of DLMF 10.17.3 for order 0, of (8 / x)^2", hankel(0, "p"), 0, 1),
    ("BesselQ0", "x Q / 8", hankel(0, "q"), 0, 1),
    ("BesselP1", "the same for order 1", hankel(1, "p"), 0, 1),
    ("BesselQ1", "", hankel(1, "q"), 0, 1),
    ("BesselI0Near", "exp(-x) I0(x)", lambda x: exp(-x) * besseli(0, x), 0, 8),
    ("BesselI0Far", "sqrt(x) exp(-x) I0(x) of 8 / x", lambda z: sqrt(8 / z) * exp(-8 / z) * besseli(0, 8 / z), 0, 1),
    ("BesselI1Near", "exp(-x) I1(x) / x", lambda x: exp(-x) * besseli(1, x) / x, 0, 8),
    ("BesselI1Far", "sqrt(x) exp(-x) I1(x) of 8 / x", lambda z: sqrt(8 / z) * exp(-8 / z) * besseli(1, 8 / z), 0, 1),
    (
        "BesselK0Near",
        "K0(x) + log(x / 2) I0(x) of x^2 (DLMF 10.31.2)",
        root(lambda x: besselk(0, x) + log(x / 2) * besseli(0, x)),
        0,
        4,
    ),
    ("BesselK0Far", "sqrt(x) exp(x) K0(x) of 2 / x", lambda z: sqrt(2 / z) * exp(2 / z) * besselk(0, 2 / z), 0, 1),
    (
        "BesselK1Near",
        "x (K1(x) - log(x / 2) I1(x)) of x^2 (DLMF 10.31.1)",
        root(lambda x: x * (besselk(1, x) - log(x / 2) * besseli(1, x))),
        0,
        4,
    ),
    ("BesselK1Far", "sqrt(x) exp(x) K1(x) of 2 / x", lambda z: sqrt(2 / z) * exp(2 / z) * besselk(1, 2 / z), 0, 1),
    ("AiryNear", "Ai(x)", airyai, -4, 2),
    (
        "AiryDecay",
        "2 sqrt(pi) x^(1/4) exp(zeta) Ai(x) of 1 / zeta, zeta = (2/3) x^(3/2) (DLMF 9.7.5)",
        airy_decay,
        0,
        3 / (2 * sqrt(mpf(8))),
    ),
    (
        "AiryP",
        "P of Ai(-x) = (P cos(zeta - pi/4) + Q sin(zeta - pi/4) / zeta) / (sqrt(pi) x^(1/4)), of zeta^-2 (DLMF 9.7.9)",
        airy_tail("p"),
        0,
        mpf(9) / 256,
    ),
    ("AiryQ", "Q of the same", airy_tail("q"), 0, mpf(9) / 256),
]
SERIES = [
    (
        "Stirling",
        "B(2k) / (2k (2k - 1)), k = 10..1: log gamma for large x, in powers of x^-2 (DLMF 5.11.1)",
        [bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(10, 0, -1)],
    ),
    ("DigammaTail", "B(2k) / (2k), k = 10..1 (DLMF 5.11.2)", [bernoulli(2 * k) / (2 * k) for k in range(10, 0, -1)]),
    (
        "EulerMaclaurin",
        "B(2k) / (2k)!, k = 1..12: the Hurwitz zeta function (DLMF 25.11.5)",
        [bernoulli(2 * k) / factorial(2 * k) for k in range(1, 13)],
    ),
]


def definition(name, comment, values, interval=None):
    """The lines of one table."""
    text = f"inline constexpr double k{name}Terms[] = {{{', '.join(nstr(v, 19, strip_zeros=False) for v in values)}}};"
    lines = [f"// {comment}."] if comment else []
    line = ""
    for word in text.split(" "):
        if len(line) + len(word) > 115:
            lines.append(line)
            line = "    " + word
        else:
            line = f"{line} {word}" if line else word
    lines.append(line)
    if interval:
        lines.append(
            f"inline constexpr Fit k{name} = {{k{name}Terms, {nstr(interval[0], 19)}, {nstr(interval[1], 19)}}};"
        )
    return lines


def header():
    lines = [
        """// Written by scripts/gen_special_tables.py: polynomials for special functions, fitted to their definitions.
#ifndef SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_TABLES_H_
#define SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_TABLES_H_

#include "absl/types/span.h"

namespace slipway::passes {

// A polynomial in t, highest power first, where t runs over -1..1 as the variable runs over low..high.
struct Fit {
  absl::Span<const double> terms;
  double low, high;
};
"""
    ]
    for name, comment, f, low, high in FITS:
        low, high = mpf(low), mpf(high)
        series, scale = chebyshev(f, low, high)
        values = powers(series)
        assert sum(abs(v) for v in values) < 64 * scale, f"{name} cancels in powers of t"
        lines += definition(name, comment, values, (low, high))
    for name, comment, values in SERIES:
        lines += definition(name, comment, values)
    return "\n".join(
        [
            *lines,
            "",
            "}  // namespace slipway::passes",
            "",
            "#endif  // SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_TABLES_H_",
            "",
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the checked-in header instead of writing it")
    arguments = parser.parse_args()
    clang_format = [pathlib.Path(sys.executable).parent / "clang-format", f"--assume-filename={HEADER}"]
    text = subprocess.run(clang_format, input=header(), text=True, check=True, stdout=subprocess.PIPE).stdout
    if not arguments.check:
        HEADER.write_text(text)
    elif HEADER.read_text() != text:
        sys.exit(f"{HEADER} is not what {sys.argv[0]} writes")


if __name__ == "__main__":
    main()
