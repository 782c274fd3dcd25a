# No file of code is longer than 600 lines, unless its first comment says why.
"$PYTHON" "$ROOT/scripts/check_file_length.py"
