# base, io, ir, importers and weights as they are compiled for 64-bit Arm, whose plain characters are unsigned, with the
# flags of the preset release: syntax only. Kernels and the runtime are compiled in every build;
# scripts/cross_aarch64.sh builds all of slipway and runs its tests.
source "$ROOT/tests/builds/lib.bash"
compiler=aarch64-linux-gnu-g++
needs g++-aarch64-linux-gnu
configures aarch64

# Other projects' headers, without those of this machine's C library, which lie beside them.
mkdir include
here=$(cc -print-multiarch)
for header in absl flatbuffers google re2 simdjson.h libdeflate.h zlib.h zconf.h png.h pngconf.h pnglibconf.h \
  jpeglib.h jmorecfg.h jerror.h "$here/jconfig.h"; do
  ln -s "/usr/include/$header" include/
done
commands_of "$folder" '\.S$' room_base,room_io,room_ir,room_importers,room_weights $compiler -fsyntax-only \
  -isystem include > commands
total=$(wc -l < commands)
[ "$total" -gt 8 ]
runs_all commands
echo "$total files for 64-bit Arm compile"
