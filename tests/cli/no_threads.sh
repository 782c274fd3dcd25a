# Where the system gives no thread (ulimit -u, a container's limit), one suffices: the same results, no failure.
source "$ROOT/tests/cli/lib.bash"
if nm -D "$SLIPWAY" | grep -q __asan_init; then
  echo "not run: sanitizers take no other pthread_create"
  exit 0
fi
cat > none.c <<'C'
#include <errno.h>
#include <pthread.h>
int pthread_create(pthread_t* t, const pthread_attr_t* a, void* (*f)(void*), void* x) {
  (void)t, (void)a, (void)f, (void)x;
  return EAGAIN;
}
C
cc -shared -fPIC -Wall -Wextra -Werror none.c -o none.so
"$PYTHON" - <<'PYTHON'
import torch
from safetensors.torch import save_file
layers = [torch.nn.Linear(64, 64) for _ in range(4)]
model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2], layers[3]).eval()
torch.export.save(torch.export.export(model, (torch.randn(3, 64),)), "m.pt2")
save_file(model.state_dict(), "w.safetensors")
save_file({"input.0": torch.randn(3, 64)}, "i.safetensors")
PYTHON
mkdir many one
alone() { LD_PRELOAD="$PWD/none.so" slipway "$@"; }

for command in "quantize w.safetensors --config 8da4w:group=32 --threads 4 -q --to safetensors -o" \
  "quantize m.pt2 --config int8-weight-only --threads 4 -q --to pt2 -o" \
  "quantize m.pt2 --config gptq(int8-weight-only) --calibration i.safetensors --threads 4 -q --to pt2 -o" \
  "convert m.pt2 -q --to so -o" "convert m.pt2 -q --to onnx -o"; do
  expect 0 '' slipway $command many/m
  expect 0 '' alone $command one/m
  cmp many/m one/m
done
expect 0 '' slipway convert m.pt2 -o m.so -q
expect 0 '' slipway run m.so --threads 4 --inputs i.safetensors --outputs many.safetensors
expect 0 '' alone run m.so --threads 4 --inputs i.safetensors --outputs one.safetensors
cmp many.safetensors one.safetensors
expect 0 '' alone verify m.pt2 m.so --threads 4
expect 0 '' alone minify m.pt2 -o small --check '! grep -q addmm {ir} && ! grep -q linear {ir}' -j 4 -q
[ -s small/minified.pt2 ] || [ -n "$(ls small)" ] || fails "nothing was minified"
