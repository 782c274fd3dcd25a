# The C sample against the shared library, under valgrind: no leak, no invalid access, two threads on two models; and
# what the library shows and needs.
source "$ROOT/tests/cli/lib.bash"
library=$(dirname "$SLIPWAY")/libslipway.so
warnings="-Wall -Wextra -Wpedantic -Werror"
cc -std=c11 -g -O1 $warnings "$ROOT/samples/c_api/share_weights.c" -I"$ROOT/include" -L"$(dirname "$library")" \
  -lslipway \
  -Wl,-rpath,"$(dirname "$library")" -pthread -o share_weights

./share_weights net.sw a.onnx b.onnx > stdout
grep -q 'fc.weight: the very same memory, read-only' stdout || fails "not shared: $(cat stdout)"
grep -q 'input x: f32\[B,8\]' stdout || fails "$(cat stdout)"
cmp a.onnx b.onnx
"$PYTHON" - <<'PYTHON'
import numpy, onnx
weights = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load("a.onnx").graph.initializer}
wanted = numpy.float32(0.001) * numpy.arange(32, dtype=numpy.float32)
assert any(w.shape == (4, 8) and (w.ravel() == wanted).all() for w in weights.values()), weights
PYTHON

# A status of the command line's, and what went wrong.
status=0; ./share_weights nothing.pt2 c.onnx d.onnx > /dev/null 2> stderr || status=$?
[ "$status" = 5 ] && grep -q 'SW3001' stderr || fails "exit $status"
[ ! -e c.onnx ] || fails "a file was written"

# Sanitizers and valgrind do not go together; nor does a valgrind with an emulated machine's programs.
valgrind -q ./share_weights > /dev/null 2> stderr || true
if ! nm -D "$library" | grep -q __asan_init && ! grep -q '^valgrind: failed to start tool' stderr; then
  valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,possible \
    ./share_weights net.sw a.onnx b.onnx > stdout 2> stderr ||
    fails "valgrind"
  valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,possible \
    ./share_weights nothing.pt2 a.onnx b.onnx > stdout 2> stderr &&
    fails "opened nothing" || [ $? = 5 ] || fails "valgrind"
fi

# Nothing but the API is visible, and nothing but the system's libraries is needed.
shown=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -v '^SLIPWAY_0$' | grep -v '^slipway_' || true)
[ -z "$shown" ] || nm -D "$library" | grep -q __asan_init || fails "visible: $shown"
declared=$(grep -ohE '\bslipway_[a-z_]+\(' "$ROOT/include/slipway/slipway.h" | tr -d '(' | sort -u \
  | grep -v '^slipway_dlpack_next$')
for name in $declared; do
  nm -D --defined-only "$library" | grep -qE " $name(@|\$)" || fails "$name is declared and not there"
done

# The headers are C and C++, alone, and with another dlpack.h before them.
printf '#include "slipway/slipway.h"\n#include "slipway/dlpack_producer.h"\n' > alone.c
cc -std=c99 $warnings -I"$ROOT/include" -c alone.c -o /dev/null
cp alone.c alone.cc
c++ -std=c++11 $warnings -I"$ROOT/include" -c alone.cc -o /dev/null
sed 's/SLIPWAY_DLPACK_H_/OTHER_H_/' "$ROOT/include/slipway/dlpack.h" > other_dlpack.h
printf '#include "other_dlpack.h"\n#include "slipway/slipway.h"\n' > after.c
cc -std=c99 $warnings -I. -I"$ROOT/include" -c after.c -o /dev/null
printf '#define DLPACK_DLPACK_H_\n#define DLPACK_VERSION 80\n#include "slipway/slipway.h"\n' > old.c
cc -I"$ROOT/include" -c old.c -o /dev/null 2> stderr && fails "an old dlpack.h was taken" || grep -q 'DLPack 1' stderr
