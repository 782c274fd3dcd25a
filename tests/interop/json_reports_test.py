"""Every --json of every command against its schema, diagnostics as JSON lines and SARIF, and JUnit reports."""

import json
import re
import xml.etree.ElementTree as ET

import pytest
import torch
from conftest import ROOT
from json_schema import conform
from safetensors.torch import save_file

pytestmark = pytest.mark.filterwarnings("ignore")


@torch.library.custom_op("json_reports::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 32)
        self.first = torch.nn.Linear(32, 48)
        self.second = torch.nn.Linear(48, 32)

    def forward(self, i):
        return self.second(self.first(self.embed(i)).relu())


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    net, i = Net().eval(), torch.tensor([[1, 2, 3]])
    torch.export.save(torch.export.export(net, (i,)), folder / "m.pt2")
    with torch.no_grad():
        net.second.weight.add_(0.5)
    torch.export.save(torch.export.export(net, (i,)), folder / "other.pt2")
    save_file({"input.0": i}, folder / "in.safetensors")
    save_file(net.state_dict(), folder / "w.safetensors")
    (folder / "bad.pt2").write_bytes(b"PK\3\4 and no archive")
    return folder


def commands(folder, out):
    """Command lines with --json, and their exit codes; several of a command where the reports have other fields."""
    m, w = folder / "m.pt2", folder / "w.safetensors"
    return {
        "convert": [(0, m, "-o", out / "m.onnx"), (0, w, "-o", out / "w.safetensors", "--dry-run")],
        "diff": [(0, m, m), (1, m, folder / "other.pt2")],
        "doctor": [(None,)],
        "explain": [(0,), (0, "SW1010")],
        "inspect": [(0, m), (0, w)],
        "minify": [(0, m, "-o", out / "small", "--check", "! grep -q aten.relu {ir}", "--max-probes", "30")],
        "quantize": [
            (0, m, "-o", out / "q.pt2", "--config", "int8-weight-only"),
            (0, w, "-o", out / "q.safetensors", "--config", "auto", "--error-budget", "5%"),
            (1, w, "-o", out / "r.safetensors", "--config", "int4-weight-only:group=32", "--require-all"),
        ],
        "run": [
            (0, m, "--inputs", folder / "in.safetensors", "--outputs", out / "o.safetensors", "--profile"),
            (0, m, "--inputs", folder / "in.safetensors", "--outputs", out / "o.safetensors", "--repeat", "2"),
        ],
        "shapes": [(0, m)],
        "unpack": [(0, m, "-o", out / "parts"), (0, m, "-o", out / "none", "--dry-run")],
        "verify": [(0, m, m), (1, m, folder / "other.pt2", "--layers")],
    }


def with_json(slipway):
    """The commands whose help has --json."""
    page = slipway("man").stdout
    parts = re.split(r"^\.SS slipway (\S+)$", page, flags=re.M)[1:]
    return {name for name, part in zip(parts[::2], parts[1::2]) if r"\fB\-\-json\fR" in part}


def test_every_report(slipway, models, tmp_path):
    lines = commands(models, tmp_path)
    assert with_json(slipway) == lines.keys()
    for command, rows in lines.items():
        for status, *arguments in rows:
            if status is None:  # as this machine is
                status = 0 if json.loads(doctor(slipway)[1])["problems"] == [] else 1
            done = slipway(command, *arguments, "--json", status=status)
            report = json.loads(done.stdout)
            assert report["version"] == 1, command
            conform(report, command)


def doctor(slipway, *arguments):
    for status in (0, 1):
        try:
            return status, slipway("doctor", "--json", *arguments, status=status).stdout
        except AssertionError:
            if status == 1:
                raise


def test_schemas_are_closed():
    """A field that a schema does not name is an error, so that the test above sees each."""

    def walk(part, place):
        if isinstance(part, dict):
            if part.get("type") == "object" and "properties" in part:
                assert part.get("additionalProperties") is False, place
                assert set(part.get("required", ())) <= set(part["properties"]), place
            for key, item in part.items():
                walk(item, f"{place}.{key}")

    for path in sorted((ROOT / "schemas").glob("*.schema.json")):
        schema = json.loads(path.read_text())
        walk(schema, path.name)
        if path.name != "diagnostic.schema.json":
            assert "version" in schema["required"] and schema["properties"]["version"]["const"] == 1, path.name


def test_contents(slipway, models, tmp_path):
    """What the reports say, not only how."""
    small = ("minify", models / "m.pt2", "-o", tmp_path / "small", "--check", "! grep -q aten.relu {ir}", "--json")
    report = json.loads(slipway(*small).stdout)
    assert report["nodes"] == 1 < report["nodes_before"] and report["asked"] == report["probes"] > 0
    again = json.loads(slipway(*small).stdout)  # from the log
    assert again["asked"] < report["asked"] and again["nodes"] == 1
    slipway("convert", f"a={models / 'm.pt2'}", f"b={models / 'other.pt2'}", "-o", tmp_path / "two.pt2")
    report = json.loads(slipway("unpack", tmp_path / "two.pt2", "-o", tmp_path / "parts", "--json").stdout)
    assert report["files"] == [str(tmp_path / "parts" / n) for n in ("a.pt2", "b.pt2")] and report["notes"] == []
    assert report["bytes_written"] == sum((tmp_path / "parts" / n).stat().st_size for n in ("a.pt2", "b.pt2"))
    [row] = json.loads(slipway("explain", "SW6001", "--json").stdout)["diagnostics"]
    assert row["id"] == "SW6001" and row["exit_code"] == 1


def test_doctor(slipway, tmp_path, monkeypatch):
    status, text = doctor(slipway)
    report = json.loads(text)
    assert status == bool(report["problems"]) and report["processor"]["used"] in report["processor"]["supported"]
    # Each problem is found, and has a next step.
    monkeypatch.setenv("SLIPWAY_ISA", "sse9")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "slipway").mkdir(mode=0o777)
    (tmp_path / "slipway").chmod(0o777)
    (tmp_path / "slipway" / "a.so").write_bytes(bytes(100))
    done = slipway("doctor", "--python", tmp_path / "nothing", "--json", status=1)
    report = json.loads(done.stdout)
    assert report["cache"] == {"path": str(tmp_path / "slipway"), "exists": True, "files": 1, "bytes": 100}
    causes = [p["cause"] for p in report["problems"]]
    assert len(causes) == 4 and all(p["help"] for p in report["problems"])
    for cause, word in zip(causes, ("SLIPWAY_ISA", "onnxruntime", "cache", "none")):
        assert word in cause, causes
    assert "SW6201" in done.stderr
    monkeypatch.setenv("SLIPWAY_ISA", "v2")
    report = json.loads(slipway("doctor", "--python", tmp_path / "nothing", "--json", status=1).stdout)
    assert report["processor"]["used"] == report["processor"]["cap"] == "v2"
    table = slipway("doctor", "--python", tmp_path / "nothing", status=1).stdout
    assert "compiler" in table and table.count("problem: ") == 3


