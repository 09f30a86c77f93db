"""Cross compilation and RPC as classic scripts use them: tensor programs and networks, built here, run and timed on a board."""

import numpy as np
import onnx
import tvm
import tvm.relay.testing
from tvm import relay, rpc, te
from tvm.contrib import graph_executor, graph_runtime, utils
from tvm.contrib.debugger import debug_runtime

temp = utils.tempdir()
server = rpc.Server(host="127.0.0.1", port=9090, port_end=9199, key="", silent=True)
# The board is this process first, for a demonstration without one; then a server.
boards = [rpc.LocalSession(), rpc.connect("127.0.0.1", server.port, session_timeout=300)]

# A tensor program: declared, compiled into an archive of objects, sent, called, timed.
n = tvm.runtime.convert(1024)
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
s = te.create_schedule(B.op)
add_one = tvm.build(s, [A, B], target="llvm", name="add_one")
add_one.export_library(temp.relpath("lib.tar"))
for remote in boards:
    remote.upload(temp.relpath("lib.tar"))
    func = remote.load_module("lib.tar")
    dev = remote.cpu()
    a = tvm.nd.array(np.random.uniform(size=1024).astype(A.dtype), dev)
    b = tvm.nd.array(np.zeros(1024, dtype=A.dtype), dev)
    func(a, b)
    np.testing.assert_equal(b.numpy(), a.numpy() + 1)
    time_f = func.time_evaluator(func.entry_name, dev, number=10)
    assert time_f(a, b).mean > 0
    for path in ("lib.tar", "lib.so", "lib.o"):
        add_one.export_library(temp.relpath(path))
        remote.upload(temp.relpath(path), target="again_" + path)
        b = tvm.nd.empty((1024,), "float32", dev)
        remote.load_module("again_" + path)["add_one"](a, b)
        np.testing.assert_equal(b.numpy(), a.numpy() + 1)

# A network, deployed on a board.
batch_size, num_class, image_shape = 1, 10, (3, 28, 28)
data_shape = (batch_size, *image_shape)
out_shape = (batch_size, num_class)
mod, params = relay.testing.resnet.get_workload(
    num_layers=8, batch_size=batch_size, image_shape=image_shape, num_classes=num_class
)
x = np.random.uniform(size=data_shape).astype("float32")
with tvm.transform.PassContext(opt_level=3):
    lib = relay.build(mod, tvm.target.Target("llvm"), params=params)
here = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
here.run(data=x)
want = here.get_output(0).numpy()
lib_fname = temp.relpath("net.tar")
lib.export_library(lib_fname)
for remote in boards:
    remote.upload(lib_fname)
    rlib = remote.load_module("net.tar")
    dev = remote.cpu(0)
    module = graph_executor.GraphModule(rlib["default"](dev))
    module.set_input("data", tvm.nd.array(x))
    module.run()
    out = module.get_output(0)
    assert out.numpy().shape == out_shape
    tvm.testing.assert_allclose(out.numpy(), want, rtol=1e-5)
    assert np.argmax(out.numpy()[0]) == np.argmax(want[0])
    prof_res = np.array(module.module.time_evaluator("run", dev, number=1, repeat=2)().results) * 1000
    assert len(prof_res) == 2 and prof_res.min() > 0
    for end_to_end in (False, True):
        result = module.benchmark(dev, number=1, repeat=2, end_to_end=end_to_end, data=x)
        assert len(result.results) == 2 and "mean (ms)" in str(result)

# The older form has three results; the parameters are sent to the board.
graph, lib, params = relay.build(mod, "llvm", params=params)
lib.export_library(temp.relpath("deploy.tar"))
for remote in boards:
    remote.upload(temp.relpath("deploy.tar"))
    rlib = remote.load_module("deploy.tar")
    dev = remote.cpu(0)
    module = graph_runtime.create(graph, rlib, dev)
    module.set_input(**{k: tvm.nd.array(v, dev) for k, v in params.items()})
    module.run(data=tvm.nd.array(x, dev))
    tvm.testing.assert_allclose(module.get_output(0).numpy(), want, rtol=1e-5)
    module = graph_runtime.GraphModule(graph_executor.create(graph, rlib, dev).module)
    module.load_params(relay.save_param_dict(params))
    module.set_input("data", x)
    module.run()
    tvm.testing.assert_allclose(module.get_output(0, tvm.nd.empty(out_shape)).numpy(), want, rtol=1e-5)
    debug = debug_runtime.create(graph, rlib, dev, dump_root=temp.relpath("dump"))
    debug.load_params(relay.save_param_dict(params))
    report = debug.profile(data=x)
    assert any("conv2d" in call["Name"] for call in report.calls)
    try:
        graph_executor.create(graph, rlib, tvm.cpu(0))
    except ValueError as error:
        assert "the library is in a session, but the devices are cpu(0)" in str(error)
    else:
        raise AssertionError("a library of a session took a device of this process")

# A network of an importer; its classes by the value of their scores.
weight = np.random.uniform(-1, 1, (12, 4)).astype("float32")
node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
proto = onnx.helper.make_graph(
    [node],
    "net",
    [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 12])],
    [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 4])],
    [onnx.numpy_helper.from_array(weight, "w")],
)
mod, params = relay.frontend.from_onnx(onnx.helper.make_model(proto), {"x": (2, 12)})
with tvm.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm", params=params)
lib.export_library(temp.relpath("imported.so"))
remote = boards[1]
remote.upload(temp.relpath("imported.so"))
module = graph_executor.GraphModule(remote.load_module("imported.so")["default"](remote.cpu(0)))
x = np.random.uniform(size=(2, 12)).astype("float32")
module.set_input("x", x)
module.run()
tvm.testing.assert_allclose(module.get_output(0).numpy(), x @ weight, rtol=1e-5)

server.terminate()
