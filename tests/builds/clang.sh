# The preset clang: the rooms with intrinsics and vectors, and those that all others include. All the rest takes ten
# minutes more, by hand: cmake --preset clang && cmake --build build/clang
source "$ROOT/tests/builds/lib.bash"
if ! command -v clang++-16 > /dev/null; then
  echo "not run: no clang++-16"
  exit 0
fi
builds clang room_base room_schemas room_io room_ir room_kernels
