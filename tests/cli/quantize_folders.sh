# Folders stay whole: what of a source folder besides its weights is in the quantized one, and what is not.
source "$ROOT/tests/cli/lib.bash"
python3 - <<'PY'
import json, os, struct
def save(path, tensors):
    header, data = {}, b""
    for name, shape in tensors.items():
        n = shape[0] * shape[1]
        raw = struct.pack(f"<{n}f", *(((i * 37) % 101 - 50) / 50 for i in range(n)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
for folder in ("model", "model/1_Pooling", "model/onnx", "model/.cache"):
    os.mkdir(folder)
save("model/model.safetensors", {"model.layers.0.mlp.up_proj.weight": [16, 64],
                                 "model.layers.0.mlp.gate.weight": [4, 64],
                                 "model.layers.0.moe.router.layer.weight": [4, 64]})
def put(name, text): open("model/" + name, "w").write(text)
put("config.json", '{"model_type": "mine"}')
for name in ("tokenizer.json", "tokenizer.model", "generation_config.json", "chat_template.jinja", "modeling.py",
             "1_Pooling/config.json", ".gitattributes", ".cache/x.json", "onnx/config.json"):
    put(name, name)
for name in ("pytorch_model.bin", "model.gguf", "onnx/model.onnx", "training_args.bin", "quantize_config.json",
             "model.safetensors.index.json.lock", "tf_model.h5", "other.index.json"):
    put(name, "no JSON")
os.remove("model/other.index.json"), os.remove("model/quantize_config.json")
open("model/big.json", "w").truncate(100_000_001)
open("secret", "w").write("secret")
os.symlink("../secret", "model/secret.txt")
os.symlink("tokenizer.json", "model/tokenizer_again.json")
os.symlink("/nowhere", "model/broken.txt")
os.mkfifo("model/pipe")
PY
quantize() { slipway quantize "$@" --config int8-weight-only >stdout 2>stderr; }
names() { (cd "$1" && find . -type f -o -type l | sort | tr '\n' ' '); }

# No suffix: a folder, as the source is one.
quantize model -o q
want="./1_Pooling/config.json ./chat_template.jinja ./config.json ./generation_config.json ./model.safetensors \
./modeling.py ./tokenizer.json ./tokenizer.model ./tokenizer_again.json "
[ "$(names q)" = "$want" ] || fails "$(names q)"
for name in tokenizer.json tokenizer.model 1_Pooling/config.json; do cmp model/$name q/$name; done
cmp model/tokenizer.json q/tokenizer_again.json
[ ! -L q/tokenizer_again.json ]
grep -q '"quantization_config"' q/config.json
grep -qF "7 other files are copied from the source" stderr
grep -qF "not copied: big.json, broken.txt, onnx/, pipe, secret.txt" stderr
# Routers stay in float; --include has the last word.
grep -q "mlp.gate.weight .*stays: a router" stderr
grep -q "moe.router.layer.weight .*stays: a router" stderr
quantize model -o r --include router --no-extra-files
[ "$(names r)" = "./config.json ./model.safetensors " ] || fails "$(names r)"
grep -q "moe.router.layer.weight .*int8-weight-only" stderr

# Files of the folder that is written give way to the source's, others stay; a source may be written over itself.
echo old >q/tokenizer.json
echo mine >q/notes.txt
quantize model -o q
cmp model/tokenizer.json q/tokenizer.json
[ "$(cat q/notes.txt)" = mine ]
cp -r q again
slipway convert model -o again --to safetensors -q
cp -r model twice
rm twice/pipe
quantize twice -o twice/
cmp model/tokenizer.json twice/tokenizer.json
[ -L twice/secret.txt ] && [ -s twice/pytorch_model.bin ] || fails "files of the source are gone"

# Nothing is left of a folder that could not be written.
status=0
quantize model -o none --names transformers || status=$?
[ $status = 4 ] && [ ! -e none ]
grep -qF -- "--names file" stderr
mkdir -p full/tokenizer.json
status=0
quantize model -o full/ || status=$?
[ $status != 0 ] && [ "$(names full)" = "" ] && [ ! -e full/1_Pooling ]

# Of several processes the last one copies.
quantize model -o ranks/ --rank 1 --world-size 2 --shards 2
[ ! -e ranks/tokenizer.json ]
quantize model -o ranks/ --rank 0 --world-size 2 --shards 2
cmp model/tokenizer.json ranks/tokenizer.json
cmp model/1_Pooling/config.json ranks/1_Pooling/config.json

# The hub's cache: links to blobs beside the snapshots.
mkdir -p hub/blobs hub/snapshots/main
cp model/model.safetensors hub/blobs/1
cp model/config.json hub/blobs/2
cp model/tokenizer.json hub/blobs/3
ln -s ../../blobs/1 hub/snapshots/main/model.safetensors
ln -s ../../blobs/2 hub/snapshots/main/config.json
ln -s ../../blobs/3 hub/snapshots/main/tokenizer.json
ln -s ../../../secret hub/snapshots/main/secret.txt
quantize hub/snapshots/main -o h
[ "$(names h)" = "./config.json ./model.safetensors ./tokenizer.json " ] || fails "$(names h)"
