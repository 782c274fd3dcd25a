# The wheel: compiled, checked for what it needs of the system, and tried in an empty venv (packaging/check_wheel.py).
JOBS=1 "$ROOT/scripts/build_wheel.sh" > log 2>&1 || { tail -n 40 log; exit 1; }
tail -n 3 log
