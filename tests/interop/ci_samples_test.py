"""samples/ci as far as a machine without GitHub and GitLab can run it: their YAML is read, and the commands of its
steps are run by bash with the variables and files that a runner gives. pip is a script that notes what it is asked
for."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import torch
import yaml
from conftest import ROOT
from safetensors.torch import save_file

pytestmark = pytest.mark.filterwarnings("ignore")
SAMPLES = ROOT / "samples" / "ci"


@torch.library.custom_op("ci_samples::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.second(self.first(x).relu())


class Runner:
    """What a step sees: a folder with the repository, tools on PATH, the environment."""

    def __init__(self, folder):
        self.folder, self.asked = folder, folder / "pip.log"
        tools = folder / "tools"
        tools.mkdir()
        binary = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway"))
        (tools / "slipway").symlink_to(binary)
        script = f'#!/bin/bash\nif [ "$1 $2" = "-m pip" ]; then echo "$@" >> "{self.asked}"; exit; fi\n'
        (tools / "python3").write_text(script + f'exec "{sys.executable}" "$@"\n')
        (tools / "python3").chmod(0o755)
        path = os.pathsep.join([str(tools), os.environ["PATH"]])
        cache = {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder)}
        self.environment = {**os.environ, **cache, "PATH": path, "NO_COLOR": "1"}
        torch.manual_seed(0)
        net = Net().eval()
        torch.export.save(torch.export.export(net, (torch.randn(3, 64),)), folder / "model.pt2")
        save_file(net.state_dict(), folder / "weights.safetensors")

    def bash(self, command, status=0, **environment):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=self.folder, env=self.environment | environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path)


def value(text, scope):
    """${{ a.b }} of a runner's expressions."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda m: scope[m[1]], text)


def run_action(runner, inputs, status=0):
    """The steps of action.yml; outputs as its caller sees them."""
    action = yaml.safe_load((SAMPLES / "action.yml").read_text())
    assert action["name"] and action["description"] and action["runs"]["using"] == "composite"
    assert inputs.keys() <= action["inputs"].keys()
    scope = {"github.action_path": str(SAMPLES)}
    for name, row in action["inputs"].items():
        assert row["description"] and (row.get("required") or "default" in row)
        scope[f"inputs.{name}"] = inputs.get(name, row.get("default"))
    output, summary = runner.folder / "output", runner.folder / "summary"
    used = []
    for i, step in enumerate(action["runs"]["steps"]):
        if "uses" in step:
            used.append((step["uses"], {k: value(v, scope) for k, v in step["with"].items()}))
            continue
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression in a script is an injection"
        output.write_text("")
        files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": "true"}
        variables = {k: value(v, scope) for k, v in step.get("env", {}).items()}
        last = i == len(action["runs"]["steps"]) - 1
        runner.bash(step["run"], status if last else 0, **files, **variables)
        for line in output.read_text().splitlines():
            key, text = line.split("=", 1)
            scope[f"steps.{step['id']}.outputs.{key}"] = text
    outputs = {name: value(row["value"], scope) for name, row in action["outputs"].items()}
    return outputs, used, summary.read_text()


def test_action(runner):
    outputs, used, summary = run_action(runner, {"model": "model.pt2", "error-budget": "1%"})
    [(name, cache)] = used
    assert name.startswith("actions/cache@") and cache == {
        "path": "model-out",
        "key": f"slipway-{outputs['digest']}",
    }
    assert runner.asked.read_text().split()[:4] == ["-m", "pip", "install", "slipway"]
    made = runner.folder / outputs["output"]
    assert (made / "model.onnx").stat().st_size > 2 * (made / "quantized.onnx").stat().st_size
    assert summary.count("agree") == 2 and "differ" not in summary and "quantized.onnx" in summary
    assert f"{(made / 'model.onnx').stat().st_size:,}" in summary
    reports = {p.name for p in (made / "reports").iterdir()}
    assert reports >= {"convert.json", "verify.xml", "quantize.xml", "verify-quantized.json", "metrics.txt"}
    [run] = json.loads((made / "reports" / "slipway.sarif").read_text())["runs"]
    assert run["results"] == [] and run["tool"]["driver"]["name"] == "slipway"
    assert ET.parse(made / "reports" / "verify.xml").getroot().get("failures") == "0"
    metrics = (made / "reports" / "metrics.txt").read_text()
    assert re.fullmatch(r'(slipway_bytes\{file="\w+\.onnx"\} \d+\n){2}# EOF\n', metrics)
    # From the cache: nothing is done again, the summary is there; another budget is another key.
    before = (made / "model.onnx").stat().st_mtime_ns
    again, _, summary = run_action(runner, {"model": "model.pt2", "error-budget": "1%"})
    assert again == outputs and (made / "model.onnx").stat().st_mtime_ns == before and summary.count("###") == 2
    other, _, _ = run_action(runner, {"model": "model.pt2", "error-budget": "2%"})
    assert other["digest"] != outputs["digest"]


