# What the system refuses is exit 5, memory 6, whatever the call and the errno: never "bad input" (3), "not supported"
# (4) or "a bug in slipway" (70). A library that is loaded first fails the calls on what is called "faulty"; the old
# file stays.
source "$ROOT/tests/cli/lib.bash"
cat > inject.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
// FAULT is "call errno".
static int fault(const char* call, const char* path) {
  const char* spec = getenv("FAULT");
  const size_t n = strlen(call);
  if (!spec || !path || !strstr(path, "faulty") || strncmp(spec, call, n) != 0 || spec[n] != ' ') return 0;
  errno = atoi(spec + n + 1);
  return 1;
}
static int fault_fd(const char* call, int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return fault(call, path);
}
#define WRAP(type, name, parameters, test, arguments)                                      \
  type name parameters {                                                                   \
    static type (*next) parameters;                                                        \
    if (!next) next = (type(*) parameters)dlsym(RTLD_NEXT, #name);                         \
    return test ? (type)-1 : next arguments;                                               \
  }
WRAP(ssize_t, write, (int fd, const void* p, size_t n), fault_fd("write", fd), (fd, p, n))
WRAP(ssize_t, pread, (int fd, void* p, size_t n, off_t at), fault_fd("pread", fd), (fd, p, n, at))
WRAP(ssize_t, copy_file_range, (int in, off_t* a, int out, off_t* b, size_t n, unsigned f),
  fault_fd("copy_file_range", out), (in, a, out, b, n, f))
WRAP(int, rename, (const char* a, const char* b), fault("rename", b), (a, b))
WRAP(int, mkdir, (const char* path, mode_t mode), fault("mkdir", path), (path, mode))
WRAP(int, fchmod, (int fd, mode_t mode), fault_fd("fchmod", fd), (fd, mode))
WRAP(int, close, (int fd), fault_fd("close", fd), (fd))
WRAP(void*, mmap, (void* p, size_t n, int prot, int flags, int fd, off_t at),
  fault_fd("mmap", fd), (p, n, prot, flags, fd, at))
int open(const char* path, int flags, ...) {
  static int (*next)(const char*, int, ...);
  if (!next) next = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, int);
  va_end(list);
  return fault("open", path) ? -1 : next(path, flags, mode);
}
C
cc -shared -fPIC -Wall -Wextra -Wno-nonnull-compare inject.c -o inject.so -ldl
head -c 8000000 /dev/zero > big.bin
cat > big.sw <<'SW'
slipway.ir 1
weights { $w: f32[2000000] @ "big.bin"+0 }
graph main(%w: f32[2000000] = parameter $w, %x: f32[2000000]) {
  %y: f32[2000000] = aten.add.Tensor(self=%x, other=%w)
  return %y
}
SW
mkdir faulty faulty.in
cp big.sw big.bin faulty.in
number() { "$PYTHON" -c "import errno; print(errno.$1)"; }
refused() {  # STATUS CALL ERRNO ARGUMENT...
  local status=$1 call=$2 name=$3
  shift 3
  echo old > faulty/m.onnx
  local fault
  fault="$call $(number "$name")"
  expect "$status" "SW$([ "$status" = 5 ] && echo 3001 || echo 4001)" env LD_PRELOAD="$PWD/inject.so" FAULT="$fault" \
    slipway convert "$@"
  [ "$(ls -A faulty)" = m.onnx ] && [ "$(cat faulty/m.onnx)" = old ] || fails "$fault: $(ls -A faulty)"
}
for name in EIO ENOSPC EDQUOT EFBIG EPERM EBADF; do refused 5 write $name big.sw -o faulty/m.onnx; done
for name in EIO ENOSPC EDQUOT EFBIG EACCES; do refused 5 copy_file_range $name big.sw -o faulty/m.onnx \
  --external-data always; done
for name in EIO EISDIR ESTALE; do refused 5 pread $name faulty.in/big.sw -o out.safetensors; done
for name in EIO EACCES EXDEV EBUSY ENOSPC EROFS EISDIR ENOTDIR; do refused 5 rename $name big.sw -o faulty/m.onnx; done
for name in EIO ENOSPC EROFS EMLINK ELOOP ENOTDIR ENAMETOOLONG; do refused 5 mkdir $name big.sw -o faulty/shards/ \
  --shards 1; done
for name in EIO EROFS; do refused 5 fchmod $name big.sw -o faulty/m.onnx; done
for name in EIO ENOSPC EDQUOT; do refused 5 close $name big.sw -o faulty/m.onnx; done
for name in EMFILE ENFILE EACCES ENOTDIR ELOOP ENAMETOOLONG EIO EBUSY ESTALE ENXIO EOVERFLOW EROFS; do
  refused 5 open $name faulty.in/big.sw -o out.safetensors
  refused 5 open $name big.sw -o faulty/m.onnx
done
refused 6 open ENOMEM big.sw -o faulty/m.onnx
refused 6 write ENOMEM big.sw -o faulty/m.onnx
refused 6 mmap ENOMEM faulty.in/big.sw -o out.safetensors
for name in EAGAIN ENODEV EACCES; do refused 5 mmap $name faulty.in/big.sw -o out.safetensors; done

# Without the library: a link that leads to itself, a path through a file, a name that is too long.
ln -s loop loop
expect 5 'SW3001.*loop' slipway convert net.sw -o loop --to onnx
expect 5 'SW3001.*loop' slipway convert loop -o m.onnx
expect 5 'SW3001' slipway convert net.sw -o net.sw/m.onnx
expect 5 'SW3001' slipway convert net.sw/in.pt2 -o m.onnx
expect 5 'SW3001' slipway convert net.sw -o "$(printf 'x%.0s' {1..300}).onnx"
