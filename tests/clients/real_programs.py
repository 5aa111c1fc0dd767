# SPDX-License-Identifier: Apache-2.0
"""Records real programs, which know nothing of Opmeter, and holds each recording to three things:

  - the program says and does the same as unrecorded: output, exit code, files that it writes;
  - the trace is whole: complete, nothing lost, and `opmeter report` reads it;
  - its counts are memcheck's, where valgrind can run the program and the program always does the same.

Programs that are not installed are listed at the end; when none is, the whole run is skipped (exit
77). Run by ctest; by hand it tells more:

  python3 tests/clients/real_programs.py build/release/bin/opmeter [NAME...]
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
LIMIT_S = 300

# Of a program that does the same each time, memcheck and Opmeter count the same. What may differ has
# one cause: each tool adds variables to the environment (LD_PRELOAD and its own), and interpreters
# copy the environment into their heap. Such programs get room for that and no more.
EXACT = (0, 0)
ENVIRONMENT = (64, 16 * 1024)  # calls, bytes

SOURCE = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }
int main(int argc, char** argv) {
  qsort(argv, (size_t)argc, sizeof *argv, compare);
  for (int i = 0; i < argc; ++i) puts(argv[i]);
  return 0;
}
"""

PYTHON = """
words = {}
for i in range(5000):
    words.setdefault(str(i * i % 997), []).append(i)
print(len(words), sorted(words, key=lambda w: (-len(words[w]), w))[:5])
"""

NUMPY = """
import numpy as np
a = np.arange(40000, dtype=np.float64).reshape(200, 200)
b = a @ a.T / a.sum()
print(round(float(np.trace(b)), 6), np.round(np.sort(b, axis=None)[-3:], 6))
"""

PERL = """
my %count; my @lines = map { join ' ', map { $_ * 7 % 13 } 1 .. $_ % 17 } 1 .. 2000;
for (@lines) { $count{$_}++ for split / / }
print join(' ', map { "$_=$count{$_}" } sort { $a <=> $b } keys %count), "\\n";
"""

SQL = """
create table t(id integer primary key, word text, n real);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 3000)
  insert into t select i, 'w' || (i * 7919 % 1009), i / 7.0 from c;
create index by_word on t(word);
select word, count(*), round(sum(n), 3) from t group by word order by 2 desc, 1 limit 5;
select count(*) from t a join t b on a.word = b.word where a.id < b.id;
"""

NODE = """
const words = new Map();
for (let i = 0; i < 20000; ++i) words.set('k' + i * 7 % 101, (words.get('k' + i * 7 % 101) || 0) + i);
const buffer = Buffer.alloc(1 << 20, 'opmeter');
console.log(words.size, require('crypto').createHash('sha256').update(buffer).digest('hex'));
"""

JAVA = """
import java.util.*;
public class Main {
  public static void main(String[] args) throws Exception {
    List<Thread> threads = new ArrayList<>();
    long[] sums = new long[4];
    for (int t = 0; t < 4; ++t) {
      final int n = t;
      threads.add(new Thread(() -> { for (int i = 0; i < 100000; ++i) sums[n] += i % (n + 3); }));
    }
    for (Thread t : threads) t.start();
    for (Thread t : threads) t.join();
    System.out.println(Arrays.toString(sums));
  }
}
"""


