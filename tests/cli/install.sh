# What is installed serves those who link with it, from any prefix; and the pages that slipway prints of itself.
source "$ROOT/tests/cli/lib.bash"
build=$(dirname "$SLIPWAY")
cmake --install "$build" --prefix "$PWD/prefix" > log || fails "$(cat log)"
mv prefix moved  # nothing names the folder it was installed to
prefix=$(pwd -P)/moved
lib=$(dirname "$(find "$prefix" -name 'libslipway.so')")
[ -L "$lib/libslipway.so.0" ] || fails "no libslipway.so.0: $(ls "$lib")"
readelf -d "$lib/libslipway.so" | grep -q 'soname: \[libslipway.so.0\]' || fails "its soname"
! grep -rlE "$build|$ROOT/include" "$lib/cmake" "$lib/pkgconfig" || fails "names folders of the build"

# Where other libraries are inside (cmake/Archives.cmake), it wants no more than the program; else Debian's libraries of
# them.
if grep -q deps/archives/lib/libprotobuf.a "$build/build.ninja"; then
  if [ -e "$build/glibc/libc.so" ]; then python3 "$ROOT/packaging/check_glibc.py" "$lib/libslipway.so"; fi
  ! readelf -d "$lib/libslipway.so" | grep NEEDED | grep -vE 'lib(c|m|dl|pthread)\.so|ld-linux' || fails "needs a "\
"library that is to be inside"
fi

cat > main.c <<'C'
#include <slipway/slipway.h>
#include <slipway/slipway_model.h>
#include <stdio.h>
int main(void) {
  puts(slipway_version());
  return 0;
}
C
export PKG_CONFIG_PATH=$lib/pkgconfig
cc main.c $(pkg-config --cflags --libs slipway) -Wl,-rpath,"$lib" -o with_pkg_config
./with_pkg_config > said
[ "$(pkg-config --modversion slipway)" = "$(cat "$ROOT/VERSION")" ]
grep -q "$(cat "$ROOT/VERSION")" said || fails "$(cat said)"

cat > CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(slipway 0.1 REQUIRED)
add_executable(with_cmake main.c)
target_link_libraries(with_cmake PRIVATE slipway::slipway)
CMAKE
cmake -S . -B made -DCMAKE_PREFIX_PATH="$prefix" > log && cmake --build made >> log || fails "$(cat log)"
made/with_cmake > said2
cmp said said2

# Documents and schemas are installed, and --help says where.
cmp "$ROOT/docs/quantize.md" "$prefix/share/doc/slipway/docs/quantize.md"
cmp "$ROOT/schemas/convert.schema.json" "$prefix/share/slipway/schemas/convert.schema.json"
[ ! -e "$prefix/share/slipway/schemas/ops.txt" ] || fails "the operators' table is no schema"
COLUMNS=120 "$prefix/bin/slipway" --help > help
grep -qx "docs/     $prefix/share/doc/slipway/docs" help || fails "no documents: $(cat help)"
grep -qx "schemas/  $prefix/share/slipway/schemas" help || fails "no schemas: $(cat help)"

# Licences of what is inside go with it (licences.sh).
if [ -e "$build/licences/copyright" ]; then cmp "$build/licences/copyright" "$prefix/share/doc/slipway/copyright"; fi

# The program runs where it was moved to; what shells and man know are all its commands and flags.
"$prefix/bin/slipway" convert net.sw -o m.onnx -q
page=$(find "$prefix" -name slipway.1)
for word in $(slipway --help | sed -n '/^Commands:/,$p' | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
  grep -q "^.SS slipway $word\$" "$page" || fails "$word is not in the manual page"
done
source "$prefix/share/bash-completion/completions/slipway"
complete_words() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _slipway; echo "${COMPREPLY[*]}"; }
[ "$(complete_words slipway conv)" = convert ]
[ "$(complete_words slipway convert --exter)" = --external-data ]
[ "$(complete_words slipway convert net)" = net.sw ]
[ "$(complete_words slipway convert --external-data '')" = 'auto always never' ]
[ "$(complete_words slipway convert --to = na)" = native-pt2 ]
[ "$(complete_words slipway quantize --config 8d)" = 8da4w ]
[ "$(complete_words slipway inspect --sources =)" = 'full short none' ]
[ "$(complete_words slipway completion z)" = zsh ] && [ "$(complete_words slipway help conv)" = convert ]
if command -v man > /dev/null; then man -l "$page" > /dev/null; fi
