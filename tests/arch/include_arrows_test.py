# SPDX-License-Identifier: Apache-2.0
"""Holds the include arrows of ARCHITECTURE.md: reads every #include line of our sources and fails on
one that points where it must not. Also holds what code inside other people's programs (zone a) may
include. Run by ctest; argument: the repository root."""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
SUFFIXES = {".h", ".hpp", ".cc", ".c"}

# Folder -> folders that its files may include, beside their own and the public headers (opmeter/*).
# The longest matching folder counts. tests/ is not listed: it may include anything.
ARROWS = {
    "profiler/include": [],
    "profiler/trace": [],
    "profiler/recorder": ["profiler/trace"],
    "profiler/preload": ["profiler/recorder"],
    "profiler/annotate": ["profiler/recorder"],
    "profiler/device": ["profiler/recorder", "profiler/trace"],
    "profiler/symbolize": ["profiler/trace"],
    "profiler/analyze": ["profiler/trace", "profiler/symbolize", "reports"],
    "reports": [],
    "runtime": [],
    "bench": ["runtime", "reports", "profiler/analyze", "profiler/trace"],
    "examples": ["runtime"],
    "tools": ["profiler", "runtime", "reports", "bench"],
}

# Zone a runs inside the program under test: nothing that needs libstdc++ or allocates. The trace's
# vocabulary (profiler/trace/*.h) also declares what the reader's side uses, containers among it; that
# zone a takes only enumerations from there is what preload_symbols_test.py proves on the binary.
ZONE_A = ["profiler/preload", "profiler/recorder"]
NOT_ZONE_A = {"profiler/recorder/drain.h", "profiler/recorder/drain.cc"}
ZONE_A_CPP_HEADERS = {
    "array", "atomic", "bit", "cerrno", "climits", "cstddef", "cstdint", "cstdlib", "cstring", "ctime",
    "limits", "new", "type_traits", "utility",
}

DEVICE_HEADER = re.compile(r"^(cuda|cupti|nvtx|CL/|nvml)", re.IGNORECASE)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def includes(path):
    """(line number, name, quoted) of every include line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) or match.group(2), match.group(1) is not None


def folder_of(name):
    """The longest folder of ARROWS that holds the file, or its top folder."""
    best = ""
    for folder in ARROWS:
        if name.startswith(folder + "/") and len(folder) > len(best):
            best = folder
    return best or name.split("/")[0]


def sources():
    for top in ("profiler", "runtime", "bench", "reports", "tools", "examples"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path, path.relative_to(ROOT).as_posix()


def allowed(source, target):
    own = folder_of(source)
    if target.startswith("opmeter/"):
        return own != "reports"  # plain data: nothing but itself
    if not (ROOT / target).exists():
        return False
    if target.startswith(own + "/"):
        return True
    return any(target.startswith(folder + "/") for folder in ARROWS.get(own, []))


def zone_a_headers(name, seen):
    """Standard headers that a zone a file reaches through headers of ours: (header, by which)."""
    if name in seen or name.startswith("profiler/trace/"):
        return
    seen.add(name)
    path = ROOT / name
    if name.startswith("opmeter/"):
        path = ROOT / "profiler/include" / name
    for _, target, quoted in includes(path):
        if quoted:
            yield from zone_a_headers(target, seen)
        else:
            yield target, name


def main():
    problems = []
    files = 0
    for path, name in sources():
        files += 1
        for number, target, quoted in includes(path):
            where = f"{name}:{number}: "
            if DEVICE_HEADER.match(target) and "/device/" not in name:
                problems.append(where + f"{target}: device headers belong in */device/")
            if not quoted:
                continue
            if target.startswith(("tests/", "tools/")) and not name.startswith("tools/"):
                problems.append(where + f"nobody includes {target.split('/')[0]}/")
            elif not allowed(name, target):
                problems.append(where + f"{folder_of(name)} must not include {target}")
        if any(name.startswith(zone + "/") for zone in ZONE_A) and name not in NOT_ZONE_A:
            for header, by in zone_a_headers(name, set()):
                if not header.endswith(".h") and header not in ZONE_A_CPP_HEADERS:
                    problems.append(f"{name}: zone a must not reach <{header}> (through {by})")
    for problem in problems:
        print(problem)
    if files < 50:
        print(f"only {files} sources found under {ROOT}: the test looks in the wrong place")
        return 1
    print(f"{files} files, {len(problems)} arrows that point where they must not")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
