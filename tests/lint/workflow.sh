# The workflow is YAML with a job for each tier of the tests and one for the wheel; its matrix of groups is what
# tests/groups.py prints. Templates of issues begin as GitHub
# wants them to, and the changelog has this version.
cd "$ROOT"
"$PYTHON" - <<'END'
import json
import pathlib
import re
import subprocess
import sys

import yaml

sys.path.insert(0, "tests")
import groups

flow = yaml.safe_load(pathlib.Path(".github/workflows/ci.yml").read_text())
assert set(flow["jobs"]) == {"lint", "change", "group", "wheel"}, flow["jobs"].keys()
commands = {name: [step.get("run") for step in job["steps"]] for name, job in flow["jobs"].items()}
assert "tests/run.sh lint" in commands["lint"] and "tests/run.sh change" in commands["change"], commands
assert "scripts/build_wheel.sh" in commands["wheel"], commands
listed = subprocess.run([sys.executable, "tests/groups.py", "--all"], check=True, capture_output=True).stdout
assert all(pathlib.Path("tests", test).exists() for g in json.loads(listed) for test in groups.GROUPS[g].tests), listed
for command in sum(commands.values(), []):
    for path in re.findall(r"(?:^|\s)((?:\.ci|scripts|tests)/\S+)", command or ""):
        assert pathlib.Path(path).stat().st_mode & 0o100, f"{path} cannot be run"
for path in pathlib.Path(".github/ISSUE_TEMPLATE").glob("*.md"):
    _, head, body = path.read_text().split("---\n", 2)
    head = yaml.safe_load(head)
    assert head["name"] and head["about"] and body.strip(), path
version = pathlib.Path("VERSION").read_text().strip()
assert f"## [{version}]" in pathlib.Path("CHANGELOG.md").read_text(), f"CHANGELOG.md has no section {version}"
END
