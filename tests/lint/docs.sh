# Documents name paths that exist, keep to 120 columns, and the architecture to one page.
"$PYTHON" "$ROOT/scripts/check_docs.py"
