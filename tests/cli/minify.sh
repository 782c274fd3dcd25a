# minify: what is left is right, few probes are made, a run that was killed goes on, checks may crash, hang and eat
# memory.
source "$ROOT/tests/cli/lib.bash"
programs="$ROOT/tests/cli/minify_programs.py"
for kind in chain branches control; do python3 "$programs" $kind $kind.sw; done

# nodes FILE OP...: the operators of the result, nested graphs included, are these.
nodes() {
  local file=$1 found
  shift
  found=$(grep -oE '= (aten|higher_order)\.[a-z_0-9]+' "$file" | cut -d. -f2 | sort | tr '\n' ' ')
  [ "$found" = "$*${1:+ }" ] || fails "$file holds '$found', not '$*'"
}
# probes: of the summary in stderr.
probes() { grep -oE 'probe [0-9]+' stderr | cut -d' ' -f2; }

# One bad node of 50.
expect 0 'out: probe [0-9]+ · 50 → 1 node · 1 input, [0-9]+ asked now, fails with exit 1' \
  slipway minify chain.sw -o out --check '! grep -q aten.relu {ir}'
nodes out/min.ir relu
[ "$(probes)" -le 15 ] || fails "$(probes) probes for a chain"
only inputs.safetensors min.ir min.onnx min.pt2 probes.log report.md repro.py repro.sh
expect 1 '' sh out/repro.sh
slipway run out/min.pt2 --inputs out/inputs.safetensors --outputs outputs.safetensors
! grep -q "$PWD" out/repro.sh out/repro.py out/report.md out/min.ir out/probes.log \
  || fails "an absolute path in the result"
# The same again, in another folder and with several checks at once, gives the same bytes; of the result nothing more
# goes.
slipway minify chain.sw -o two --check '! grep -q aten.relu {ir}' --jobs 3 -q
for file in min.ir min.pt2 min.onnx inputs.safetensors report.md; do cmp out/$file two/$file; done
slipway minify out/min.ir -o again --check '! grep -q aten.relu {ir}' -q
cmp out/min.ir again/min.ir

# A folder whose name the shell would take apart.
slipway minify branches.sw -o "a b'\$c" --check '! grep -q aten.relu {ir}' -q
mkdir elsewhere && (cd elsewhere && expect 1 '' sh "../a b'\$c/repro.sh")

# Two branches: a node of each and where they meet.
cat > meet.sh <<'EOF'
grep -q aten.relu "$1" && grep -q aten.tanh "$1" && \
  grep -qE 'aten.add.Tensor\(self=%[ab][0-9]+, other=%[ab][0-9]+' "$1" && exit 3
exit 0
EOF
expect 0 '25 → 3 nodes' slipway minify branches.sw -o branches --check 'sh meet.sh {ir}'
nodes branches/min.ir add relu tanh
expect 3 '' sh branches/repro.sh

# Inside of control flow; with the control flow, where the failure needs it.
expect 0 '8 → 1 node ' slipway minify control.sw -o body --check '! grep -q aten.relu {ir}'
nodes body/min.ir relu
expect 0 '8 → 2 nodes ' slipway minify control.sw -o cond --check \
  '! (grep -q aten.relu {ir} && grep -q order.cond {ir})'
nodes cond/min.ir cond relu

# Symbolic sizes stay where the failure needs them.
expect 0 '1 node ' slipway minify chain.sw -o dynamic --check '! (grep -q aten.relu {ir} && grep -qF "[B," {ir})'
grep -q 'f32\[B,2\]' dynamic/min.ir || fails "the symbol is gone, or the other size is not small"

# Its own checks. The failure is one operator's; another that fails too does not count.
cat > unsupported.sw <<'EOF'
slipway.ir 1
graph main(%x: f32[4,4]) {
  %a: f32[4,4] = aten.relu.default(self=%x)
  %b: f32[4,4] = mylib.first.default(self=%a)
  %c: f32[4,4] = aten.tanh.default(self=%b)
  %d: f32[4,4] = mylib.second.default(self=%c)
  return %d
}
EOF
expect 0 '4 → 1 node .*SW2001' slipway minify unsupported.sw -o convert --check convert:onnx@21
grep -q mylib.first convert/min.ir || fails "another failure than the first"
expect 4 SW2001 env SLIPWAY="$SLIPWAY" sh convert/repro.sh
expect 0 '4 → 1 node ' slipway minify unsupported.sw -o so --check convert:so
expect 0 '4 → 1 node ' slipway minify unsupported.sw -o id --check diagnostic:SW2001
expect 0 '4 → 1 node ' slipway minify unsupported.sw -o run --check run

# Two programs that should compute the same, cut alike.
sed 's/%b7: f32\[4,8\] = aten\.[a-z]*/%b7: f32[4,8] = aten.sin/' branches.sw > other.sw
expect 0 '25 → 1 node ' slipway minify branches.sw -o accuracy --check accuracy:other.sw
grep -q '%b7' accuracy/min.ir || fails "another node than the one that differs"
expect 1 'SW6001' env SLIPWAY="$SLIPWAY" sh accuracy/repro.sh
expect 1 'SW6101' slipway minify branches.sw -o good --check accuracy:branches.sw
expect 1 'SW6101' slipway minify branches.sw -o good --check accuracy:so
expect 4 'another structure' slipway minify branches.sw -o good --check accuracy:chain.sw

# A program that does not fail, or not so.
expect 1 'SW6101.*does not fail the check' slipway minify chain.sw -o good --check convert:onnx
expect 1 'SW6101.*does not fail' slipway minify chain.sw -o good --check 'grep -q aten.relu {ir}'
expect 1 'SW6101' slipway minify chain.sw -o good --check 'exit 3 # {ir}' --fail-code 4
expect 1 'SW6101' slipway minify chain.sw -o good --check 'echo no >&2; exit 3 # {ir}' --fail-regex yes
expect 0 'exit 4' slipway minify chain.sw -o code --check 'grep -q aten.relu {ir} && exit 4; exit 5 # {ir}' \
  --fail-code 4
