"""Lines of code over 120 columns: file, line, columns; exits 1 if there are any. Data (schemas/, texts of the IR) and
documents are no code."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120
CODE = ("*.cc", "*.h", "*.c", "*.S", "*.py", "*.sh", "*.bash", "*.cmake", "CMakeLists.txt", ".ci/run")


def main():
    files = subprocess.run(["git", "ls-files", "-z", *CODE], cwd=ROOT, check=True, capture_output=True, text=True)
    found = False
    for name in files.stdout.split("\0")[:-1]:
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if len(line) > COLUMNS:
                print(f"{name}:{number}: {len(line)} columns")
                found = True
    sys.exit(found)


if __name__ == "__main__":
    main()
