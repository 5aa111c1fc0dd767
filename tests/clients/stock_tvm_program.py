# SPDX-License-Identifier: Apache-2.0
"""Stock TVM's own graph executor, unmodified, runs a model; each run is announced to Opmeter. Arguments:
the factory library, the input's name and .npy file, how many runs. Prints the output's checksum."""

import hashlib
import sys

import numpy as np
import opmeter_annotate as opmeter
import tvm
from tvm.contrib import graph_executor

LIBRARY, NAME, INPUT, RUNS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

device = tvm.cpu()
module = graph_executor.GraphModule(tvm.runtime.load_module(LIBRARY)["default"](device))
module.set_input(NAME, np.load(INPUT))
run = module.module["run"]
graph = opmeter.graph("stock TVM")
for _ in range(RUNS):
    with opmeter.run(graph):
        run()
output = module.get_output(0).numpy()
print(hashlib.sha256(output.tobytes()).hexdigest())
