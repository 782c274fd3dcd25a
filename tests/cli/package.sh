# The .deb of what is built: it depends on a package for each shared library that its files need, and the program runs
# from where it is unpacked.
source "$ROOT/tests/cli/lib.bash"

build=$(dirname "$SLIPWAY")
for tool in cpack dpkg-deb dpkg-shlibdeps; do
  if ! command -v $tool > /dev/null; then
    echo "not run: no $tool"
    exit 0
  fi
done
if nm -D "$SLIPWAY" | grep -q __asan_init; then
  echo "not run: a build with sanitizers is not packaged"
  exit 0
fi
if [ ! -e "$build/CPackConfig.cmake" ]; then
  echo "not run: packages are made on a machine that they are for"
  exit 0
fi
cpack --config "$build/CPackConfig.cmake" -B "$PWD/made" > log 2>&1 || fails "$(cat log)"
deb=$(echo made/*.deb)
[ "$deb" = "made/slipway_$(cat "$ROOT/VERSION")_$(dpkg --print-architecture).deb" ] || fails "its name: $deb"
dpkg-deb -x "$deb" root
dpkg-deb -f "$deb" Depends | tr ',' '\n' | sed -E 's/^ *([^ ]+).*/\1/' > depends
library=$(find root -name libslipway.so)
for file in root/usr/bin/slipway "$library"; do
  for needed in $(readelf -d "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'); do
    dpkg -S "*/$needed" 2> /dev/null | sed -E 's/[:,].*//' | sort -u > owners
    grep -qxFf owners depends || fails "$needed of $file: none of $(xargs < owners) in: $(xargs < depends)"
  done
done
for file in usr/include/slipway/slipway.h usr/share/man/man1/slipway.1 usr/share/bash-completion/completions/slipway \
  usr/share/doc/slipway/LICENSE usr/share/doc/slipway/docs/cli.md usr/share/slipway/schemas/verify.schema.json; do
  ls root/$file* > /dev/null || fails "no $file"
done
LD_LIBRARY_PATH=$(dirname "$library") root/usr/bin/slipway convert net.sw -o m.onnx -q
slipway convert net.sw -o n.onnx -q
cmp m.onnx n.onnx
