#!/usr/bin/env python3
"""Programs with a planted fault, for `slipway minify`, in the text form (no torch needed).

minify_programs.py chain OUT.sw      # 50 nodes in a row, one of them a relu
minify_programs.py branches OUT.sw   # 25 nodes: two branches that meet; one has a relu, the other a tanh
minify_programs.py control OUT.sw    # a fault inside of a branch of a cond
"""

import sys


def chain():
    weights, inputs, nodes = [], [], []
    last, features = "x", 8
    for i in range(50):
        if i % 4 == 0:
            weights += [
                f"  $fc{i}.weight: f32[8,8] @ random(seed={i})",
                f"  $fc{i}.bias: f32[8] @ random(seed={i + 100})",
            ]
            inputs += [f"  %w{i}: f32[8,8] = parameter $fc{i}.weight,", f"  %b{i}: f32[8] = parameter $fc{i}.bias,"]
            nodes.append(f"  %n{i}: f32[B,{features}] = aten.linear.default(input=%{last}, weight=%w{i}, bias=%b{i})")
        elif i == 33:
            nodes.append(f"  %n{i}: f32[B,8] = aten.relu.default(self=%{last})")
        else:
            op = ("aten.sigmoid.default", "aten.gelu.default", "aten.tanh.default")[i % 4 - 1]
            nodes.append(f"  %n{i}: f32[B,8] = {op}(self=%{last})")
        last = f"n{i}"
    return [
        "slipway.ir 1",
        "dims { B = 1..64 positive }",
        "weights {",
        *weights,
        "}",
        "graph main(",
        *inputs,
        "  %x: f32[B,8],",
        ") {",
        *nodes,
        f"  return %{last}",
        "}",
    ]


def branches():
    nodes = ["  %start: f32[4,8] = aten.sin.default(self=%x)"]
    for branch, odd in (("a", "relu"), ("b", "tanh")):
        last = "start"
        for i in range(11):
            op = odd if i == 4 else ("sigmoid", "cos", "exp")[i % 3]
            nodes.append(f"  %{branch}{i}: f32[4,8] = aten.{op}.default(self=%{last})")
            last = f"{branch}{i}"
    nodes += [
        "  %join: f32[4,8] = aten.add.Tensor(self=%a10, other=%b10)",
        "  %end: f32[4,8] = aten.neg.default(self=%join)",
    ]
    return ["slipway.ir 1", "graph main(%x: f32[4,8]) {", *nodes, "  return %end", "}"]


def control():
    return """slipway.ir 1
graph main(%p: bool[], %x: f32[4]) {
  %a: f32[4] = aten.sin.default(self=%x)
  %b: f32[4] = aten.cos.default(self=%a)
  [%c: f32[4]] = higher_order.cond(%p, @then, @else, [%b])
  %d: f32[4] = aten.exp.default(self=%c)
  return %d
}
graph then(%x: f32[4]) {
  %1: f32[4] = aten.sin.default(self=%x)
  %2: f32[4] = aten.relu.default(self=%1)
  %3: f32[4] = aten.cos.default(self=%2)
  return %3
}
graph else(%x: f32[4]) {
  %1: f32[4] = aten.neg.default(self=%x)
  return %1
}""".splitlines()


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join({"chain": chain, "branches": branches, "control": control}[sys.argv[1]]()) + "\n")
