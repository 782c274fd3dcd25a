# Documents name paths that exist, keep to 120 columns, and the architecture to one page; pictures are as drawn.
"$PYTHON" "$ROOT/scripts/check_docs.py"
"$PYTHON" "$ROOT/docs/guide/pictures.py" --check
