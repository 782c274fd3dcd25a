# No line of code is longer than 120 columns.
"$PYTHON" "$ROOT/scripts/check_lines.py"