class Program:
    """One program: how it is started and what it may leave behind. `arguments` run in a folder of
    their own, made anew for each run by `prepare`."""

    def __init__(self, name, executable, arguments, *, prepare=None, environment=None, memcheck=None,
                 outputs=(), follow=False, probe=None):
        self.name = name
        self.executable = executable
        self.arguments = arguments
        self.prepare = prepare or (lambda folder: None)
        self.environment = environment or {}
        self.memcheck = memcheck  # tolerance (calls, bytes); None = valgrind cannot judge it
        self.outputs = outputs    # files that it writes, compared
        self.follow = follow      # its children are recorded, too
        self.probe = probe        # arguments that must succeed for it to count as installed

    def missing(self):
        path = shutil.which(self.executable)
        if path is None:
            return f"{self.executable} is not installed"
        if self.probe:
            done = subprocess.run([path, *self.probe], capture_output=True, text=True)
            if done.returncode != 0:
                return f"{self.executable} {' '.join(self.probe)} fails"
        return None

    def command(self):
        return [shutil.which(self.executable), *self.arguments]

    def run(self, folder, prefix):
        """Runs it under `prefix`; what it said and did, and its exit code."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "OPMETER_"))}
        env.update(self.environment, LC_ALL="C", TZ="UTC", HOME=str(folder))
        done = subprocess.run([*prefix, *self.command()], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=LIMIT_S)
        did = [done.stdout]
        for name in self.outputs:
            path = folder / name
            did.append(path.read_bytes() if path.exists() else b"(missing)")
        return hashlib.sha256(b"\0".join(did)).hexdigest(), done.returncode, done.stderr


class Server(Program):
    """redis-server: what it does is what it answers to a client."""

    def run(self, folder, prefix):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen([*prefix, *self.command(), "--port", str(port)], cwd=folder,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)
        try:
            answers = self.talk(port)
            said = server.communicate(timeout=60)[1]
        finally:
            if server.poll() is None:
                server.kill()
        return hashlib.sha256(answers).hexdigest(), server.returncode, said

    @staticmethod
    def talk(port):
        for _ in range(200):
            try:
                link = socket.create_connection(("127.0.0.1", port), timeout=30)
                break
            except OSError:
                time.sleep(0.05)
        else:
            return b"(no server)"
        answers = b""

        def ask(*words):
            parts = [b"*%d\r\n" % len(words)]
            for word in words:
                word = word.encode()
                parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
            link.sendall(b"".join(parts))

        with link:
            count = 3000
            for i in range(count):
                ask("SET", f"key{i % 500}", "v" * (i * 37 % 2000))
                ask("LPUSH", f"list{i % 7}", str(i))
                ask("STRLEN", f"key{i * 3 % 500}")
            expected, lines = 3 * count, 0
            while lines < expected:
                data = link.recv(1 << 16)
                if not data:
                    return answers + b"(closed)"
                answers += data
                lines = answers.count(b"\r\n")
            ask("SHUTDOWN", "NOSAVE")
            while link.recv(1 << 16):
                pass
        return answers


def write(name, text):
    return lambda folder: (folder / name).write_text(text)


def git_repository(folder):
    env = dict(os.environ, HOME=str(folder), GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_DATE="@1 +0000",
               GIT_COMMITTER_DATE="@1 +0000")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", "."], cwd=folder, env=env, check=True)
    for n in range(8):
        (folder / f"file{n % 3}.c").write_text(SOURCE + f"/* {n} */\n" * n)
        subprocess.run(["git", "add", "."], cwd=folder, env=env, check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"change {n}"], cwd=folder, env=env, check=True)


def programs():
    python = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    return [
        Program("python3", "/usr/bin/python3", ["-B", "-c", PYTHON], environment=python,
                memcheck=ENVIRONMENT),
        Program("python3 with numpy", "/usr/bin/python3", ["-B", "-c", NUMPY], environment=python,
                memcheck=ENVIRONMENT, probe=["-c", "import numpy"]),
        Program("sqlite3", "sqlite3", [":memory:", SQL], memcheck=EXACT),
        Program("git", "git", ["log", "-p", "--stat", "--no-color"], prepare=git_repository,
                environment={"GIT_PAGER": "cat", "GIT_CONFIG_NOSYSTEM": "1"}, memcheck=ENVIRONMENT),
        Program("gcc compiling a file", "gcc", ["-O2", "-c", "main.c", "-o", "main.o"],
                prepare=write("main.c", SOURCE), outputs=["main.o"], follow=True),
        Server("redis-server under load", "redis-server",
               ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]),
        Program("a JVM start", "java", ["-XX:TieredStopAtLevel=1", "Main.java"],
                prepare=write("Main.java", JAVA)),
        Program("node", "node", ["-e", NODE]),
        Program("ffmpeg", "ffmpeg", ["-v", "error", "-f", "lavfi", "-i",
                                     "testsrc=duration=1:size=160x120:rate=10", "-c:v", "mpeg2video",
                                     "-threads", "2", "-f", "md5", "-"]),
        Program("ImageMagick", "convert", ["-size", "96x64", "gradient:red-blue", "-rotate", "30",
                                           "-resize", "50%", "ppm:-"],
                environment={"MAGICK_THREAD_LIMIT": "1"}),
        Program("perl", "perl", ["-e", PERL], environment={"PERL_HASH_SEED": "0"},
                memcheck=ENVIRONMENT),
        Program("clang compiling a file", "clang", ["-O2", "-c", "main.c", "-o", "main.o"],
                prepare=write("main.c", SOURCE), outputs=["main.o"]),
    ]


def opmeter_json(opmeter, *arguments):
    done = subprocess.run([opmeter, *arguments, "--json"], capture_output=True, text=True,
                          timeout=LIMIT_S)
    if done.returncode != 0:
        raise AssertionError(f"opmeter {arguments[0]} ends with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def judge_trace(opmeter, trace):
    """The report of a trace that must be whole."""
    report = opmeter_json(opmeter, "report", str(trace))
    quality = report["quality"]
    if not quality["complete"] or quality["lost_events"] or quality["damaged_blocks"]:
        raise AssertionError(f"{trace.name} is not whole: {quality}")
    return report


def memcheck_totals(program, folder):
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    log = folder / "memcheck.log"
    prefix = [valgrind, "--tool=memcheck", "--leak-check=no", "--run-libc-freeres=no",
              "--run-cxx-freeres=no", "--undef-value-errors=no", f"--log-file={log}"]
    program.run(folder, prefix)
    found = re.search(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes",
                      log.read_text())
    return tuple(int(n.replace(",", "")) for n in found.groups()) if found else None


def fresh(root, name, program):
    """Every run happens under the same path: some programs' allocations depend on it."""
    folder = root / "run"
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    program.prepare(folder)
    return folder


