#!/usr/bin/env python3
"""A process for each library that the benchmarks compare, stopped while another one runs: idle threads of a library
wait in loops.

    save("folder/case", net, inputs, slipway="build/slipway")   # once for a case: what the processes load
    with Libraries(["torch", "ort", "slipway"], threads=2) as libraries:
        best, error = libraries.measure("folder/case", seconds=1, rounds=4)

No library gets settings but its number of threads; SLIPWAY_ISA holds for slipway.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "samples"), str(ROOT / "samples" / "native"), str(ROOT / "scripts")]


def flat(x):
    """The first tensor of a result."""
    import torch

    while not isinstance(x, torch.Tensor):
        x = next(iter(x.values())) if isinstance(x, dict) else x[0]
    return x


def array(tensor):
    """Of bfloat16, which numpy does not have, the bits."""
    import torch

    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def save(base, net, inputs, slipway, archive=None, more=(), aoti=False):
    """Files of a case: BASE.net for torch, BASE.npz with the inputs and torch's result, BASE.pt2 (or `archive`, which
    is converted with the options `more`), BASE.so, BASE.onnx and, with `aoti`, BASE.aoti.pt2. Programs and packages
    that are there are kept."""
    import torch

    base = pathlib.Path(base)
    with torch.no_grad():
        torch.save((net, inputs), base.with_suffix(".net"))
        want = flat(net(*inputs)).float()
        np.savez(base.with_suffix(".npz"), *[array(x) for x in inputs], want=want.numpy())
        if archive is None:
            archive = base.with_suffix(".pt2")
            if not archive.exists():
                torch.export.save(torch.export.export(net, inputs), archive)
        for suffix in (".so", ".onnx"):
            subprocess.run(
                [slipway, "convert", str(archive), *more, "-o", str(base.with_suffix(suffix))],
                check=True,
                capture_output=True,
            )
        package = base.with_suffix(".aoti.pt2")
        if aoti and not package.exists():
            with torch._inductor.config.patch({"cpp.dynamic_threads": True}):
                torch._inductor.aoti_compile_and_package(torch.export.export(net, inputs), package_path=str(package))
    return want


def load(who, base, threads):
    """A function that runs the case once, and the largest difference of slipway's result from torch's, relative to the
    largest number."""
    if who in ("torch", "aoti"):
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        net, inputs = torch.load(base.with_suffix(".net"), weights_only=False)
        if who == "aoti":
            net = torch._inductor.aoti_load_package(str(base.with_suffix(".aoti.pt2")))
        return lambda: net(*inputs), 0.0
    data = np.load(base.with_suffix(".npz"))
    arrays = [data[f"arr_{i}"] for i in range(len(data.files) - 1)]
    if who == "ort":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            str(base.with_suffix(".onnx")), options, providers=["CPUExecutionProvider"]
        )
        feed = {i.name: a for i, a in zip(session.get_inputs(), arrays)}
        return lambda: session.run(None, feed), 0.0
    if who != "slipway":
        raise ValueError(f"no such library: {who}")
    from model import Model

    native = Model(str(base.with_suffix(".so")))
    native.set_threads(threads)
    outputs = native(*arrays)
    got, want = outputs[0], data["want"]
    if got.dtype == np.uint16:
        got = (got.astype(np.uint32) << 16).view(np.float32)
    error = float(np.abs(got.astype(np.float64) - want).max() / max(1e-30, np.abs(want).max()))
    return native.bind(arrays, outputs), error


def least(run, seconds):
    """The least seconds of a run."""
    run()
    best, end, count = float("inf"), time.perf_counter() + seconds, 0
    while time.perf_counter() < end or count < 2:
        begin = time.perf_counter()
        run()
        best, count = min(best, time.perf_counter() - begin), count + 1
    return best


def work(who, threads):
    """The process of a library: answers each line of JSON with one."""
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            run = None  # frees the last case first
            run, answer = load(who, pathlib.Path(request["load"]), threads)
            least(run, 0)
        else:
            answer = least(run, request["seconds"])
        print(json.dumps(answer), flush=True)


class Library:
    def __init__(self, who, threads):
        self.who, self._errors = who, tempfile.TemporaryFile("w+")
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, __file__, who, str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment
        )

    def _ask(self, request):
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{self.who}: {(self._errors.read().strip() or 'ended').splitlines()[-1]}")
        self._process.send_signal(signal.SIGSTOP)
        return json.loads(answer)

    def load(self, base):
        return self._ask({"load": str(base)})

    def least(self, seconds):
        return self._ask({"seconds": seconds})

    def close(self):
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            file.close()


class Libraries:
    def __init__(self, names, threads):
        self._names, self._threads, self._of = names, threads, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for library in self._of.values():
            library.close()
        self._of.clear()

    def measure(self, base, seconds, rounds, names=None):
        """The least seconds of a run of each library, which take turns of seconds / rounds each, and slipway's
        error."""
        best, errors = {}, {}
        names = names or self._names
        for who in names:
            if who not in self._of:
                self._of[who] = Library(who, self._threads)
            errors[who] = self._of[who].load(base)
        for turn in range(rounds):
            for who in names if turn % 2 == 0 else reversed(names):
                best[who] = min(best.get(who, float("inf")), self._of[who].least(seconds / rounds))
        return {who: best[who] for who in names}, errors["slipway"]


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]))
