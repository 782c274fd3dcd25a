# Files that one command line names twice: nothing that is read, and no result, gives way to a report or to an output
# that is not its own.
source "$ROOT/tests/cli/lib.bash"
"$PYTHON" - <<'PYTHON'
import torch
from safetensors.torch import save_file
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)).eval()
torch.export.save(torch.export.export(model, (torch.randn(3, 64),)), "m.pt2")
save_file(model.state_dict(), "w.safetensors")
save_file({"input.0": torch.randn(3, 64)}, "i.safetensors")
PYTHON
cp w.safetensors v.safetensors
ln -s w.safetensors soft.safetensors
ln w.safetensors hard.safetensors
mkdir folder && cp w.safetensors folder/model.safetensors && echo '{}' > folder/config.json
echo '{"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {}}' > config.json
cp config.json plain.config  # a configuration is a file of any name
sha256sum ./*.* folder/* > before

refused() {  # MESSAGE COMMAND...
  expect 2 "SW1003.*$1" "${@:2}"
  sha256sum --quiet -c before || fails "${*:2} changed a file"
  [ ! -e out.safetensors ] && [ ! -e out.onnx ] && [ ! -e new ] || fails "${*:2} wrote"
}

# Reports and what is read, by any name.
for report in --html --save-config; do
  for file in w.safetensors ./w.safetensors soft.safetensors hard.safetensors "$PWD/w.safetensors"; do
    refused "$report .*the place of the input" slipway quantize w.safetensors -o out.safetensors --config \
      int8-weight-only $report $file
  done
  refused "$report .*the place of the input" slipway quantize soft.safetensors -o out.safetensors --config \
    int8-weight-only $report w.safetensors
  refused "$report .*the place of the configuration" slipway quantize w.safetensors -o out.safetensors --config \
    config.json $report config.json
  refused "$report .*the place of the configuration" slipway quantize w.safetensors -o out.safetensors --config \
    plain.config $report plain.config
  refused "$report .*the place of -o" slipway quantize w.safetensors -o out.safetensors --config int8-weight-only \
    $report out.safetensors
  refused "$report .*the place of -o" slipway quantize w.safetensors -o out.safetensors --config int8-weight-only \
    $report ./out.safetensors
  refused "$report .*the place of -o" slipway quantize w.safetensors -o new/ --config int8-weight-only $report \
    new/model.safetensors
  refused "$report .*the place of -o" slipway quantize m.pt2 -o out.onnx --config int8-weight-only $report out.onnx.data
  refused "$report .*the place of the input" slipway quantize folder -o out.safetensors --config int8-weight-only \
    $report folder/config.json
  refused "$report .*the place of --calibration" slipway quantize m.pt2 -o out.onnx --config int8-static \
    --calibration i.safetensors $report i.safetensors
  refused "$report .*the place of --weights" slipway quantize m.pt2 --weights v.safetensors -o out.onnx --config \
    int8-weight-only $report v.safetensors
done
refused "--html .*the place of --save-config" slipway quantize w.safetensors -o out.safetensors --config \
  int8-weight-only --html new --save-config new

# Outputs and what is read beside the model.
refused "-o .*the place of --weights" slipway convert m.pt2 --weights v.safetensors -o v.safetensors --to pt2
refused "-o .*the place of --calibration" slipway quantize m.pt2 -o i.safetensors --to pt2 --config int8-static \
  --calibration i.safetensors
refused "--outputs .*the place of --inputs" slipway run m.pt2 --inputs i.safetensors --outputs ./i.safetensors
refused "--outputs .*the place of the model" slipway run m.pt2 --inputs i.safetensors --outputs m.pt2
slipway convert one=m.pt2 two=m.pt2 -o one.pt2 -q
sha256sum one.pt2 >> before
refused "-o .*the place of the input" slipway unpack one.pt2 -o .

# What is no clash: a model that gives way to its own result, reports beside it.
slipway quantize folder -o out/ --config int8-weight-only --save-config out/run.json --html out/run.html -q
[ -s out/run.json ] && [ -s out/run.html ] && [ -s out/model.safetensors ] || fails "reports in the output's folder"
slipway convert w.safetensors -o w.safetensors -q
