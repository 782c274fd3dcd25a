#!/usr/bin/env bash
# Everything the tests need, then tests: without arguments those that every change should pass (unit, golden texts, CLI,
# hostile inputs, interop with torch, onnx and onnxruntime, and lint). Suites, groups and single tests may be named, and
# "all": tests/runner.py says which there are. The last line is "N passed, M failed: what ran".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"

DEBIAN_PACKAGES+=("${TEST_PACKAGES[@]}")
setup_packages
setup_venv tests
exec "$VENV/bin/python" "$ROOT/tests/runner.py" --set-up "$@"
