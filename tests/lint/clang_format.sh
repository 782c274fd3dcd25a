# C and C++ as .clang-format has them. Tables of one row a line stand between "clang-format off" and "on".
cd "$ROOT"
git ls-files -z '*.cc' '*.h' '*.c' | xargs -0 -P 2 -n 64 "$(dirname "$PYTHON")/clang-format" --dry-run --Werror
