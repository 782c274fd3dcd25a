#!/usr/bin/env bash
# Everything the tests need, then all of them: unit (gtest through ctest), golden texts, CLI, hostile inputs, interop
# with torch, onnx and onnxruntime. Suites may be named: tests/run.sh unit cli. The last line is "N passed, M failed".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"

DEBIAN_PACKAGES+=("${TEST_PACKAGES[@]}")
setup_packages
setup_onnx
setup_venv tests
setup_minilm
setup_fuzz
setup_build all
exec "$VENV/bin/python" "$ROOT/tests/runner.py" "$@"
