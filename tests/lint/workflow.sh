# The workflow is YAML with two jobs: one runs .ci/run, the other builds the wheel. Templates of issues begin as GitHub
# wants them to, and the changelog has this version.
cd "$ROOT"
"$PYTHON" - <<'END'
import pathlib
import re

import yaml

flow = yaml.safe_load(pathlib.Path(".github/workflows/ci.yml").read_text())
assert set(flow["jobs"]) == {"test", "wheel"}, flow["jobs"].keys()
commands = {name: [step.get("run") for step in job["steps"]] for name, job in flow["jobs"].items()}
assert ".ci/run" in commands["test"] and "scripts/build_wheel.sh" in commands["wheel"], commands
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
