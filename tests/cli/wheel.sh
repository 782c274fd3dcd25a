# What goes into the wheel, laid out as pyproject.toml and CMake's component say, is the package and the program, small
# enough, and runs from there. scripts/build_wheel.sh builds the wheel itself, and packaging/check_wheel.py installs
# that: minutes, so not here.
source "$ROOT/tests/cli/lib.bash"
build=$(dirname "$SLIPWAY")
cmake --install "$build" --component wheel --strip --prefix "$PWD/site" > log || fails "$(cat log)"
library=
if [ -e "$build/wheel_program/slipway" ]; then library='./slipway/lib/libslipway.so.0 '; fi
[ "$(cd site && find . ! -type d ! -path '*/share/*' | sort | tr '\n' ' ')" = \
  "./slipway/THIRD_PARTY_LICENSES ./slipway/bin/slipway $library" ] \
  || fails "the component is $(find site)"
site/slipway/bin/slipway --help > help
for file in share/doc/slipway/docs/quantize.md share/slipway/schemas/convert.schema.json; do
  folder=site/slipway/$(dirname "$file")
  [ -e "site/slipway/$file" ] || fails "no $file"
  grep -qx "$(basename "$folder")/ *$(pwd -P)/$folder" help || fails "--help does not say where: $(cat help)"
done
"$PYTHON" - > entry <<'PYTHON'
import os, pathlib, shutil, tomllib, zipfile

project = tomllib.loads(pathlib.Path(os.environ["ROOT"], "pyproject.toml").read_text())
tool = project["tool"]["scikit-build"]
assert tool["install"]["components"] == ["wheel"] and tool["build"]["targets"] == ["wheel_files"], tool
assert project["project"]["dependencies"] == [], "an empty venv without an index has nothing else"
for package in tool["wheel"]["packages"]:
    source = pathlib.Path(os.environ["ROOT"], package)
    shutil.copytree(source, pathlib.Path("site", source.name), dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__"))
assert pathlib.Path("site/slipway/py.typed").exists()
with zipfile.ZipFile("as_a_wheel.zip", "w", zipfile.ZIP_DEFLATED) as wheel:
    for file in pathlib.Path("site").rglob("*"):
        wheel.write(file)
print(project["project"]["scripts"]["slipway"])
PYTHON
cp as_a_wheel.zip before.zip
python3 "$ROOT/packaging/smaller_wheel.py" as_a_wheel.zip
"$PYTHON" - <<'PYTHON'
import pathlib, zipfile
with zipfile.ZipFile("before.zip") as before, zipfile.ZipFile("as_a_wheel.zip") as after:
    assert after.testzip() is None
    for a, b in zip(before.infolist(), after.infolist(), strict=True):
        assert (a.filename, a.external_attr, a.date_time, a.CRC) == (b.filename, b.external_attr, b.date_time, b.CRC)
assert pathlib.Path("as_a_wheel.zip").stat().st_size < pathlib.Path("before.zip").stat().st_size
PYTHON

# The command, by its entry point, and a conversion from Python, by an interpreter that sees no other package.
cat > command.py <<'PYTHON'
import importlib, sys
sys.path.insert(0, "site")
module, function = sys.argv.pop(1).split(":")
getattr(importlib.import_module(module), function)()
PYTHON
python3 -I -S command.py "$(cat entry)" convert net.sw -o command.onnx -q
python3 -I -S -c '
import sys
sys.path.insert(0, "site")
import slipway
slipway.convert("net.sw", "function.onnx")
slipway.convert("net.sw", "m.so")'
cmp command.onnx function.onnx
# The package is typed.
"$PYTHON" -m mypy --strict --cache-dir "$PWD/types" "$ROOT/packaging/python/slipway" > stderr 2>&1 || fails "mypy"
