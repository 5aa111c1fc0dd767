/* SPDX-License-Identifier: Apache-2.0
 * A C11 program that uses every function of opmeter.h: three runs of two ops, a worker with a
 * token, a pool, a no-allocation scope, marks. The counts are known
 * (tests/preload/annotations_test.cc). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "opmeter/opmeter.h"

static void* volatile sink;

static void* work(void* token) {
  opm_context_attach(*(opm_context*)token);
  sink = malloc(301); /* charged to the op that gave the token */
  free(sink);
  opm_context_detach();
  sink = malloc(307); /* no context any more: inferred while one run is open */
  free(sink);
  return NULL;
}

int main(void) {
  const int64_t shape[] = {2, 3};
  const opm_tensor in = {"x", shape, 2, 2, 32, 1, 24};
  const opm_tensor out = {"y", shape, 2, 2, 32, 1, 24};
  opm_graph graph = opm_graph_declare("toy");
  opm_op_desc desc = {sizeof desc, graph, 0, "first", "kind_a", 1, 0, 1, 1, &in, &out};
  opm_op first = opm_op_declare(&desc);
  opm_op second;
  opm_pool_desc pool_desc = {sizeof pool_desc, "toy pool", OPM_DOMAIN_WORKSPACE, 1, 0};
  opm_pool pool = opm_pool_create(&pool_desc);
  void* block = NULL;
  desc.index = 1;
  desc.name = "second";
  desc.kind = "kind_b";
  second = opm_op_declare(&desc);
  opm_info("model", "toy");
  opm_info("pool", "toy pool");
  sink = malloc(101); /* phase load */

  for (int run = 0; run < 3; ++run) {
    opm_phase(run == 0 ? OPM_PHASE_WARMUP : OPM_PHASE_STEADY);
    opm_run_begin(graph);
    sink = malloc(103); /* (executor) */
    free(sink);

    opm_op_push(first);
    opm_pool_alloc_begin(pool);
    if (run == 0) block = malloc(4096); /* backing: the pool grows */
    opm_pool_alloc_end(pool, block, 1000);
    opm_kernel_begin();
    sink = malloc(107);
    free(sink);
    opm_kernel_end();
    opm_pool_free_begin(pool, block);
    opm_pool_free_end(pool);
    opm_op_pop();

    opm_op_push(second);
    {
      pthread_t thread;
      opm_context token = opm_context_get();
      pthread_create(&thread, NULL, work, &token);
      pthread_join(thread, NULL);
    }
    opm_forbid_alloc_begin();
    sink = malloc(109); /* forbidden */
    free(sink);
    opm_forbid_alloc_end();
    opm_op_pop();
    opm_run_end();
    sink = malloc(113); /* (outside) */
    free(sink);
  }
  {
    opm_span span = opm_span_start(first, 7);
    opm_span_end(span);
  }
  opm_mark("all runs done");
  opm_flush();
  opm_pool_destroy(pool);
  return opm_enabled() ? 0 : 10;
}
