# Libraries made of models run with glibc 2.28 and need nothing else, and so does slipway but for libraries it is linked
# with.
source "$ROOT/tests/cli/lib.bash"
if [ ! -e "$(dirname "$SLIPWAY")/glibc/libc.so" ]; then
  echo "not run: linked with this machine's glibc (cmake/Glibc.cmake)"
  exit 0
fi
slipway convert net.sw -o m.so -q
python3 "$ROOT/packaging/check_glibc.py" m.so
python3 "$ROOT/packaging/check_glibc.py" "$SLIPWAY" 2> wrong || true
if grep 'asks for' wrong; then exit 1; fi
# What a build links with may lie in a folder with spaces.
mkdir 'a folder'
python3 "$ROOT/cmake/glibc/make_stubs.py" 'a folder' 2.28 g++
echo 'int main() {}' | g++ -x c++ - -o old '-Ba folder' '-La folder'
python3 "$ROOT/packaging/check_glibc.py" old
./old
# It does tell: what this machine's compiler links asks for more.
if expr "$(getconf GNU_LIBC_VERSION)" : '.* 2\.3[4-9]' > /dev/null; then
  echo 'int main() {}' | g++ -x c++ - -o newer
  expect 1 'newer asks for glibc 2.3' python3 "$ROOT/packaging/check_glibc.py" newer
fi
