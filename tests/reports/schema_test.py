# SPDX-License-Identifier: Apache-2.0
"""Validates report JSON against docs/report.schema.json: outputs pass, broken ones do not.

Usage: schema_test.py SCHEMA WRITE_SAMPLES [REPORT.json ...]   exit 77 = python3-jsonschema absent
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed: skipped")
    sys.exit(77)


def strict(schema):
    """The same schema without room for keys that it does not describe: docs must know each key."""
    if isinstance(schema, dict):
        result = {key: strict(value) for key, value in schema.items()}
        if "properties" in schema and schema.get("type") == "object":
            result["additionalProperties"] = False
        return result
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    validator_class = getattr(jsonschema, "Draft202012Validator", None)
    if validator_class is None:
        print("python3-jsonschema does not know draft 2020-12: skipped")
        return 77
    validator_class.check_schema(schema)
    validator = validator_class(strict(schema))
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[2], folder], check=True)
        paths = sorted(pathlib.Path(folder).glob("*.json")) + [pathlib.Path(p) for p in sys.argv[3:]]
        documents = {path.name: json.loads(path.read_text()) for path in paths}
    for name, document in documents.items():
        for error in validator.iter_errors(document):
            failures += 1
            print(f"{name}: {error.json_path}: {error.message}")

    def break_at(path, value):
        document = copy.deepcopy(documents["sample.json"])
        place = document
        for key in path[:-1]:
            place = place[key]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        return document

    for path, value in [
        (["schema"], "opmeter.report/2"),
        (["alloc"], None),
        (["phases", "first", "heap", "calls"], None),
        (["phases", "first", "heap", "calls"], -1),
        (["ops", 0, "latency_ns", "p50"], "fast"),
        (["threads", 0, "role"], "boss"),
        (["stacks", 0, "domain"], "stack"),
        (["sizes", 0, "calls"], 0),
    ]:
        if validator.is_valid(break_at(path, value)):
            failures += 1
            print(f"a report with {path} = {value} is accepted")
    print(f"{len(documents)} documents, {failures} failures")
    return 1 if failures else 0


sys.exit(main())
