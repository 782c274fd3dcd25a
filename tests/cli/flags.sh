# Every flag of convert with every target: it is taken, or refused by its name with those that take it.
source "$ROOT/tests/cli/lib.bash"
"$(dirname "$SLIPWAY")/flags_doc" --samples > samples
[ "$(wc -l < samples)" -gt 20 ] || fails "the table of flags is short"
for target in onnx pt2 so native-pt2 safetensors torch; do
  while read -r flag targets value; do
    slipway convert net.sw -o out --to $target --dry-run --"$flag" ${value:+"$value"} > stdout 2> stderr && status=0 \
      || status=$?
    last=$(cause stderr)
    if [[ ,$targets, == *,$target,* ]]; then
      [[ $last != *'does not take'* && $last != *'not expected'* ]] || fails "--to $target refuses --$flag: $last"
    else
      [[ $status = 2 && $last == "error[SW1003]: --to $target does not take --$flag (a flag of ${targets//,/, })" ]] ||
        fails "--to $target with --$flag: $status, $last"
    fi
  done < samples
done
[ ! -e out ] || fails "a dry run wrote"

# All that are refused are in one line, and nothing is written.
expect 2 'SW1003.*--to onnx does not take --include \(a flag of safetensors, torch\), --shards \(a flag of '\
'safetensors\)' \
  slipway convert net.sw -o m.onnx --shards 2 --include '.*'
expect 2 'SW1003.*--to so does not take --opset \(a flag of onnx\)' slipway convert net.sw -o m.so --opset 20
[ ! -e m.onnx ] || fails "m.onnx was written"
