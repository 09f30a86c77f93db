/* The graph executor: calls kernels in the order of the nodes. */
#include "tilewright/micro.h"

static void* address_of(const struct tw_graph* graph, const struct tw_value* value, void** inputs, void** outputs, void* workspace) {
  switch (value->place) {
    case TW_INPUT:
      return value->offset < graph->input_count ? inputs[value->offset] : 0;
    case TW_OUTPUT:
      return value->offset < graph->output_count ? outputs[value->offset] : 0;
    case TW_CONSTANT:
      /* Kernels take constants by the same pointers as the rest, and do not write them. */
      return (void*)((uintptr_t)graph->constants + value->offset);
    case TW_WORKSPACE:
      return (uint8_t*)workspace + value->offset;
    default:
      return 0;
  }
}

int32_t tw_graph_run(const struct tw_graph* graph, void** inputs, void** outputs, void* workspace, void** args) {
  uint32_t n, k;
  for (n = 0; n < graph->node_count; ++n) {
    const struct tw_node* node = &graph->nodes[n];
    int32_t code;
    if (node->count > graph->most_arguments) return TW_WRONG_GRAPH;
    for (k = 0; k < node->count; ++k) {
      args[k] = address_of(graph, &graph->values[node->first + k], inputs, outputs, workspace);
      if (args[k] == 0) return TW_WRONG_GRAPH;
    }
    code = node->kernel(args);
    if (code != TW_OK) return code;
  }
  return TW_OK;
}
