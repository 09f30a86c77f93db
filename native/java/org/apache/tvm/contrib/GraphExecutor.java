package org.apache.tvm.contrib;

import org.apache.tvm.Device;
import org.apache.tvm.Function;
import org.apache.tvm.Module;

/** Executors of graphs. */
public final class GraphExecutor {
  private GraphExecutor() {}

  /** The executor of a graph in JSON, with the functions of a library. */
  public static GraphModule create(String graphJson, Module library, Device device) {
    try (Function create = Function.getFunction("tvm.graph_executor.create")) {
      return new GraphModule(create.call(graphJson, library, device).asModule(), device);
    }
  }
}
