#!/usr/bin/env bash
# Whether older releases of torch load and run what slipway writes. By hand or nightly: each release is a large
# download.
#
#   tests/releases/check.sh DIR [RELEASE...]
#
# DIR holds cases NAME.pt2 with NAME.safetensors beside it (input.N, output.N in flattened order). Each is converted to
# a PT2 archive for the release (2.9.1 and 2.6.0 unless said) and run there, in a virtual environment that is deleted
# afterwards. The last line is "N passed, M failed".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
slipway=${SLIPWAY:-$root/build/slipway}
cases=$1
shift
[[ $# -gt 0 ]] || set -- 2.9.1 2.6.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for release in "$@"; do
  printf '==> torch %s\n' "$release"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check ${PIP_TORCH_FLAGS:-} "torch==$release" numpy \
    safetensors
  target=2.9
  [[ $release == 2.9* || $release == 2.1[0-9]* ]] || target=2.6
  "$work/venv/bin/python" "$root/tests/releases/load_and_run.py" "$slipway" "$target" "$cases" "$work" || status=1
  rm -rf "$work/venv"
done
exit $status
