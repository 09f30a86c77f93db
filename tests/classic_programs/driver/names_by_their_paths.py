"""Names from the modules that define them, as programs import them."""

import pickle

import numpy as np
import tvm
from tvm import te, tir
from tvm._ffi.base import string_types
from tvm._ffi.runtime_ctypes import DataType, Device
from tvm.contrib import cc, nvcc, pickle_memoize, tar
from tvm.contrib.popen_pool import PopenWorker
from tvm.driver.build_module import get_binds, lower, schedule_to_module
from tvm.relay.backend import Executor, Runtime
from tvm.relay.testing import count_ops, mlp, resnet
from tvm.runtime.container import ADT, ShapeTuple, String, tuple_object
from tvm.support import libinfo
from tvm.target.codegen import target_has_features
from tvm.te.hybrid import runtime as hybrid_names
from tvm.testing.utils import enabled_targets
from tvm.tir.block_scope import StmtSRef
from tvm.tir.schedule.state import ScheduleState
from tvm.tir.transform.transform import Simplify
from tvm.topi import arm_cpu, cuda, generic, x86
from tvm.topi import testing as references
from tvm.utils import roofline_analysis

A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] * 2 + 1 - 1, name="B")
s = te.create_schedule(B.op)
mod = schedule_to_module(s, [A, B], name="twice")
assert [g.name_hint for g in mod.get_global_vars()] == ["twice"] and isinstance(Simplify()(mod), tvm.IRModule)
assert "A" in str(lower(s, [A, B], simple_mode=True))
buffers, params = get_binds([A, B, te.var("n")])
assert params[:2] == [buffers[A], buffers[B]] and [b.name for b in params[:2]] == ["A", "B"]
n = te.size_var("n")
open_ = te.placeholder((n,), name="open")
assert get_binds([open_])[0][open_].buffer_type != get_binds([open_], compact=True)[0][open_].buffer_type
out = tvm.nd.empty((8,))
tvm.build(lower(s, [A, B], binds=buffers), target="llvm")(tvm.nd.array(np.arange(8, dtype="float32")), out)
np.testing.assert_array_equal(out.numpy(), 2 * np.arange(8))

state = ScheduleState(te.create_prim_func([A, B]))
assert isinstance(state.get_sref(state.mod["main"].body.block), StmtSRef)
for package in (generic, x86, arm_cpu, cuda):
    assert package.schedule_injective([B]).stages
np.testing.assert_allclose(references.softmax_python(np.ones((1, 4), "float32")), 0.25)

assert isinstance("text", string_types) and DataType("float32x4").lanes == 4 and Device(1, 0) == tvm.cpu(0)
assert String("a") == "a" and list(ShapeTuple([1, 2])) == [1, 2] and len(tuple_object([out])) == 1
assert isinstance(tuple_object([]), ADT) and pickle.loads(pickle.dumps(String("text"))) == "text"
assert hybrid_names.HYBRID_GLOBALS["rsqrt"] is hybrid_names.rsqrt and hybrid_names.popcount(7) == 3
assert hybrid_names.inf("float32") == np.inf and hybrid_names.ninf("int8") == -128 and hybrid_names.sigmoid(0) == 0.5
assert tir.expr.convert is not None and int(tir.convert(3)) == 3

network, _ = mlp.get_workload(1)
assert sum(count_ops(network["main"]).values()) > 5
assert callable(resnet.get_net) and callable(roofline_analysis) and "llvm" in {t for t, _ in enabled_targets()}
assert str(Executor("aot")) and Runtime("crt").name == "crt"
assert (
    callable(cc.create_shared)
    and callable(tar.untar)
    and callable(nvcc.compile_cuda)
    and callable(pickle_memoize.memoize)
)
assert callable(PopenWorker) and isinstance(libinfo(), dict) and callable(target_has_features)
