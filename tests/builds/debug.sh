# The preset debug: the program and the libraries.
source "$ROOT/tests/builds/lib.bash"
compiles debug shipped
