# SPDX-License-Identifier: Apache-2.0
"""Holds docs/pitfalls.md to the tests that exist: every pitfall from 1 to 73 has one row, a row
without a test says why, and each test that is named is there. Run by ctest; argument: the
repository root."""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
PITFALLS = 73
# A row without a test must give its reason in these words.
REASONS = ("Cannot occur", "cannot record")


def gtest_names():
    """Suite.Test of every GoogleTest in the tree."""
    names = set()
    for path in (ROOT / "tests").rglob("*.cc"):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"\bTEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", text):
            names.add(f"{match.group(1)}.{match.group(2)}")
    return names


def rows():
    """(label, cells between the first and the last, named tests) of every table row."""
    for line in (ROOT / "docs/pitfalls.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and re.fullmatch(r"R?\d+", cells[0]):
            yield cells[0], cells[1:-1], re.findall(r"`([^`]+)`", cells[-1])


def main():
    tests = gtest_names()
    problems = []
    seen = []
    for label, cells, named in rows():
        seen.append(label)
        if not named and not any(reason in cells[-1] for reason in REASONS):
            problems.append(f"row {label} names no test and does not say why")
        for name in named:
            exists = (ROOT / name).is_file() if "/" in name else name in tests
            if not exists:
                problems.append(f"row {label} names {name}, which is not there")
    numbers = [label for label in seen if not label.startswith("R")]
    if numbers != [str(n) for n in range(1, PITFALLS + 1)]:
        problems.append(f"the rows are not 1 to {PITFALLS} in order: {len(numbers)} of them")
    if len(seen) == len(numbers):
        problems.append("the table of reports is missing")
    for problem in problems:
        print(f"docs/pitfalls.md: {problem}")
    print(f"{len(seen)} rows, {len(tests)} tests known")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