def test_diagnostics(slipway, models, tmp_path):
    done = slipway("inspect", models / "bad.pt2", "--diagnostics", "json", status=3)
    for line in done.stderr.splitlines():
        conform(json.loads(line), "diagnostic")


# ---- SARIF


def sarif(path):
    """The results of a file, which is as the parts of SARIF 2.1.0 that it uses must be."""
    log = json.loads(path.read_text())
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "slipway" and re.fullmatch(r"\d+\.\d+\.\d+.*", driver["version"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == sorted(set(ids)) and ids == sorted({r["ruleId"] for r in run["results"]})
    for rule in driver["rules"]:
        assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))
        assert rule["defaultConfiguration"]["level"] in ("error", "warning")
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"] and result["message"]["text"]
        assert result["level"] in ("error", "warning", "note")
        for location in result.get("locations", []):
            assert location.keys() <= {"physicalLocation", "logicalLocations"} and location
    [invocation] = run["invocations"]
    return run["results"], invocation["exitCode"], invocation["executionSuccessful"]


def test_sarif(slipway, models, tmp_path, monkeypatch):
    """Operators that are not supported stand at the lines of the model's source that call them."""
    here = ROOT / "tests" / "interop"
    monkeypatch.chdir(here)  # locations are relative to it

    class Unsupported(torch.nn.Module):
        def forward(self, x):
            return torch.ops.json_reports.twice(x)  # this line

    line = 1 + next(i for i, text in enumerate(open(__file__)) if text.endswith("# this line\n"))
    program = tmp_path / "eig.pt2"
    torch.export.save(torch.export.export(Unsupported(), (torch.randn(3, 3),)), program)
    file = tmp_path / "d.sarif"
    slipway("convert", program, "-o", tmp_path / "m.onnx", "--sarif", file, status=4)
    results, code, good = sarif(file)
    assert code == 4 and not good and {r["ruleId"] for r in results} == {"SW2001"}
    [location] = results[0]["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "json_reports_test.py", "uriBaseId": "%SRCROOT%"}
    assert physical["region"] == {"startLine": line}
    # A file at fault is the location, elsewhere with its whole path.
    slipway("inspect", models / "bad.pt2", "--sarif", file, status=3)
    [result], _, _ = sarif(file)
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.startswith("file:///") and uri.endswith("/bad.pt2")
    # Nothing to say, a usage error, an answer.
    slipway("inspect", models / "m.pt2", "--sarif", file)
    assert sarif(file) == ([], 0, True)
    slipway("inspect", models / "m.pt2", "--sarif", file, "--frobnicate", status=2)
    assert sarif(file)[0][0]["ruleId"] == "SW1003"
    slipway("verify", models / "m.pt2", models / "other.pt2", f"--sarif={file}", status=1)
    assert sarif(file)[0][-1]["ruleId"] == "SW6001" and sarif(file)[1] == 1


def test_sarif_takes_no_place(slipway, models, tmp_path):
    before = (models / "w.safetensors").read_bytes()
    for words in (
        ("-o", tmp_path / "o.onnx", "--weights", models / "w.safetensors", "--sarif", models / "w.safetensors"),
        ("-o", tmp_path / "o.onnx", f"--sarif={tmp_path / 'o.onnx'}"),
        (f"-o{tmp_path / 'o.onnx'}", "--sarif", tmp_path / "o.onnx"),
    ):
        done = slipway("convert", models / "m.pt2", *words, status=2)
        assert "would take the place of" in done.stderr and not (tmp_path / "o.onnx").exists()
    assert (models / "w.safetensors").read_bytes() == before
    done = slipway("inspect", models / "m.pt2", "--sarif", tmp_path / "none" / "d.sarif", status=5)
    assert "SW3001" in done.stderr


# ---- JUnit


def junit(path):
    """(name, classname, what became of it) of each case; the counts are theirs."""
    suites = ET.parse(path).getroot()
    assert suites.tag == "testsuites"
    [suite] = suites
    cases = []
    for case in suite:
        assert case.tag == "testcase"
        kinds = [part.tag for part in case if part.tag != "system-out"]
        assert len(kinds) <= 1
        cases.append((case.get("name"), case.get("classname"), kinds[0] if kinds else "passed"))
    for element in (suites, suite):
        assert int(element.get("tests")) == len(cases)
        for attribute, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.get(attribute)) == sum(c[2] == kind for c in cases)
    return cases


