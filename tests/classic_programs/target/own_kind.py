"""A target of the program: its kind with options, what generic functions see of it, and its parts of a model."""

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.backend.contrib.uma.backend import UMABackend
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.target import Target, generic_func


class Accelerator(UMABackend):
    def __init__(self):
        super().__init__()
        self._register_target_attr("lanes", 8)
        self._register_target_attr("mode", "fast")
        self._register_pattern("sum", is_op("add")(wildcard(), wildcard()))

    @property
    def target_name(self):
        return "classic_own_kind"


backend = Accelerator()
backend.register()
t = Target("classic_own_kind -lanes=16")
assert t.kind.name == "classic_own_kind" and t.attrs["lanes"] == 16 and t.attrs["mode"] == "fast"
assert "classic_own_kind" in Target.list_kinds()
assert Target(t.export()) == t and Target(str(t)).attrs["lanes"] == 16
try:
    Target("classic_own_kind -nonsense=3")
except (ValueError, tvm.TVMError) as error:
    assert "nonsense" in str(error)
else:
    raise AssertionError("an unknown option")
with_host = Target("classic_own_kind", host="llvm")
assert with_host.host.kind.name == "llvm"


@generic_func
def lanes():
    return 1


@lanes.register("classic_key")
def _own():
    return int(Target.current().attrs["lanes"])


with Target("classic_own_kind -lanes=16 -keys=classic_key,cpu"):
    assert lanes() == 16
with Target("llvm"):
    assert lanes() == 1
x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
mod = backend.partition(tvm.IRModule.from_expr(relay.Function([x, y], relay.exp(relay.add(x, y)))))
lib = relay.build(mod, target=Target("classic_own_kind", host="llvm"))
run = graph_executor.GraphModule(lib["default"](tvm.cpu()))
a = np.arange(4, dtype="float32")
run.run(x=a, y=a)
np.testing.assert_allclose(run.get_output(0).numpy(), np.exp(2 * a), rtol=1e-5)
