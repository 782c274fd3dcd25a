# Python as pyproject.toml has it: its format, and what ruff knows of mistakes. The types: tests/cli/wheel.sh.
cd "$ROOT"
"$PYTHON" -m ruff format --no-cache --check .
"$PYTHON" -m ruff check --no-cache .
