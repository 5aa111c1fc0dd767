# SPDX-License-Identifier: Apache-2.0
"""Scopes that forbid allocation, in a recording: the example test fails by itself under
`opmeter record`, and the report of that recording must count the same violations and name their
stack. Run by ctest; arguments: the opmeter command, the example test."""

import json
import os
import re
import subprocess
import sys
import tempfile

OPMETER, EXAMPLE = sys.argv[1:]


def main():
    with tempfile.TemporaryDirectory(prefix="opmeter-forbidden-") as folder:
        trace = os.path.join(folder, "trace.opm")
        done = subprocess.run([OPMETER, "record", "-q", "-o", trace, "--", EXAMPLE],
                              env=dict(os.environ, SHOW_FAILURE="1"), capture_output=True, text=True)
        said = re.search(r"^(\d+) allocations \((\d+) bytes\) in a block that allows none:", done.stdout,
                         re.MULTILINE)
        if done.returncode != 1 or not said:
            sys.exit(f"the example does not fail as it should (exit {done.returncode}):\n{done.stdout}"
                     f"{done.stderr}")
        expected = int(said.group(1))

        report = json.loads(subprocess.run([OPMETER, "report", "--json", "--all", trace], check=True,
                                           capture_output=True, text=True).stdout)
        if report["alloc"]["forbidden_calls"] != expected:
            sys.exit(f"the report counts {report['alloc']['forbidden_calls']} violations, the test saw "
                     f"{expected}")
        stacks = [s for s in report["stacks"] if s.get("forbidden_calls")]
        if sum(s["forbidden_calls"] for s in stacks) != expected:
            sys.exit("the violations of the stacks do not add up to the total")
        for stack in stacks:
            functions = [f.get("function", "") for f in stack["frames"]]
            if not any("QueuedMean::add" in f for f in functions):
                sys.exit(f"a violation's stack does not lead to QueuedMean::add: {functions}")
            if not any(str(f.get("file", "")).endswith("no_allocation_test.cc") for f in stack["frames"]):
                sys.exit("no frame of a violation has the file of the example")

        text = subprocess.run([OPMETER, "report", "--view", "stacks", trace], check=True,
                              capture_output=True, text=True).stdout
        if "inside scopes that forbid allocation" not in text or "QueuedMean::add" not in text:
            sys.exit(f"the terminal report does not name the violation:\n{text}")
        print(f"{expected} violations on {len(stacks)} stacks, in the test and in the report")


if __name__ == "__main__":
    main()
