package org.apache.tvm.contrib;

import org.apache.tvm.Device;
import org.apache.tvm.Module;
import org.apache.tvm.NDArray;

/** An executor of a model: that of a graph, or what `library.getFunction("default")` makes. */
public class GraphModule {
  private final Module module;
  private final Device device;

  public GraphModule(Module module, Device device) {
    this.module = module;
    this.device = device;
  }

  public Device device() {
    return device;
  }

  public GraphModule setInput(String name, NDArray value) {
    return call("set_input", name, value);
  }

  public GraphModule setInput(int index, NDArray value) {
    return call("set_input", index, value);
  }

  /** Reads parameters from the content of a file that `save_param_dict` wrote. */
  public GraphModule loadParams(byte[] params) {
    return call("load_params", params);
  }

  public GraphModule run() {
    return call("run");
  }

  public NDArray getInput(int index) {
    return module.getFunction("get_input").call(index).asNDArray();
  }

  public NDArray getOutput(int index) {
    return module.getFunction("get_output").call(index).asNDArray();
  }

  /** Copies an output; returns the array. */
  public NDArray getOutput(int index, NDArray out) {
    call("get_output", index, out);
    return out;
  }

  public void release() {
    module.release();
  }

  private GraphModule call(String name, Object... args) {
    module.getFunction(name).call(args);
    return this;
  }
}
