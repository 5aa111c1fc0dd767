# SPDX-License-Identifier: Apache-2.0
"""An installed Opmeter in somebody else's project: installs the build into a prefix, moves the prefix
(a package must not know where it was), builds tests/clients/installed against it by
find_package(opmeter), and runs what came out: linked with the hooks, with LD_PRELOAD, without, and
under the installed command. Run by ctest; arguments: cmake, build folder, repository root."""

import os
import pathlib
import subprocess
import sys
import tempfile

CMAKE, BUILD, ROOT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
CLIENT = ROOT / "tests/clients/installed"
SOURCE = ROOT / "examples/no_allocation_test.cc"
PASSES = "--gtest_filter=MovingMean.*"


def run(*command, **environment):
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "OPMETER_PRELOAD")}
    env.update(environment)
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def must(what, condition, output):
    if not condition:
        sys.exit(f"{what}\n{output}")


def main():
    with tempfile.TemporaryDirectory(prefix="opmeter-installed-") as folder:
        folder = pathlib.Path(folder)
        code, text = run(CMAKE, "--install", BUILD, "--prefix", folder / "first")
        must("cmake --install fails", code == 0, text)
        prefix = folder / "opt" / "opmeter"
        prefix.parent.mkdir()
        (folder / "first").rename(prefix)

        # Neither the build type nor flags of the surrounding build matter to a client.
        code, text = run(CMAKE, "-S", CLIENT, "-B", folder / "client", f"-DCMAKE_PREFIX_PATH={prefix}",
                         f"-DCLIENT_SOURCE={SOURCE}", "-DCMAKE_CXX_FLAGS=-g")
        must("the client does not configure", code == 0, text)
        code, text = run(CMAKE, "--build", folder / "client", "--parallel", "2")
        must("the client does not build", code == 0, text)
        preload, command = (folder / "client/places.txt").read_text().split()
        must("the package names files outside its prefix",
             preload.startswith(str(prefix)) and command.startswith(str(prefix)), preload + " " + command)
        linked, unlinked = folder / "client/linked", folder / "client/unlinked"

        code, text = run(linked)
        must("the linked client fails", code == 0 and "1 test" in text, text)
        code, text = run(linked, SHOW_FAILURE="1")
        must("the linked client does not see an allocation",
             code == 1 and "operator new of 512 bytes" in text, text)
        must("the failure has no file and line", "no_allocation_test.cc:" in text, text)
        code, text = run(unlinked, PASSES, LD_PRELOAD=preload)
        must("the client with LD_PRELOAD fails", code == 0, text)
        code, text = run(unlinked, LD_PRELOAD=preload, SHOW_FAILURE="1")
        must("the client with LD_PRELOAD does not see an allocation",
             code == 1 and "operator new of 512 bytes" in text, text)
        code, text = run(unlinked, PASSES)
        must("without hooks the client must fail and say why", code == 1 and "LD_PRELOAD=" in text, text)

        trace = folder / "client.opm"
        code, text = run(command, "record", "-q", "-o", trace, "--", unlinked, PASSES)
        must("the installed command does not record", code == 0, text)
        code, text = run(command, "report", trace)
        must("the installed command does not report", code == 0 and trace.stat().st_size > 0, text)
    print("installed, moved, found, linked, preloaded, recorded")


if __name__ == "__main__":
    main()