expect 0 'output matches' slipway minify chain.sw -o regex --check 'grep aten.relu {ir}; true' --fail-regex 'relu'
nodes regex/min.ir relu
expect 2 'names no file' slipway minify chain.sw -o good --check 'true'
expect 2 'no target' slipway minify chain.sw -o good --check convert:tflite
expect 2 'no diagnostic' slipway minify chain.sw -o good --check diagnostic:17
expect 2 'fail-regex' slipway minify chain.sw -o good --check 'cat {ir}' --fail-regex '('
expect 5 'SW3001' slipway minify none.sw -o good --check convert:onnx
printf '\010\007' > some.onnx
expect 3 'without a graph' slipway minify some.onnx -o good --check run

# Checks that crash, hang or eat memory on half of the candidates.
cat > bad.sh <<'EOF'
lines=$(wc -l < "$1")
if [ "$lines" != "$3" ] && [ $(($(cksum < "$1" | cut -c1-6) % 2)) = 0 ]; then
  case $2 in
    crash) kill -SEGV $$ ;;
    hang) sleep 1000 ;;
    memory) exec python3 -S -c 'b = bytearray(8 << 30); b[::4096] = b"1" * len(b[::4096])' ;;
  esac
fi
! grep -q aten.relu "$1"
EOF
for how in crash hang memory; do
  expect 0 '50 → 1 node ' slipway minify chain.sw -o bad.$how \
    --check "sh bad.sh {ir} $how $(wc -l < chain.sw)" --timeout 1 --memory 1GB
  nodes bad.$how/min.ir relu
done

# The same for several hashes. Where the check crashes on the original too, that is the failure that is looked for;
# where an empty program crashes it as well, nothing is left, and the report says so.
cat > half.sh <<'EOF'
if [ "$(grep -c '= aten' "$1")" != 50 ] && \
  [ $((($(sed "1s/^/; $2 /" "$1" | cksum | cut -d' ' -f1) >> 3) % 2)) = 0 ]; then kill -SEGV $$; fi
! grep -q aten.relu "$1"
EOF
for salt in 1 2 3 4; do
  expect 0 '50 → 1 node ' slipway minify chain.sw -o half.$salt --check "sh half.sh {ir} $salt"
  nodes half.$salt/min.ir relu
done
expect 0 '50 → 0 nodes .*(signal|exit 139)' slipway minify chain.sw -o nothing --check 'kill -SEGV $$ # {ir}'
grep -q 'without any node it fails so' nothing/report.md || fails "the report does not say that nothing is needed"

# Killed at any time: the next run goes on, and asks nothing twice but what was being asked.
cat > counted.sh <<'EOF'
cksum < "$1" >> asked
sleep 0.1
! grep -q aten.relu "$1"
EOF
slipway minify chain.sw -o whole --check 'sh counted.sh {ir}' -q
sort asked | uniq -d | grep -q . && [ "$(sort asked | uniq -d | wc -l)" -gt 2 ] && fails "asked twice without a kill"
for after in 2 4 6 8; do  # questions
  rm -rf killed asked
  slipway minify chain.sw -o killed --check 'sh counted.sh {ir}' -q &
  process=$!
  until [ "$(cat asked 2> /dev/null | wc -l)" -ge $after ]; do sleep 0.02; done
  kill -9 $process
  wait $process || true
  sleep 0.3
  known=$(($(wc -l < killed/probes.log) - 1))
  cp asked before
  slipway minify chain.sw -o killed --check 'sh counted.sh {ir}' -q
  cmp killed/min.ir whole/min.ir
  cmp killed/report.md whole/report.md
  asked=$(wc -l < asked)
  total=$(($(wc -l < killed/probes.log) - 1))
  [ "$asked" -le $((total + 1)) ] || fails "$asked asked for $total probes ($known were known)"
done
expect 0 ' 0 asked now' slipway minify chain.sw -o killed --check 'sh counted.sh {ir}'

# Limits: the best so far.
expect 0 'stopped by a limit' slipway minify chain.sw -o limited --check '! grep -q aten.relu {ir}' --max-probes 6
nodes limited/min.ir relu > /dev/null || true
grep -q 'A limit of time or probes' limited/report.md || fails "the report does not say it"

# A check that answers by chance is found out.
cat > chance.sh <<'EOF'
n=$(cat count 2> /dev/null || echo 0)
echo $((n + 1)) > count
[ $((n % 2)) = 0 ] || exit 0
! grep -q aten.relu "$1"
EOF
expect 0 '1 node' slipway minify chain.sw -o chance --check 'sh chance.sh {ir}'
grep -q 'the check is flaky' stderr || fails "a flaky check is not reported"
grep -q 'flaky' chance/report.md || fails "a flaky check is not in the report"

# What is written is in OUT, whatever links are there: what they lead to stays.
mkdir linked outside
for name in min.ir min.pt2 inputs.safetensors repro.sh repro.py report.md probes.log; do
  echo precious > "outside/$name"
  ln -s "../outside/$name" "linked/$name"
done
ln -s ../outside linked/probes
ln -s ../outside linked/mine
expect 0 '1 node' slipway minify chain.sw -o linked --check '! grep -q aten.relu {ir}'
[ "$(cat outside/* | sort -u)" = precious ] && [ "$(ls outside | wc -l)" = 7 ] || fails "written through a link"
[ -f linked/min.ir ] && [ ! -L linked/min.ir ] && [ -L linked/mine ] || fails "links in OUT"
