import numpy as np
import tvm
from tvm import relay
from tvm.relay.backend import Executor, Runtime

x = relay.var("x", shape=(4,))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
aot = Executor("aot", {"interface-api": "packed", "unpacked-api": False})
assert aot.name == "aot" and aot["interface-api"] == "packed" and not aot["unpacked-api"]
assert Executor("graph", {"link-params": True})["link-params"]
crt = Runtime("crt", {"system-lib": True})
assert str(crt.name) == "crt" and crt["system-lib"]
assert set(Runtime.list_registered()) >= {"cpp", "crt"} and set(Executor.list_registered()) >= {"aot", "graph"}
try:
    Runtime("nothing")
except tvm.TVMError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
with tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": 5}, disabled_pass=["AlterOpLayout"]):
    assert tvm.transform.PassContext.current().config["relay.FuseOps.max_depth"] == 5
    lib = relay.build(mod, target=tvm.target.Target("llvm", host="llvm"), mod_name="own")
assert lib.libmod_name == "own"
m = tvm.contrib.graph_executor.GraphModule(lib["own"](tvm.cpu()))
m.run(x=np.zeros(4, "float32"))
np.testing.assert_array_equal(m.get_output(0).numpy(), 1)
try:
    tvm.transform.PassContext(config={"no.such.option": 1})
except AttributeError as error:
    assert "no.such.option" in str(error)
else:
    raise AssertionError
