"""Lines of code over 120 columns: file, line, columns; exits 1 if there are any. Data (schemas/, texts of the IR) and
documents are no code."""

import sys

from tracked import tracked_lines

COLUMNS = 120
CODE = ("*.cc", "*.h", "*.c", "*.S", "*.css", "*.js", "*.py", "*.sh", "*.bash", "*.cmake", "CMakeLists.txt", ".ci/run")


def main():
    found = False
    for name, lines in tracked_lines(*CODE):
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS:
                print(f"{name}:{number}: {len(line)} columns")
                found = True
    sys.exit(found)


if __name__ == "__main__":
    main()
