# Bits of results (docs/cli.md, run): for one instruction set the same in every run and for any number of threads;
# between instruction sets they differ by rounding only, and SLIPWAY_ISA says which one is used. Programs and libraries
# alike.
source "$ROOT/tests/cli/lib.bash"
cat > model.sw <<'SW'
slipway.ir 1
weights { $w: f32[384, 384] @ random(seed=1)  $v: f32[96, 384] @ random(seed=2)  $c: f32[16, 3, 3,
    3] @ random(seed=3)  $g: f32[384] @ random(seed=4) }
graph main(%w: f32[384, 384] = parameter $w, %v: f32[96, 384] = parameter $v, %c: f32[16, 3, 3, 3] = parameter $c,
    %g: f32[384] = parameter $g,
           %x: f32[150, 384], %image: f32[2, 3, 61, 47], %few: f32[3, 384]) {
  %a: f32[150, 384] = aten.linear.default(input=%x, weight=%w)
  %b: f32[150, 384] = aten.layer_norm.default(input=%a, normalized_shape=[384], weight=%g)
  %e: f32[150, 384] = aten.gelu.default(self=%b)
  %s: f32[150, 384] = aten.softmax.int(self=%e, dim=-1)
  %t: f32[384] = aten.sum.dim_IntList(self=%s, dim=[0])
  %i: f32[2, 16, 59, 45] = aten.conv2d.default(input=%image, weight=%c)
  %j: f32[2, 16, 59, 45] = aten.relu.default(self=%i)
  %k: f32[3, 96] = aten.linear.default(input=%few, weight=%v)
  %m: f32[] = aten.mean.default(self=%j)
  return %s, %t, %j, %k, %m
}
SW
"$PYTHON" - <<'PY'
import numpy, safetensors.numpy
random = numpy.random.default_rng(1)
inputs = [random.standard_normal(s, dtype=numpy.float32) for s in ((150, 384), (2, 3, 61, 47), (3, 384))]
safetensors.numpy.save_file({f"input.{i}": x for i, x in enumerate(inputs)}, "in.safetensors")
PY
slipway convert model.sw -o model.so -q
sets="v2"
case $(uname -m) in
  x86_64)
    ! grep -qw avx2 /proc/cpuinfo || sets+=" avx2"
    ! grep -qw avx512bw /proc/cpuinfo || sets+=" avx512" ;;
  *) sets=any ;;
esac
for model in model.sw model.so; do
  for isa in $sets; do
    for threads in 1 2 3 7 1; do
      SLIPWAY_ISA=$isa slipway run $model --inputs in.safetensors --outputs out.safetensors --threads $threads \
        > /dev/null
      [ -e "$model.$isa" ] || cp out.safetensors "$model.$isa"
      cmp "$model.$isa" out.safetensors || fails "$model under $isa: other bits with $threads threads"
    done
  done
  slipway run $model --inputs in.safetensors --outputs out.safetensors > /dev/null
  cmp "$model.${sets##* }" out.safetensors || fails "not the best instruction set"
done
"$PYTHON" - $sets <<'PY'
import sys, numpy, safetensors.numpy
for model in ("model.sw", "model.so"):
    files = [safetensors.numpy.load_file(f"{model}.{isa}") for isa in sys.argv[1:]]
    for other in files[1:]:
        for name, x in files[0].items():
            error = numpy.abs(x.astype(numpy.float64) - other[name]).max() / numpy.abs(x).max()
            assert error < 32 * numpy.finfo(numpy.float32).eps, (model, name, error)
PY