def test_junit_of_verify(slipway, models, tmp_path):
    file = tmp_path / "v.xml"
    slipway("verify", models / "m.pt2", models / "m.pt2", "--sweep", "2", "--junit", file)
    assert junit(file) and {kind for _, _, kind in junit(file)} == {"passed"}
    slipway("verify", models / "m.pt2", models / "other.pt2", "--layers", "--junit", file, status=1)
    assert [kind for _, _, kind in junit(file)] == ["failure", "failure"]
    [failure, layers] = ET.parse(file).getroot().iter("failure")
    assert failure.get("type") == "SW6001" and failure.get("message").startswith("max abs ")
    assert "first to differ" in layers.get("message")
    slipway("verify", models / "m.pt2", models / "bad.pt2", "--junit", file, status=3)
    assert [kind for _, _, kind in junit(file)] == ["error"]
    [error] = ET.parse(file).getroot().iter("error")
    assert error.get("type") == "SW1001" and "bad.pt2" in error.text
    same = (models / "m.pt2").read_bytes()
    slipway("verify", models / "m.pt2", models / "m.pt2", "--junit", models / "m.pt2", status=2)
    assert (models / "m.pt2").read_bytes() == same


def test_junit_of_quantize(slipway, models, tmp_path):
    file, out = tmp_path / "q.xml", tmp_path / "q.safetensors"
    w = models / "w.safetensors"
    slipway("quantize", w, "-o", out, "--config", "int8-weight-only", "--junit", file)
    assert sorted(junit(file)) == [
        ("embed.weight", "float", "skipped"),
        ("first.weight", "int8-weight-only", "passed"),
        ("second.weight", "int8-weight-only", "passed"),
    ]
    assert "relative error" in next(ET.parse(file).getroot().iter("system-out")).text
    out.unlink()
    line = ("quantize", w, "-o", out, "--config", "int4-weight-only:group=32", "--require-all", "--junit", file)
    slipway(*line, status=1)
    assert {name: kind for name, _, kind in junit(file)} == {
        "embed.weight": "skipped",
        "first.weight": "passed",
        "second.weight": "failure",  # 48 features are not in groups of 32
    }
    assert not out.exists()
    slipway("quantize", w, "-o", out, "--config", "auto", "--size-budget", "100", "--junit", file, status=1)
    assert "failure" in {kind for _, _, kind in junit(file)}
    slipway("convert", models / "bad.pt2", "-o", tmp_path / "m.so", "--quantize", "int8-weight-only", "--junit", file,
            status=3)  # fmt: skip
    assert [kind for _, _, kind in junit(file)] == ["error"]
    before = w.read_bytes()
    slipway("quantize", w, "-o", out, "--config", "int8-weight-only", "--junit", w, status=2)
    slipway("quantize", w, "-o", out, "--config", "int8-weight-only", "--junit", out, status=2)
    assert w.read_bytes() == before and not out.exists()
    one = file.with_name("again.xml")
    for path in (file, one):
        slipway("quantize", w, "-o", out, "--config", "int8-weight-only", "--junit", path)
    assert file.read_bytes() == one.read_bytes()


def test_exit_codes_are_one_table(slipway):
    """docs/cli.md (by flags_doc, which a golden test compares), the manual page, and what the enum has."""
    codes = re.findall(r"^\| (\d+) \| (.*) \|$", (ROOT / "docs" / "cli.md").read_text(), re.M)
    status = slipway("man").stdout.split(".SH EXIT STATUS\n")[1]
    assert re.findall(r"^\.TP\n(\d+)\n(.*)$", status, re.M) == codes
    enum = re.search(r"enum ExitCode : int \{(.*?)\}", (ROOT / "driver" / "edge" / "diagnostic.h").read_text())[1]
    assert re.findall(r"= (\d+)", enum) == [code for code, _ in codes]
