#!/usr/bin/env bash
# From a fresh clone to a running ONNX model: gets the libraries, builds slipway, converts a real sentence-embedding
# model and compares two sentences with it. Every step says what it does and how long it took; a second run redoes only
# what changed. With arguments, compares those two sentences: samples/quickstart.sh "first sentence" "second sentence"
#
# It builds the program for this machine. `cmake -DSLIPWAY_ISAS=all -DSLIPWAY_AARCH64=ON build && cmake --build build`
# adds kernels for other processors, the tests and libslipway.so.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"
cd "$ROOT"

convert() {
  "$BUILD/slipway" convert samples/minilm.pt2 --weights "$DEPS/minilm/model.safetensors" -o "$BUILD/minilm.onnx"
}

downloads() {
  setup_minilm
  setup_venv samples
}

setup_packages
make_venv
mkdir -p "$LOGS"
downloads >"$LOGS/downloads" 2>&1 &  # while the compiler works
trap 'kill %1 2>/dev/null || true' EXIT
setup_onnx
setup_build slipway
wait %1 || fail "$(cat "$LOGS/downloads")"
cat "$LOGS/downloads"
step "samples/minilm.pt2 + model.safetensors -> build/minilm.onnx" convert
"$VENV/bin/python" samples/minilm_similarity.py "$BUILD/minilm.onnx" "$DEPS/minilm/vocab.txt" "$@"
