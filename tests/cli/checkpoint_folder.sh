# A checkpoint that is written into a folder takes the place of the one that is there, however many files each has;
# other files stay. A folder that holds two is refused, naming both.
source "$ROOT/tests/cli/lib.bash"
"$PYTHON" - <<'PY'
import json, pathlib, struct
def save(name, value, count):
    header = json.dumps({f"{name}.{i}": {"dtype": "I64", "shape": [8],
        "data_offsets": [64 * i, 64 * i + 64]} for i in range(count)})
    header += " " * (-len(header) % 8)
    pathlib.Path(name + ".safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + struct.pack("<q",
        value) * 8 * count)
save("big", 1, 8)
save("small", 2, 1)
save("even", 3, 4)
pathlib.Path("rules.json").write_text('[{"match": ".", "split": "column"}]')
PY
holds() {  # FILE FOLDER: the folder reads as the file
  expect 0 '' slipway diff "$1" "$2"
}

mkdir out
echo kept > out/config.json
cp small.safetensors out/adapter.safetensors
for into in "--shards 4" "" "--shards 2" "--tp 4 --tp-rules rules.json" "--tp 2 --tp-rules rules.json" "--shards 3" \
  ""; do
  for model in big even; do
    expect 0 . slipway convert $model.safetensors -o out/ $into
    [ -f out/adapter.safetensors ] && [ "$(cat out/config.json)" = kept ] || fails "another file is gone"
    mv out/adapter.safetensors .
    case $into in
      --tp*) [ "$(ls out | grep -c '^rank-')" = "${into:5:1}" ] && [ "$(ls out | wc -l)" = $((${into:5:1} + 1)) ] \
        || fails "$(ls out)" ;;
      *) holds $model.safetensors out ;;
    esac
    mv adapter.safetensors out
  done
done
only adapter.safetensors config.json model.safetensors

# An index of another name, with what it names.
rm -r out && mkdir out
cp big.safetensors out/part.safetensors
cp even.safetensors out/other.safetensors
echo '{"weight_map": {"big.0": "part.safetensors"}}' > out/old.safetensors.index.json
expect 0 . slipway convert small.safetensors -o out/ --dry-run
only old.safetensors.index.json other.safetensors part.safetensors
expect 0 . slipway convert small.safetensors -o out/
only model.safetensors other.safetensors

# A failure leaves the old one as it was.
rm out/other.safetensors
expect 0 . slipway convert big.safetensors -o out/ --shards 4
before=$(cat out/* | cksum)
mkdir out/model.safetensors
expect 3 'out/model.safetensors exists' slipway convert small.safetensors -o out/
rmdir out/model.safetensors
[ "$(cat out/* | cksum)" = "$before" ] || fails "a failure changed the folder"

# Two at once.
cp small.safetensors out/model.safetensors
expect 3 'SW1001.*out: two checkpoints, model.safetensors.index.json and model.safetensors' slipway convert out -o \
  x.safetensors
expect 0 . slipway convert out/model.safetensors.index.json -o x.safetensors
expect 0 '' slipway diff x.safetensors big.safetensors
rm out/model.safetensors && cp small.safetensors out/model-00001-of-00002.safetensors
expect 3 'two checkpoints, model.safetensors.index.json and model-\*-of-00002.safetensors' slipway inspect out
rm out/*.json
expect 3 'two checkpoints, model-\*-of-00002.safetensors and model-\*-of-00004.safetensors' slipway diff out out
rm out/model-*-of-00004* && cp small.safetensors out/rank-00000-of-00001.safetensors
expect 3 'two checkpoints, model-\*-of-00002.safetensors and rank-\*-of-00001.safetensors' slipway diff out out
rm out/rank* && cp even.safetensors out/consolidated.safetensors
expect 3 'of 2 files there are 1; missing: model-00002-of-00002.safetensors' slipway convert out -o x.safetensors
# another name beside it is no contradiction
mv out/model-00001-of-00002.safetensors out/model-00001-of-00001.safetensors
expect 0 . slipway convert out -o x.safetensors
rm out/*.safetensors && cp small.safetensors out/model.safetensors
echo '{"weight_map": {"big.0": "pytorch_model-00001-of-00001.bin"}}' > out/pytorch_model.bin.index.json
expect 3 'two checkpoints, pytorch_model.bin.index.json and model.safetensors' slipway inspect out

# A folder with a checkpoint of torch.save, beside what a trainer left; not one with several.
rm -rf out && mkdir out
slipway convert big.safetensors -o out/pytorch_model.bin -q
slipway convert small.safetensors -o out/training_args.bin -q
echo kept > out/config.json
holds big.safetensors out
expect 0 . slipway convert out -o from_bin.safetensors
cmp from_bin.safetensors <(slipway convert out/pytorch_model.bin -o b.safetensors -q && cat b.safetensors)
slipway convert small.safetensors -o out/other.pt -q
expect 3 'SW1001.*several checkpoints: other.pt, pytorch_model.bin' slipway inspect out
rm out/*.bin out/*.pt
expect 3 'SW1001.*out: a folder without' slipway convert out -o m.safetensors
grep -q 'help: give the file' stderr || fails "no next step"

# A folder makes a folder where the name has no suffix that says something else.
mkdir shards
expect 0 . slipway convert even.safetensors -o shards/ --shards 2
for name in plain llama-3.1-8b sub.d/plain; do
  mkdir -p sub.d
  expect 0 . slipway convert shards -o $name
  [ -f $name/model.safetensors ] && holds even.safetensors $name || fails "$name is no folder"
done
expect 0 . slipway convert shards -o one.safetensors
[ -f one.safetensors ] || fails "not one file"
expect 2 "SW1002.*did you mean '.safetensors'" slipway convert shards -o one.safetensor
expect 2 'SW1002' slipway convert even.safetensors -o nothing
echo kept > taken
expect 2 'SW1002' slipway convert shards -o taken
[ "$(cat taken)" = kept ] || fails "a file was replaced"
