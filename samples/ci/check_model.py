#!/usr/bin/env python3
"""A model's check in CI: converts an exported program, compares the result with it, quantizes it within an error
budget, compares that, and reports sizes. Needs slipway on PATH, and a Python with onnxruntime and numpy for ONNX.

    python3 check_model.py model.pt2 -o build/model --error-budget 1% --atol 0.05 --summary "$GITHUB_STEP_SUMMARY"
    python3 check_model.py model.pt2 --digest            # a key for the CI's cache

OUT gets the models and, in OUT/reports, what each command said: COMMAND.json, COMMAND.xml (JUnit), slipway.sarif with
the diagnostics of all, metrics.txt (OpenMetrics) and summary.md. A folder that a run with the same digest has filled is
taken as it is. The exit code is that of the first command that failed; the others run all the same where they can.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys

STAMP = "digest.txt"


def arguments():
    parser = argparse.ArgumentParser(description="Converts, verifies and quantizes a model.")
    parser.add_argument("model", type=pathlib.Path, help="an exported program (.pt2)")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("model-out"), metavar="OUT")
    parser.add_argument("--to", default="onnx", choices=("onnx", "so"))
    parser.add_argument("--weights", type=pathlib.Path, metavar="FILE", help="weights of a program without its own")
    parser.add_argument("--error-budget", metavar="SHARE", help="quantize, with weights off by at most this: 1%%")
    parser.add_argument("--atol", default="0.05", help="that the quantized model's outputs may be off by (0.05)")
    parser.add_argument("--max-bytes", type=int, metavar="N", help="that the converted model may have")
    parser.add_argument("--summary", type=pathlib.Path, metavar="FILE", help="append the report as Markdown")
    parser.add_argument("--digest", action="store_true", help="print a digest of all that the result depends on")
    return parser.parse_args()


def digest_of(options):
    total = hashlib.sha256(subprocess.run(["slipway", "--version"], check=True, capture_output=True).stdout)
    total.update(pathlib.Path(__file__).read_bytes())
    for word in (options.to, options.error_budget, options.atol, options.max_bytes):
        total.update(f"{word}\0".encode())
    for file in filter(None, (options.model, options.weights)):
        total.update(file.stat().st_size.to_bytes(8, "little"))
        with open(file, "rb") as stream:
            while part := stream.read(1 << 20):
                total.update(part)
    return total.hexdigest()


class Check:
    def __init__(self, options):
        self.options, self.status = options, 0
        self.results, self.rules, self.tool = [], {}, {}  # of SARIF
        self.reports = options.output / "reports"
        self.reports.mkdir(parents=True, exist_ok=True)

    def run(self, name, *words):
        """A command with all reports that it has. Its JSON, None where it gave none."""
        sarif = self.reports / f"{name}.sarif"
        command = ["slipway", *map(str, words), "--json", "--sarif", str(sarif)]
        if words[0] in ("verify", "quantize"):
            command += ["--junit", str(self.reports / f"{name}.xml")]
        print("$", " ".join(command), flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        self.fails(done.returncode)
        if sarif.exists():
            [run] = json.loads(sarif.read_text())["runs"]
            sarif.unlink()
            self.tool = self.tool or run["tool"]["driver"]
            self.rules |= {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
            self.results += [{k: v for k, v in result.items() if k != "ruleIndex"} for result in run["results"]]
        (self.reports / f"{name}.json").write_text(done.stdout)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def write_sarif(self):
        """One run of all: code scanning takes one of a tool."""
        tool = {"driver": self.tool | {"rules": list(self.rules.values())}}
        schema = "https://json.schemastore.org/sarif-2.1.0.json"
        log = {"$schema": schema, "version": "2.1.0", "runs": [{"tool": tool, "results": self.results}]}
        (self.reports / "slipway.sarif").write_text(json.dumps(log))

    def fails(self, status):
        self.status = self.status or status


def check(c, options):
    """Rows of the report."""
    weights = ["--weights", options.weights] if options.weights else []
    model, rows = options.output / f"model.{options.to}", []
    whole = source = options.model
    if options.weights:  # what is compared with has them, too
        whole = options.output / "source.pt2"
        c.run("weights", "convert", source, "-o", whole, *weights)
    made = c.run("convert", "convert", whole, "-o", model)
    if not made:
        return rows
    same = c.run("verify", "verify", whole, model)
    rows.append((model, model.stat().st_size, "", bool(same and same["agree"])))
    if options.max_bytes and model.stat().st_size > options.max_bytes:
        print(f"{model} has {model.stat().st_size} bytes, more than {options.max_bytes}", file=sys.stderr)
        c.fails(1)
    if options.error_budget:
        quantized = options.output / f"quantized.{options.to}"
        budget = ["--config", "auto", "--error-budget", options.error_budget]
        config = options.output / "quantize.config.json"
        made = c.run("quantize", "quantize", whole, "-o", quantized, *budget, "--save-config", config)
        if made and quantized.exists():
            same = c.run("verify-quantized", "verify", whole, quantized, "--rtol", 0, "--atol", options.atol)
            error = f"{made['relative_error']:.2%}"
            rows.append((quantized, quantized.stat().st_size, error, bool(same and same["agree"])))
    lines = [f'slipway_bytes{{file="{path.name}"}} {size}' for path, size, _, _ in rows]
    (c.reports / "metrics.txt").write_text("\n".join([*lines, "# EOF", ""]))
    return rows


def markdown(options, rows):
    before = options.model.stat().st_size
    lines = [f"### {options.model.name}", "", "| file | bytes | of the program's | error of weights | outputs |"]
    lines += ["|---|---:|---:|---:|---|", f"| {options.model.name} | {before:,} | 100.0 % | | |"]
    for path, size, error, agrees in rows:
        outputs = "agree" if agrees else "**differ**"
        lines.append(f"| {path.name} | {size:,} | {size / before:.1%} | {error} | {outputs} |")
    return "\n".join(lines).replace("%", " %").replace("  %", " %") + "\n"


def main():
    options = arguments()
    digest = digest_of(options)
    if options.digest:
        print(digest)
        return 0
    stamp, kept = options.output / STAMP, options.output / "reports" / "summary.md"
    if stamp.exists() and stamp.read_text() == digest:
        print(f"{options.output} is of {digest}: nothing to do")
        status, text = 0, kept.read_text()
    else:
        stamp.unlink(missing_ok=True)
        c = Check(options)
        text = markdown(options, check(c, options))
        c.write_sarif()
        status = c.status
        kept.write_text(text)
        if status == 0:
            stamp.write_text(digest)
    print(text)
    if options.summary:
        with open(options.summary, "a") as file:
            file.write(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
