"""Digests of what a build makes of a folder of programs, one line each: run before and after a change that is to change
no output, then compare the two files with diff.

    python scripts/hash_outputs.py FOLDER build/slipway > before.txt

For each NAME.pt2: the ONNX model, the written-back .pt2, the checkpoint and the plan with the weights that a library
holds (its code aside, which is the build's own), as `NAME KIND SHA256` or `NAME KIND exit N`; and the results of a run
on NAME.safetensors, where that is there.
"""

import argparse
import concurrent.futures
import hashlib
import pathlib
import subprocess
import tempfile

KINDS = {"onnx": "m.onnx", "pt2": "m.pt2", "safetensors": "m.safetensors", "so": "m.so"}
SECTION = ".slipway_payload"


def payload(library, scratch):
    """The section of a library that its plan and weights are in (runtime/payload.S)."""
    out = scratch / "payload"
    subprocess.run(["objcopy", "-O", "binary", f"--only-section={SECTION}", library, out], check=True)
    return out.read_bytes()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def lines(binary, program):
    name = program.stem
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)

        def call(*arguments):
            return subprocess.run([binary, *arguments], cwd=scratch, capture_output=True, timeout=600).returncode

        for kind, output in KINDS.items():
            status = call("convert", program, "-o", output, "--to", kind, "-q")
            files = sorted(scratch.glob("m.*"))
            if status == 0:
                data = [payload(f, scratch) if kind == "so" else f.read_bytes() for f in files]
                yield f"{name} {kind} {digest(b''.join(data))}"
            else:
                yield f"{name} {kind} exit {status}"
            for file in files:
                file.unlink()
        if (inputs := program.with_suffix(".safetensors")).exists():
            status = call("run", program, "--inputs", inputs, "--outputs", "o.safetensors")
            yield f"{name} run {digest((scratch / 'o.safetensors').read_bytes()) if status == 0 else f'exit {status}'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--match", default="*", help="glob of names")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    programs = sorted(arguments.folder.resolve().glob(arguments.match + ".pt2"))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for found in pool.map(lambda p: list(lines(arguments.binary.resolve(), p)), programs):
            print("\n".join(found), flush=True)


if __name__ == "__main__":
    main()
