# The preset asan (AddressSanitizer and UBSan): the program and the libraries.
source "$ROOT/tests/builds/lib.bash"
compiles asan shipped
