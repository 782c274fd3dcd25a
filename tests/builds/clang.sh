# The preset clang: the rooms with intrinsics and vectors, and those that all others include. All the rest takes ten
# minutes more, by hand: cmake --preset clang && cmake --build build/clang
source "$ROOT/tests/builds/lib.bash"
needs clang-16
builds clang room_base room_schemas room_io room_ir room_kernels