def test_action_fails(runner):
    """No weight within the budget, outputs that are off, what does not convert: the exit code is the command's."""
    run_action(runner, {"model": "model.pt2", "error-budget": "0.00001%"}, status=3)
    _, _, summary = run_action(runner, {"model": "model.pt2", "error-budget": "10%", "atol": "1e-9"}, status=1)
    assert "**differ**" in summary.split("###")[-1]

    class Unsupported(torch.nn.Module):
        def forward(self, x):
            return torch.ops.ci_samples.twice(x)

    torch.export.save(torch.export.export(Unsupported(), (torch.randn(3, 3),)), runner.folder / "eig.pt2")
    run_action(runner, {"model": "eig.pt2"}, status=4)
    [run] = json.loads((runner.folder / "model-out" / "reports" / "slipway.sarif").read_text())["runs"]
    assert {r["ruleId"] for r in run["results"]} == {"SW2001"} == {r["id"] for r in run["tool"]["driver"]["rules"]}
    assert not (runner.folder / "model-out" / "digest.txt").exists()


def test_action_weights_and_library(runner):
    inputs = {"model": "model.pt2", "weights": "weights.safetensors", "to": "so", "output": "out"}
    outputs, _, summary = run_action(runner, inputs)
    assert outputs["output"] == "out" and (runner.folder / "out" / "model.so").exists() and "agree" in summary


def test_workflow(runner):
    """Its inputs are the action's; its own step runs; what it uploads is there."""
    flow = yaml.safe_load((SAMPLES / "github-workflow.yml").read_text())
    assert flow["permissions"]["contents"] == "read" and flow[True] == [
        "push",
        "pull_request",
    ]  # `on` is a bool in YAML
    uploaded = []
    for step in flow["jobs"]["model"]["steps"]:
        uses, given = step.get("uses", ""), step.get("with", {})
        if uses.startswith("OWNER/slipway/samples/ci@"):
            run_action(runner, given)
        elif "upload" in uses:
            uploaded.append(given.get("path") or given["sarif_file"])
        elif "run" in step:
            runner.bash(step["run"], **{k: str(v) for k, v in step["env"].items()})
            runner.bash(step["run"], status=1, MOST="10")
    assert len(uploaded) == 2 and all((runner.folder / path).exists() for path in uploaded)


def test_gitlab(runner):
    jobs = yaml.safe_load((SAMPLES / "gitlab-ci.yml").read_text())
    job = jobs["model"]
    (runner.folder / "ci").mkdir()
    shutil.copy(SAMPLES / "check_model.py", runner.folder / "ci")
    for line in [*job["before_script"], *job["script"]]:
        runner.bash(line, **job["variables"])
    assert all((runner.folder / file).exists() for file in job["cache"]["key"]["files"])
    reports = job["artifacts"]["reports"]
    assert len(list(runner.folder.glob(reports["junit"]))) == 3 and (runner.folder / reports["metrics"]).exists()


def test_pre_commit(runner):
    config = yaml.safe_load((SAMPLES / "pre-commit-config.yaml").read_text())
    [[hook]] = [repo["hooks"] for repo in config["repos"]]
    assert hook["language"] == "script" and re.search(hook["files"], "a/model.pt2")
    (runner.folder / "ci").mkdir()
    shutil.copy(SAMPLES / "pre_commit.sh", runner.folder / hook["entry"])
    runner.bash(f"{hook['entry']} model.pt2")
    assert not (runner.folder / "model.onnx").exists()
    data = bytearray((runner.folder / "model.pt2").read_bytes())
    data[len(data) // 2] ^= 1
    (runner.folder / "bad.pt2").write_bytes(data)
    runner.bash(f"{hook['entry']} model.pt2 bad.pt2", status=3)
