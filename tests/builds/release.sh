# The preset release: all rooms, each source by itself and as optimized as what is shipped, and all tests.
source "$ROOT/tests/builds/lib.bash"
compiles release all
