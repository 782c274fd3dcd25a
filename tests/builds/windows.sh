# base, io, ir, kernels and runtime as they would be compiled for Windows: what does not lie in a folder posix/ needs no
# POSIX header. MinGW-w64's GCC reads them with the flags of the preset release; nothing is linked or run.
source "$ROOT/tests/builds/lib.bash"
compiler=x86_64-w64-mingw32-g++-posix  # whose standard library has threads
needs g++-mingw-w64-x86-64-posix
configures windows

# Other projects' headers, without those of this system's C library, which lie beside them.
mkdir include
for header in absl flatbuffers libdeflate.h; do ln -s "/usr/include/$header" include/; done

# By hand, SLIPWAY_WINDOWS="-c -O2 -o /dev/null" compiles them as well. aoti.cc looks for libtorch in the process with
# dlopen().
targets=room_base,room_io,room_ir,room_kernels,slipway_runtime
for isa in v2 avx2 avxvnni avx512 avx512vnni avx512bf16 amx; do targets+=,kernels_$isa; done
# shellcheck disable=SC2086
commands_of "$folder" '/posix/|runtime/aoti\.cc|\.S$' $targets $compiler ${SLIPWAY_WINDOWS:--fsyntax-only} \
  -isystem include > commands
total=$(wc -l < commands)
[ "$total" -gt 70 ]
runs_all commands
echo "$total files for Windows compile"
