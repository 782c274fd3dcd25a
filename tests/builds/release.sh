# The preset release: all rooms, each source by itself and as optimized as what is shipped. Then its wheel, tried in an
# empty venv, a release of both (scripts/release.sh), and whether the same comes out again.
source "$ROOT/tests/builds/lib.bash"
needs g++-aarch64-linux-gnu
"$ROOT/scripts/setup.sh" archives > log 2>&1 || { tail -n 40 log; exit 1; }  # on which flags of rooms depend
compiles release shipped
built="$ROOT/build/presets/release"
"$ROOT/scripts/build_wheel.sh" --build "$built" > log 2>&1 || { tail -n 40 log; exit 1; }
tail -n 3 log
wheel=$(echo "$ROOT/build/dist/slipway-$(cat "$ROOT/VERSION")"-*_"$(uname -m)".whl)

if ! git -C "$ROOT" rev-parse -q --verify HEAD > /dev/null; then
  echo "the rest was not run: no commit"
  exit 0
fi
for out in one two; do
  release=("$ROOT/scripts/release.sh" --build "$built" --wheel "$wheel" --out "$PWD/$out")
  "${release[@]}" > log 2>&1 || { tail -n 40 log; exit 1; }
done
diff -r one two
(cd one && sha256sum --check --quiet SHA256SUMS && [ "$(ls | wc -l)" = 5 ])
tar -tzf one/slipway-*.tar.gz > listed
grep -q '/CMakeLists.txt$' listed

# The SBOM is what CycloneDX 1.5 asks for, has every project whose licence is shipped, and the files' sums.
"$PYTHON" - one "$built/licences/copyright" <<'PYTHON'
import hashlib, json, pathlib, re, sys

folder, licences = map(pathlib.Path, sys.argv[1:])
sbom = json.loads(next(folder.glob("*.cdx.json")).read_text())
assert (sbom["bomFormat"], sbom["specVersion"], sbom["version"]) == ("CycloneDX", "1.5", 1), sbom
assert set(sbom) == {"bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies"}
assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", sbom["serialNumber"])
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", sbom["metadata"]["timestamp"]), sbom["metadata"]
main = sbom["metadata"]["component"]
assert main["type"] == "application" and main["name"] == "slipway" and main["version"], main
libraries = [c for c in sbom["components"] if c["type"] == "library"]
files = [c for c in sbom["components"] if c["type"] == "file"]
assert len(libraries) + len(files) == len(sbom["components"])
for c in libraries:
    assert re.fullmatch(r"pkg:(deb/debian|pypi|github/\w+)/[\w.+-]+@[\w.%+-]+(\?arch=source)?", c["purl"]), c
    assert c["version"] and c["licenses"], c
assert {c["name"] for c in libraries} == set(re.findall(r"^Files: ([^*/]+)/\*$", licences.read_text(), re.M))
references = [main["bom-ref"], *(c["bom-ref"] for c in sbom["components"])]
assert len(set(references)) == len(references), references
for d in sbom["dependencies"]:
    assert {d["ref"], *d.get("dependsOn", [])} <= set(references), d
assert {c["name"] for c in files} == {f.name for f in folder.glob("slipway*")} - {next(folder.glob("*.cdx.json")).name}
for c in files:
    [sum] = c["hashes"]
    assert sum == {"alg": "SHA-256", "content": hashlib.sha256((folder / c["name"]).read_bytes()).hexdigest()}, c
PYTHON

# Compiled in another folder, without the compiler cache, rooms are the same bytes.
mkdir -p "another folder/slipway/build"
(cd "$ROOT" && git ls-files -z | tar --null -T - -c) | tar -x -C "another folder/slipway"
ln -s "$ROOT/build/deps" "another folder/slipway/build/deps"
export CCACHE_DISABLE=1
cmake -S "another folder/slipway" --preset release -B other > log 2>&1 || { cat log; exit 1; }
cmake --build other -j "$JOBS" --target room_base room_io room_schemas > log 2>&1 || { tail -n 40 log; exit 1; }
for room in base io schemas; do
  cmp "$built/libroom_$room.a" "other/libroom_$room.a"
done
