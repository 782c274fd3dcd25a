#!/usr/bin/env bash
# A pre-commit hook for exported programs: each file is read whole, its checksums compared, and what a conversion to
# ONNX would do is tried without writing. pre_commit.sh FILE…
set -euo pipefail
status=0
for file in "$@"; do
  slipway inspect "$file" --verify > /dev/null || status=$?
  slipway convert "$file" -o "${file%.*}.onnx" --dry-run -q || status=$?
done
exit "$status"
