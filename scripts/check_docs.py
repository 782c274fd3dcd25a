#!/usr/bin/env python3
"""The documents: paths and anchors that they name exist, docs/architecture.md can be read in ten minutes, and prose has
120 columns at most. Says what is wrong and exits 1.

  check_docs.py          checks docs/, README.md, CONTRIBUTING.md, CHANGELOG.md
  check_docs.py --wrap   first wraps the paragraphs that have longer lines

A path is a link's target, a file that a diff changes, or a word in backticks whose first folder is one of the
repository's; in it * and words in capitals (tests/fuzz/NAME.cc) stand for anything. Tables, code and pages that a
program writes may be wider.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120
ARCHITECTURE_BYTES = 8192
WRITTEN = ("docs/ops.md",)  # by build/ops_doc
ITEM = re.compile(r"([-*]|\d+\.) +")
PATH = re.compile(r"[\w.*{},+-]+(?:/[\w.*{},+-]+)*/?")
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CHANGED = re.compile(r"^(?:---|\+\+\+) (\S+/\S+)(?!.*\(new)", re.M)
PLACEHOLDER = re.compile(r"\b(?!README|CONTRIBUTING|CHANGELOG|LICENSE|ISSUE|TEMPLATE|VERSION)[A-Z][A-Z_]+\b")


def tracked():
    """The repository's files, and those that could be added."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted(name for name in set(done.stdout.split("\0")[:-1]) if (ROOT / name).exists())


def blocks(text):
    """(first line, lines, whether they are prose): paragraphs and list items are prose; tables, code, headings,
    comments of HTML and blank lines are not."""
    out, prose, fence, comment, item = [], [], None, False, False

    def end():
        if prose:
            out.append((prose[0][0], [line for _, line in prose], True))
            prose.clear()

    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if fence or comment or bare.startswith(("```", "<!--", "|", "#")) or not bare:
            end()
            out.append((number, [line], False))
            if fence or (bare.startswith("```") and not comment):
                fence = None if fence and bare == "```" else "```"
            elif comment or bare.startswith("<!--"):
                comment = "-->" not in line
            elif bare:
                item = False
        elif line.startswith("    ") and not prose and not item:
            out.append((number, [line], False))  # code
        else:
            if ITEM.match(bare) and (line == bare or item or not prose):
                end()
                item = True
            elif not prose and line == bare:
                item = False
            prose.append((number, line))
    end()
    return out


def wrapped(lines):
    """A paragraph in lines of 120 columns, not broken inside of backticks or before what would begin an item."""
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    text = " ".join(line.strip() for line in lines)
    first = ITEM.match(text)
    begin = indent + (first[0] if first else "")
    text = SPAN.sub(lambda m: m[0].replace(" ", "\0"), text[first.end() :] if first else text)
    text = re.sub(r" (?=(?:[-*+>|]|#+|\d+\.)(?: |$))", "\0", text)
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_long_words=False,
        break_on_hyphens=False,
    ).replace("\0", " ")


def wrap(text):
    return "".join(
        (wrapped(lines) if prose and any(len(line) > COLUMNS for line in lines) else "\n".join(lines)) + "\n"
        for _, lines, prose in blocks(text)
    )


def expanded(path):
    """a/{b,c} as a/b and a/c."""
    if not (found := re.search(r"\{([^{}]*)\}", path)):
        return [path]
    return [
        more for part in found[1].split(",") for more in expanded(path[: found.start()] + part + path[found.end() :])
    ]


def anchors(text):
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", h).lower()).replace(" ", "-") for h in headings}


def check(name, files, folders, tops):
    text = (ROOT / name).read_text()
    page = re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)

    def line_of(match):
        return f"{name}:{page.count(chr(10), 0, match.start()) + 1}"

    for link in LINK.finditer(page):
        target, _, anchor = link[1].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (ROOT / name).parent / target if target else ROOT / name
        if not path.exists():
            yield f"{line_of(link)}: no {link[1]}"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
            yield f"{line_of(link)}: no heading #{anchor} in {path.relative_to(ROOT)}"
    for span in SPAN.finditer(page):
        for word in span[1].split():
            word = word.split(":")[0].rstrip(".,;")
            if "/" not in word or word.split("/")[0] not in tops or not PATH.fullmatch(word):
                continue
            for path in expanded(word):
                pattern = PLACEHOLDER.sub("*", path.rstrip("/"))
                if not any(fnmatch.fnmatchcase(f, pattern) for f in (folders if path.endswith("/") else files)):
                    yield f"{line_of(span)}: no {path}"
    for changed in CHANGED.finditer(text):
        if changed[1] not in files:
            yield f"{name}:{text.count(chr(10), 0, changed.start()) + 1}: no {changed[1]}"
    if name in WRITTEN:
        return
    for number, lines, prose in blocks(text):
        for i, line in enumerate(lines):
            if prose and len(line) > COLUMNS:
                yield f"{name}:{number + i}: {len(line)} columns"


def main():
    files = tracked()
    folders = {str(parent) for f in files for parent in pathlib.PurePath(f).parents} - {"."}
    tops = {f.split("/")[0] for f in folders}
    pages = [f for f in files if re.fullmatch(r"docs/.*\.md|README\.md|CONTRIBUTING\.md|CHANGELOG\.md", f)]
    if sys.argv[1:] == ["--wrap"]:
        for name in set(pages) - set(WRITTEN):
            text = (ROOT / name).read_text()
            if (new := wrap(text)) != text:
                (ROOT / name).write_text(new)
    problems = [p for name in pages for p in check(name, [*files, *folders], folders, tops)]
    if (size := (ROOT / "docs/architecture.md").stat().st_size) > ARCHITECTURE_BYTES:
        problems.append(f"docs/architecture.md: {size} bytes, {ARCHITECTURE_BYTES} at most: details go to docs/design/")
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
