# Words that docs/glossary.md has given up stand in no source.
"$PYTHON" "$ROOT/scripts/check_words.py"
