# An input that another process cuts short or rewrites while it is read: exit 3 with the file's name as the last line,
# never a crash, and no output. A library that is loaded first does it at a known moment: when the file has been gone
# into.
source "$ROOT/tests/cli/lib.bash"
cat > change.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
// Once, at the first call of AT: the file VICTIM loses its second half (HOW=cut), or is written to, the same byte
// (HOW=touch), or is linked, gets other permissions and another name (HOW=move).
static void change(const char* call) {
  static int done;
  const char *victim = getenv("VICTIM"), *at = getenv("AT");
  if (done || !victim || !at || strcmp(at, call) != 0) return;
  done = 1;
  if (strcmp(getenv("HOW"), "move") == 0) {
    if (link(victim, "link") != 0 || chmod(victim, 0600) != 0 || rename(victim, "moved") != 0) _exit(97);
    return;
  }
  const int fd = open(victim, O_RDWR);
  char byte;
  if (read(fd, &byte, 1) != 1) _exit(98);
  const off_t size = lseek(fd, 0, SEEK_END);
  if (strcmp(getenv("HOW"), "cut") == 0 ? ftruncate(fd, size / 2) != 0 : pwrite(fd, &byte, 1, 0) != 1) _exit(99);
  close(fd);
}
#define NEXT(name) typeof(name)* next = (typeof(name)*)dlsym(RTLD_NEXT, #name)
int madvise(void* p, size_t n, int advice) {
  NEXT(madvise);
  change("madvise");
  return next(p, n, advice);
}
ssize_t pread(int fd, void* p, size_t n, off_t at) {
  NEXT(pread);
  change("pread");
  return next(fd, p, n, at);
}
ssize_t copy_file_range(int in, off_t* a, int out, off_t* b, size_t n, unsigned f) {
  NEXT(copy_file_range);
  change("copy_file_range");
  return next(in, a, out, b, n, f);
}
void* dlopen(const char* file, int flags) {
  NEXT(dlopen);
  void* library = next(file, flags);
  change("dlopen");
  return library;
}
int fallocate(int fd, int mode, off_t at, off_t n) {
  NEXT(fallocate);
  change("fallocate");
  return next(fd, mode, at, n);
}
C
cc -std=gnu11 -shared -fPIC -Wall -Wextra change.c -o change.so -ldl
head -c 60000000 /dev/urandom > weights.bin
cat > big.sw <<'SW'
slipway.ir 1
weights { $v: f32[3000, 2500] @ "weights.bin"+0  $w: f32[3000, 2500] @ "weights.bin"+30000000 }
graph main(%v: f32[3000, 2500] = parameter $v, %w: f32[3000, 2500] = parameter $w, %x: f32[3, 3000]) {
  %y: f32[3, 2500] = aten.mm.default(self=%x, mat2=%v)
  %z: f32[3, 2500] = aten.mm.default(self=%x, mat2=%w)
  %r: f32[3, 2500] = aten.add.Tensor(self=%y, other=%z)
  return %r
}
SW
slipway convert big.sw -o whole.pt2 -q
slipway convert big.sw -o whole.safetensors -q
slipway convert big.sw -o whole.so -q
cp whole.safetensors other.safetensors
mkdir out

# changed VICTIM AT HOW COMMAND...
changed() {
  local victim=$1 at=$2 how=$3
  shift 3
  cp "whole.${victim##*.}" "$victim"
  echo kept > out/kept
  expect 3 "^(error\[SW1001\]|.\"severity\":\"error\",\"id\":\"SW1001\").*$victim changed while it was read" \
    env LD_PRELOAD="$PWD/change.so" VICTIM="$victim" AT="$at" HOW="$how" "$@"
  only kept
}
for how in cut touch; do
  changed in.pt2 madvise $how slipway inspect in.pt2 --verify
  changed in.safetensors madvise $how slipway diff in.safetensors other.safetensors
  changed in.safetensors madvise $how slipway diff other.safetensors in.safetensors
  changed in.pt2 pread $how slipway convert in.pt2 -o out/m.onnx
  changed in.pt2 pread $how slipway convert in.pt2 -o out/m.onnx --external-data always
  changed in.pt2 fallocate $how slipway convert in.pt2 -o out/m.so  # packed from the mapping
  changed in.pt2 fallocate $how slipway convert in.pt2 -o out/m.pt2 --to native-pt2
  changed in.pt2 fallocate $how slipway convert in.pt2 -o out/m.pt2
  changed in.pt2 fallocate $how slipway convert in.pt2 -o out/m.pt2 --torch 2.6
  changed in.safetensors fallocate $how slipway convert in.safetensors -o out/m.safetensors
  changed in.safetensors fallocate $how slipway convert in.safetensors -o out/m.safetensors --dtype f16
  changed in.safetensors fallocate $how slipway convert in.safetensors -o out/m.safetensors --rename 'v=>u'
done
# A library that is run: the dynamic linker has mapped it.
"$PYTHON" -c '
import json, struct
h = json.dumps({"input.0": {"dtype": "F32", "shape": [3, 3000], "data_offsets": [0, 36000]}}).encode()
open("x.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + bytes(36000))'
for how in cut touch; do changed in.so dlopen $how \
  slipway run in.so --inputs x.safetensors --outputs out/y.safetensors; done
changed in.pt2 madvise cut slipway inspect in.pt2 --verify --diagnostics json
"$PYTHON" -c '
import json
d = json.loads(open("stderr").readlines()[-1])
assert d["id"] == "SW1001" and d["cause"].startswith("in.pt2"), d'
# Through the kernel: the weights lie on a page in both files.
cp weights.bin whole.bin
slipway inspect big.sw --ir > in.sw
sed -i 's/"weights.bin"/"in.bin"/' in.sw
changed in.bin copy_file_range cut slipway convert in.sw -o out/m.onnx --external-data always
changed in.bin copy_file_range touch slipway convert in.sw -o out/m.onnx --external-data always

# Moved away, linked or with other permissions it is the same file.
slipway convert whole.pt2 -o before.onnx -q
cp whole.pt2 in.pt2
LD_PRELOAD="$PWD/change.so" VICTIM=in.pt2 AT=pread HOW=move slipway convert in.pt2 -o out/m.onnx -q
cmp whole.pt2 moved
cmp before.onnx out/m.onnx
