#!/usr/bin/env python3
"""Kills conversions at random moments: what is at the destination is what was there, whole, or the new output, whole.

    tests/hostile/kills.py COUNT [SEED]        (SLIPWAY: the binary; a scratch folder is made below TMPDIR)

Files that belong together are renamed one after the other. Killed between two, the one that names the others is absent,
never an old one beside new files. What SIGKILL leaves beside them are temporaries (.NAME.slipway-PID-N.tmp) and the
file that was put aside (NAME.PID.before.tmp); other signals leave nothing. Then the same command runs to its end, which
removes them.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SLIPWAY = os.environ.get("SLIPWAY", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "slipway"))

MODEL = """slipway.ir 1
weights {{ $v: f32[2000, 1500] @ "{bin}"+0  $w: f32[2000, 1500] @ "{bin}"+12000000 }}
graph main(%v: f32[2000, 1500] = parameter $v, %w: f32[2000, 1500] = parameter $w, %x: f32[2, 2000]) {{
  %y: f32[2, 1500] = aten.mm.default(self=%x, mat2=%v)
  %z: f32[2, 1500] = aten.mm.default(self=%x, mat2=%w)
  %r: f32[2, 1500] = aten.{op}.Tensor(self=%y, other=%z)
  return %r
}}
"""

# Loaded first, it kills the process when it is about to give the AT-th file its name, or to remove one: the moments
# between two renames are too short to be met by chance.
KILLER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void count(void) {
  static int calls;
  if (++calls == atoi(getenv("AT"))) raise(SIGKILL);
}
#define NEXT(name) typeof(name)* next = (typeof(name)*)dlsym(RTLD_NEXT, #name); count(); return next
int rename(const char* a, const char* b) { NEXT(rename)(a, b); }
int renameat2(int c, const char* a, int d, const char* b, unsigned flags) { NEXT(renameat2)(c, a, d, b, flags); }
int unlink(const char* a) { NEXT(unlink)(a); }
"""

INDEX = "shards/model.safetensors.index.json"
TARGETS = {  # a name -> the command, and of several files the one that names the others
    "onnx": (["convert", "new.sw", "-o", "out/m.onnx"], None),
    "onnx in two": (["convert", "new.sw", "-o", "out/d.onnx", "--external-data", "always"], "d.onnx"),
    "so": (["convert", "new.sw", "-o", "out/m.so"], None),
    "native-pt2": (["convert", "new.sw", "-o", "out/p.pt2", "--to", "native-pt2"], None),
    "pt2": (["convert", "new.sw", "-o", "out/m.pt2"], None),
    "pt2 of 2.6": (["convert", "new.sw", "-o", "out/old.pt2", "--torch", "2.6"], None),
    "safetensors": (["convert", "new.sw", "-o", "out/w.safetensors", "--dtype", "f16"], None),
    "shards": (["convert", "new.sw", "-o", "out/shards/", "--shards", "2"], INDEX),
    "unpack": (["unpack", "two.pt2", "-o", "out/parts"], "parts/b.pt2"),  # the last to be renamed
}
# The same destinations with another model, or another number of files, for what is there before.
OLD = {
    name: [{"new.sw": "old.sw", "two.pt2": "two_old.pt2"}.get(a, a) for a in command]
    for name, (command, _) in TARGETS.items()
}
OLD["shards"][-1] = "1"  # model.safetensors alone, which goes


def content(out):
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and not p.name.endswith(".tmp")
    }


def run(command):
    subprocess.run([SLIPWAY, *command, "--quiet"], check=True)


def whole(found, before, after, leader):
    """Why the files that were found are neither the old nor the new ones; None where they are."""
    if found in (before, after):
        return None
    if unknown := [k for k, v in found.items() if v not in (before.get(k), after.get(k))]:
        return f"other contents: {unknown}"
    if leader is None:
        return "neither old nor new"
    named = found.get(leader)
    if named is None:  # between the renames
        return None
    if named == after.get(leader) and all(found.get(k) == v for k, v in after.items()):
        return None  # what the new files take the place of is still there
    return "the file that names the others does not name these"


def main():
    count = int(sys.argv[1])
    random.seed(int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    pathlib.Path("weights.bin").write_bytes(random.randbytes(24_000_000))
    pathlib.Path("old.bin").write_bytes(random.randbytes(24_000_000))
    for name, file, op in (("new", "weights.bin", "add"), ("old", "old.bin", "mul")):
        pathlib.Path(name + ".sw").write_text(MODEL.format(bin=file, op=op))
    run(["convert", "a=new.sw", "b=old.sw", "-o", "two.pt2"])
    run(["convert", "a=old.sw", "b=new.sw", "-o", "two_old.pt2"])

    pathlib.Path("killer.c").write_text(KILLER)
    subprocess.run(["cc", "-std=gnu11", "-shared", "-fPIC", "killer.c", "-o", "killer.so", "-ldl"], check=True)

    out = pathlib.Path("out")
    states, seconds = {}, {}
    for name, (command, _) in TARGETS.items():
        kept = []
        for c in (OLD[name], command):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            start = time.monotonic()
            run(c)
            seconds[name] = time.monotonic() - start
            kept.append(content(out))
        assert kept[0] != kept[1], name
        states[name] = kept

    killed = between = 0
    for i in range(count):
        name, (command, leader) = list(TARGETS.items())[i % len(TARGETS)]
        old, after = states[name]
        before = old if random.random() < 0.7 else {}
        shutil.rmtree(out)
        out.mkdir()
        for path, data in before.items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_bytes(data)
        if leader and i % 2:
            number = signal.SIGKILL
            chosen = os.environ | {"LD_PRELOAD": os.path.abspath("killer.so"), "AT": str(random.randint(1, 8))}
            process = subprocess.Popen([SLIPWAY, *command, "--quiet"], env=chosen)
        else:
            number = random.choice(
                [signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]
            )
            process = subprocess.Popen([SLIPWAY, *command, "--quiet"])
            time.sleep(
                random.uniform(0, 1.1) * seconds[name]
                if random.random() < 0.5
                else random.uniform(0.7, 1.1) * seconds[name]
            )
            process.send_signal(number)
        killed += process.wait() == -number
        found = content(out)
        why = whole(found, before, after, leader)
        sizes = {k: len(v) for k, v in found.items()}
        assert why is None, f"kill {i} ({number.name}) of {name}: {why}: {sizes}"
        left = [str(p) for p in out.rglob("*.tmp")]
        between += found not in (before, after) or any(".before." in p for p in left)
        assert number == signal.SIGKILL or not left, f"kill {i} ({number.name}) of {name} leaves {left}"
        if left:
            run(command)
            assert content(out) == after, f"{name}, run again after kill {i}: {sorted(content(out))}"
            assert not list(out.rglob("*.tmp")), f"{name}, run again after kill {i}: {list(out.rglob('*.tmp'))}"
    print(f"{killed} of {count} came before the end, {between} of them between two renames")
    assert killed > count // 10, "nearly every conversion was faster than its signal"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="slipway-kills-") as scratch:
        SLIPWAY = os.path.abspath(SLIPWAY)
        os.chdir(scratch)
        main()
        os.chdir("/")
