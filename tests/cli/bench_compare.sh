# Benchmarks record lines with the machine's facts; bench_compare.py tells what became slower.
cat > write.py <<'END'
import sys

import bench_build

bench_build.announce("slipway", sys.argv[1])
for case, seconds in (("a", float(sys.argv[2])), ("a", 1.0), ("b", 2.0)):
    bench_build.record(case, threads=2, slipway_s=seconds, torch_s=seconds / 2, other_s=None)
END
export PYTHONPATH=$ROOT/scripts
"$PYTHON" write.py old.jsonl 0.5
"$PYTHON" write.py new.jsonl 0.7
"$PYTHON" - <<'END'
import json

line = json.loads(open("old.jsonl").readline())
assert line["benchmark"] == "write" and line["numbers"] == {"slipway_s": 0.5, "torch_s": 0.25}, line
assert line["machine"]["cpu"] and line["machine"]["processors"] and line["version"] and line["build"], line
END
compare() { "$PYTHON" "$ROOT/scripts/bench_compare.py" "$@"; }
compare old.jsonl old.jsonl > same
grep -q '2 numbers, geometric mean of new / old 1.000, 0 slower' same
status=0
compare old.jsonl new.jsonl > slower || status=$?
[ $status = 1 ] && head -n 1 slower | grep -q '1.400  slower  write: a, 2 threads, slipway_s  0.5 -> 0.7'
compare old.jsonl new.jsonl --threshold 50 > /dev/null
compare old.jsonl new.jsonl --beside torch > /dev/null
status=0
echo '{"benchmark": 1}' > odd.jsonl
compare old.jsonl odd.jsonl 2> error || status=$?
[ $status = 1 ] && grep -q 'odd.jsonl:1: not a line' error
for file in "$ROOT"/benchmarks/*.jsonl; do
  [ ! -e "$file" ] || compare "$file" "$file" > same
done
