# Some kills in every run; by hand tests/hostile/kills.py takes as many as one likes.
"$PYTHON" "$ROOT/tests/hostile/kills.py" 30
