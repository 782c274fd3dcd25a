#!/usr/bin/env python3
"""Draws the picture of each page of the guide, PAGE.svg, from the tables below.

  pictures.py           writes them
  pictures.py --check   says which differ from the tables or are not in their page, and exits 1

A box is (column, row, kind, title, second line). An arrow is (from, to, label) by indices of boxes; between
rows it turns in the middle between two columns.
"""

import html
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
BOX_W, BOX_H, GAP_X, GAP_Y, MARGIN = 172, 52, 92, 26, 14
COLORS = {  # fill, border
    "file": ("#eef4fb", "#3b6ea5"),
    "step": ("#fdf3e3", "#b3761a"),
    "good": ("#eaf6ec", "#3a8048"),
    "bad": ("#fbebeb", "#a83b3b"),
}

PICTURES = {
    "convert-a-checkpoint": (
        "A checkpoint as safetensors, as shards, and as torch.save writes; diff compares any two",
        [
            (0, 0, "file", "last.ckpt", "pickled, nested"),
            (1, 0, "file", "model.safetensors", "renamed, ties dropped"),
            (2, 0, "file", "shards/", "bf16, by size"),
            (3, 0, "file", "pytorch_model.bin", "torch.save"),
            (1, 1, "step", "slipway diff", "names, types, values"),
        ],
        [
            (0, 1, "convert"),
            (1, 2, "--dtype bf16"),
            (2, 3, "convert"),
            (1, 4, ""),
            (2, 4, ""),
        ],
    ),
    "export-to-onnx": (
        "Python exports once; convert, verify and shapes work on the file",
        [
            (0, 0, "step", "torch.export", "Python, once"),
            (1, 0, "file", "model.pt2", "graph and weights"),
            (2, 0, "file", "model.onnx", "dims have names"),
            (2, 1, "good", "slipway verify", "both sides against f64"),
            (1, 2, "file", "static.pt2", "no dynamic shapes"),
            (2, 2, "file", "dynamic.onnx", "batch, seq"),
        ],
        [
            (0, 1, "save"),
            (1, 2, "convert"),
            (2, 3, ""),
            (1, 3, ""),
            (4, 5, "--dynamic"),
        ],
    ),
    "quantize-in-ci": (
        "On each commit: quantize, then verify; the exit code lets the commit pass or stops it",
        [
            (0, 0, "file", "model", ".pt2 or .safetensors"),
            (1, 0, "step", "slipway quantize", "name, file or budget"),
            (2, 0, "file", "quantized model", ".safetensors .onnx .so"),
            (2, 1, "step", "slipway verify", "--rtol --atol"),
            (3, 0, "good", "exit 0", "the commit passes"),
            (3, 1, "bad", "exit 1", "too far from the model"),
            (1, 1, "file", "quantize.json", "error of each layer"),
        ],
        [
            (0, 1, "--config"),
            (1, 2, ""),
            (1, 6, ""),
            (2, 3, ""),
            (3, 4, "agree"),
            (3, 5, "differ"),
        ],
    ),
    "shrink-a-failing-export": (
        "minify keeps each smaller program that fails the check in the same way",
        [
            (0, 0, "file", "model.pt2", "fails"),
            (1, 0, "step", "edit a copy", "drop, bypass, narrow"),
            (2, 0, "step", "check", "built in, or a command"),
            (3, 0, "good", "out/", "program, repro, log"),
            (2, 1, "bad", "fails the same", "keep it, go on"),
        ],
        [
            (0, 1, "minify"),
            (1, 2, "ask"),
            (2, 3, "no edit left"),
            (2, 4, ""),
            (4, 1, ""),
        ],
    ),
    "ship-a-library": (
        "One shared library holds plan, weights and kernels; C, C++ and Python call it",
        [
            (0, 0, "file", "model.pt2", "graph and weights"),
            (1, 0, "file", "model.so", "plan, weights, kernels"),
            (2, 0, "step", "C, C++", "slipway_model.h"),
            (2, 1, "step", "Python", "ctypes, slipway.load"),
            (1, 1, "good", "slipway verify", "before it ships"),
        ],
        [
            (0, 1, "convert"),
            (1, 2, "load"),
            (1, 3, ""),
            (1, 4, ""),
        ],
    ),
    "run-an-llm": (
        "The library keeps the cache of keys and values between runs; the loop outside picks each next token",
        [
            (0, 0, "file", "decoder.pt2", "token, past → logits, past"),
            (1, 0, "file", "decoder.so", "keeps the past inside"),
            (2, 0, "step", "your loop", "tokenizer, sampling"),
            (1, 1, "file", "decoder.int4.so", "int4 weights"),
            (2, 1, "good", "text", "until the last token"),
        ],
        [
            (0, 1, "--state auto"),
            (0, 3, ""),
            (1, 2, "logits"),
            (2, 1, "next token"),
            (2, 4, ""),
        ],
    ),
}


