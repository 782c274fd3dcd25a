# Python as pyproject.toml has it: its format, what ruff knows of mistakes, and the types of scripts/ (those of the
# package: tests/cli/wheel.sh).
types=$PWD/types
cd "$ROOT"
"$PYTHON" -m ruff format --no-cache --check .
"$PYTHON" -m ruff check --no-cache .
"$PYTHON" -m mypy --ignore-missing-imports --explicit-package-bases --cache-dir "$types" scripts/*.py
