# What is built is hardened: position independent, relocations read-only and bound at once, stacks protected and not
# executable, copies checked, and no path of the machine that built it. The same goes for the libraries that models are
# put into.
source "$ROOT/tests/cli/lib.bash"
slipway convert net.sw -o model.so -q
binary=$(readlink -f "$SLIPWAY")

hardened() {
  local file=$1
  readelf -Wh "$file" | grep -qE 'Type: +DYN' || fails "$file is not position independent"
  readelf -Wd "$file" > dynamic
  grep -qE '\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW' dynamic || fails "$file binds lazily"
  ! grep -q TEXTREL dynamic || fails "$file has relocations in its text"
  ! grep -qE 'RPATH|RUNPATH' dynamic || fails "$file has a path to libraries"
  readelf -Wl "$file" > segments
  grep -q GNU_RELRO segments || fails "$file has no read-only relocations"
  grep -E 'GNU_STACK' segments | grep -qE ' RW +0x' || fails "$file has an executable stack"
  ! grep -E 'LOAD' segments | grep -qE ' RWE ' || fails "$file has writable code"
  readelf -W --dyn-syms "$file" > symbols
  grep -q '__stack_chk_fail' symbols || fails "$file has no stack protector"
  grep -qE '__(memcpy|snprintf|vsnprintf|fprintf|memmove)_chk' symbols || fails "$file has no checked functions"
  # Home folders, the checkout, and where builds usually happen.
  ! strings -n 6 "$file" | grep -F -e "$ROOT/" -e /home/ -e /root/ -e /builds/ -e /tmp/ \
    || fails "$file holds paths of its build"
}
hardened "$binary"
readelf -Wd "$binary" | grep -qE '\(FLAGS_1\).*PIE' || fails "not PIE"
hardened model.so
hardened "$(dirname "$SLIPWAY")/libslipway.so"