def check(opmeter, program, root):
    """One line of what was found; AssertionError when something is wrong."""
    plain, plain_code, plain_said = program.run(fresh(root, "plain", program), [])
    traces = root / "traces"
    traces.mkdir(exist_ok=True)
    for old in traces.iterdir():
        old.unlink()
    prefix = [opmeter, "record", "-q", "-o", str(traces / "%p.opm")]
    if program.follow:
        prefix.append("--follow")
    begin = time.monotonic()
    recorded, code, said = program.run(fresh(root, "recorded", program), [*prefix, "--"])
    seconds = time.monotonic() - begin
    if code != plain_code:
        raise AssertionError(f"exit code {code} instead of {plain_code}: {said[-400:]}")
    if recorded != plain:
        raise AssertionError(f"does not say or do the same as unrecorded; stderr: {said[-400:]}")
    found = sorted(traces.iterdir())
    if not found:
        raise AssertionError(f"no trace: {said[-400:]}")
    reports = [judge_trace(opmeter, trace) for trace in found]
    total = {key: sum(r["alloc"]["total"][key] for r in reports) for key in ("calls", "frees", "bytes")}
    if total["calls"] == 0:
        raise AssertionError("an empty recording")
    line = f"{total['calls']} calls, {total['bytes']} bytes, {total['frees']} frees, {seconds:.1f} s"
    if len(found) > 1:
        line += f", {len(found)} processes"
    if program.memcheck is not None:
        judged = memcheck_totals(program, fresh(root, "memcheck", program))
        if judged is None:
            return line + "; valgrind cannot run it here"
        calls, frees, size = judged
        off = (total["calls"] - calls, total["frees"] - frees, total["bytes"] - size)
        most_calls, most_bytes = program.memcheck
        if abs(off[0]) > most_calls or abs(off[1]) > most_calls or abs(off[2]) > most_bytes:
            raise AssertionError(f"{line}; memcheck: {calls} calls, {size} bytes, {frees} frees")
        line += "; memcheck the same" if not any(off) else "; memcheck %+d calls, %+d frees, %+d bytes" % (
            tuple(-n for n in off))
    return line


def main():
    opmeter, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    missing, failed, held = [], [], 0
    for program in programs():
        if wanted and program.name not in wanted:
            continue
        reason = program.missing()
        if reason:
            missing.append(f"{program.name}: {reason}")
            continue
        with tempfile.TemporaryDirectory(prefix="opmeter-real-") as root:
            try:
                print(f"{program.name}: {check(opmeter, program, pathlib.Path(root))}", flush=True)
                held += 1
            except (AssertionError, subprocess.TimeoutExpired) as trouble:
                print(f"{program.name}: FAILED: {trouble}", flush=True)
                failed.append(program.name)
    for line in missing:
        print(f"skipped: {line}")
    if failed:
        return 1
    return 0 if held else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
