# SPDX-License-Identifier: Apache-2.0
"""Stock TVM in Python, unmodified, on two threads: libgomp makes a team for each parallel region, an
allocation of 1568 bytes, in every run; the report must show each. Skipped (exit 77) unless
OPMETER_TVM_PYTHON names a Python that imports tvm 0.9 (pip install 'numpy<1.24' hhb-tvm==2.4.5).
Run by ctest; arguments: the opmeter command, the repository root."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

OPMETER, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
RUNS = 50
TEAM_BYTES = 1568


def tvm_python():
    python = os.environ.get("OPMETER_TVM_PYTHON")
    if not python:
        print("skipped: OPMETER_TVM_PYTHON does not name a Python with tvm")
        sys.exit(77)
    if subprocess.run([python, "-c", "import tvm"], capture_output=True).returncode != 0:
        sys.exit(f"{python} (OPMETER_TVM_PYTHON) cannot import tvm")
    return python


def main():
    data = ROOT / "tests/data/tvm"
    command = [tvm_python(), str(ROOT / "tests/clients/stock_tvm_program.py"), str(data / "cnn_09.so"), "data",
               str(data / "cnn_09.in.data.npy"), str(RUNS)]
    env = dict(os.environ, TVM_NUM_THREADS="2", OMP_NUM_THREADS="2", PYTHONPATH=str(ROOT / "examples"))
    plain = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory(prefix="opmeter-tvm-") as folder:
        trace = os.path.join(folder, "tvm.opm")
        done = subprocess.run([OPMETER, "record", "-q", "-o", trace, "--", *command], env=env,
                              capture_output=True, text=True)
        if done.returncode != 0 or done.stdout != plain.stdout:
            sys.exit(f"recorded, TVM does something else (exit {done.returncode}):\n{done.stdout}{done.stderr}")
        report = json.loads(subprocess.run([OPMETER, "report", "--json", "--all", trace], check=True,
                                           capture_output=True, text=True).stdout)
        # A bin of this one size.
        exact = json.loads(subprocess.run(
            [OPMETER, "report", "--json", "--all", "--bins", f"{TEAM_BYTES},{TEAM_BYTES + 1}", trace],
            check=True, capture_output=True, text=True).stdout)
        text = subprocess.run([OPMETER, "report", "--view", "stacks", trace], check=True,
                              capture_output=True, text=True).stdout
    if not report["quality"]["complete"] or report["quality"]["lost_events"]:
        sys.exit(f"the trace is not whole: {report['quality']}")
    if report["runs"]["count"] != RUNS:
        sys.exit(f"{report['runs']['count']} runs are seen, not {RUNS}")
    steady = report["alloc"]["steady_per_run"]
    if steady["runs_with_calls"] != steady["runs"]:
        sys.exit(f"not every steady run allocates: {steady}")

    def is_team(stack):
        modules = [os.path.basename(f["module"]) for f in stack["frames"][:2]]
        return any(m.startswith("libgomp") for m in modules) and stack["bytes"] == TEAM_BYTES * stack["calls"]

    teams = [s for s in report["stacks"] if is_team(s)]
    calls = sum(s["calls"] for s in teams)
    if calls == 0:
        sys.exit(f"no stack of libgomp allocates {TEAM_BYTES} bytes:\n{text}")
    in_phase = {b["phase"]: b["calls"] for b in exact["sizes"]
                if b["domain"] == "heap" and b["min_bytes"] == TEAM_BYTES}
    first, per_steady = in_phase.get("first", 0), in_phase.get("steady", 0) / max(steady["runs"], 1)
    if first == 0 or per_steady != first:
        sys.exit(f"the {TEAM_BYTES}-byte allocations are not the same in every run: {in_phase}")
    if not any("libgomp" in f["module"] for s in teams for f in s["frames"]) or "libgomp" not in text:
        sys.exit(f"the terminal report does not name libgomp:\n{text}")
    print(f"{first} teams of {TEAM_BYTES} bytes in each of {RUNS} runs; {steady['calls']} calls and "
          f"{steady['bytes']:.0f} bytes a steady run")
    print(text)


if __name__ == "__main__":
    main()