def corner(box):
    return MARGIN + box[0] * (BOX_W + GAP_X), MARGIN + 18 + box[1] * (BOX_H + GAP_Y)


def arrow(boxes, edges, edge):
    """(points, place of the label) of an arrow."""
    (ax, ay), (bx, by) = corner(boxes[edge[0]]), corner(boxes[edge[1]])
    middle = BOX_H / 2
    if ax == bx:
        x = ax + BOX_W / 2
        return [(x, ay + BOX_H if by > ay else ay), (x, by if by > ay else by + BOX_H)], (x + 8, (ay + by + BOX_H) / 2)
    start, end = (ax + BOX_W, bx) if bx > ax else (ax, bx + BOX_W)
    if ay == by:
        # An arrow and its opposite go side by side.
        side = 0 if all(e[:2] != (edge[1], edge[0]) for e in edges) else -9 if bx > ax else 9
        y = ay + middle + side
        return [(start, y), (end, y)], ((start + end) / 2, y + (-6 if side <= 0 else 14))
    # Away from the middle of the upper box, where straight arrows end.
    first, last = ay + middle + (14 if by > ay else 0), by + middle + (14 if by < ay else 0)
    half = end + (GAP_X / 2 if bx < ax else -GAP_X / 2)
    return [(start, first), (half, first), (half, last), (end, last)], ((half + end) / 2, last - 6)


def drawn(title, boxes, edges):
    width = 2 * MARGIN + max(b[0] for b in boxes) * (BOX_W + GAP_X) + BOX_W
    height = 2 * MARGIN + 18 + max(b[1] for b in boxes) * (BOX_H + GAP_Y) + BOX_H
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" role="img">',
        f"<title>{html.escape(title)}</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for edge in edges:
        points, (x, y) = arrow(boxes, edges, edge)
        path = " ".join(f"{px:g},{py:g}" for px, py in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="#555" stroke-width="1.5" marker-end="url(#head)"/>')
        if edge[2]:
            out.append(
                f'<text x="{x:g}" y="{y:g}" font-size="11" fill="#333" text-anchor="middle">'
                f"{html.escape(edge[2])}</text>"
            )
    for box in boxes:
        (x, y), (fill, border) = corner(box), COLORS[box[2]]
        radius = 3 if box[2] == "file" else 12
        out.append(
            f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="{radius}" fill="{fill}" stroke="{border}"/>'
        )
        center = x + BOX_W / 2
        for text, dy, size, weight in ((box[3], 23, 14, "bold"), (box[4], 40, 11, "normal")):
            out.append(
                f'<text x="{center:g}" y="{y + dy}" font-size="{size}" font-weight="{weight}" fill="#222" '
                f'text-anchor="middle">{html.escape(text)}</text>'
            )
    return "\n".join([*out, "</svg>", ""])


def main():
    wrong = []
    pages = {p.stem for p in FOLDER.glob("*.md")} - {"README"}
    for name in sorted(pages | set(PICTURES)):
        path = FOLDER / f"{name}.svg"
        if name not in PICTURES or name not in pages:
            wrong.append(f"docs/guide/{name}: a page without a picture, or a picture without a page")
            continue
        text = drawn(*PICTURES[name])
        if sys.argv[1:] != ["--check"]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(f"docs/guide/{name}.svg is not what docs/guide/pictures.py draws")
        if f"]({name}.svg)" not in (FOLDER / f"{name}.md").read_text():
            wrong.append(f"docs/guide/{name}.md does not show {name}.svg")
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
