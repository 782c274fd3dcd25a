# The preset debug: all rooms, without optimization, and all tests.
source "$ROOT/tests/builds/lib.bash"
compiles debug all
