# --weights dlpack:LIBRARY: the tensors of a library's memory, by name; and what libraries do wrong.
source "$ROOT/tests/cli/lib.bash"
mkdir out
compile() { cc -std=c11 -Wall -Wextra -Werror -shared -fPIC -I"$ROOT/include" "$1" -o "$2"; }
compile "$ROOT/samples/dlpack_producer/producer.c" producer.so

expect 0 'out/m.onnx' slipway convert net.sw --weights dlpack:./producer.so -o out/m.onnx
"$PYTHON" - <<'PYTHON'
import numpy, onnx
weights = [onnx.numpy_helper.to_array(w) for w in onnx.load("out/m.onnx").graph.initializer]
assert any(w.shape == (4, 8) and (w == numpy.arange(32).reshape(4, 8)).all() for w in weights), weights
assert any(w.shape == (4,) and (w == -numpy.arange(4)).all() for w in weights), weights
PYTHON
# A name alone is a file of the folder; a library's tensors are as good as a file's for other targets.
expect 0 'out/w.safetensors: 2 tensors' slipway convert dlpack:producer.so -o out/w.safetensors
"$PYTHON" -c '
import safetensors.numpy as s
w = s.load_file("out/w.safetensors")
assert w["fc.weight"][3][7] == 31 and w["fc.bias"][3] == -3, w'
rm out/*

expect 5 'nothing.so' slipway convert net.sw --weights dlpack:./nothing.so -o out/m.onnx
echo 'not a library' > text.so
expect 3 'text.so' slipway convert net.sw --weights dlpack:./text.so -o out/m.onnx
echo 'int other;' > other.c && compile other.c other.so
expect 3 'no function slipway_dlpack_next' slipway convert net.sw --weights dlpack:./other.so -o out/m.onnx

# Each failure names the tensor; every tensor is given back, and the last call comes, whatever happens.
cat > bad.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include "slipway/dlpack_producer.h"
static float numbers[4];
static int64_t shape[] = {4};
static int given, freed, ended;
static void release(DLManagedTensorVersioned* t) { ++freed; free(t); }
int slipway_dlpack_next(void** state, const char** name, DLManagedTensorVersioned** tensor) {
  (void)state;
  if (!tensor) {
    ++ended;
    if (getenv("REPORT")) fprintf(stderr, "given %d freed %d ended %d\n", given, freed, ended);
    return 0;
  }
  if (given == 2) return getenv("FAIL") ? (*name = "no more today", 7) : 0;
  DLManagedTensorVersioned* t = calloc(1, sizeof *t);
  t->version.major = getenv("MAJOR") ? 9 : 1;
  t->deleter = release;
  t->dl_tensor = (DLTensor){numbers, {getenv("GPU") ? kDLCUDA : kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, NULL, 0};
  *name = given++ && !getenv("TWICE") ? "second" : "fc.bias";
  if (getenv("NAMELESS")) *name = NULL;
  *tensor = t;
  return 0;
}
C
compile bad.c bad.so
bad() { expect 3 "$2" env "$1=1" slipway convert net.sw --allow-missing --weights dlpack:./bad.so -o out/m.onnx; }
bad TWICE "'fc.bias': two tensors have this name"
bad NAMELESS 'without a name'
bad FAIL 'failed with 7: no more today'
expect 4 "'fc.bias': .*device" env GPU=1 slipway convert net.sw --weights dlpack:./bad.so -o out/m.onnx
expect 4 "'fc.bias': .*DLPack 9" env MAJOR=1 slipway convert net.sw --weights dlpack:./bad.so -o out/m.onnx
expect 4 . env MAJOR=1 REPORT=1 slipway convert net.sw --weights dlpack:./bad.so -o out/m.onnx
grep -q 'given 1 freed 1 ended 1' stderr || fails "the refused tensor"
only
