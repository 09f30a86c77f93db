import numpy as np
import tvm
from tvm import relay

key = relay.random.threefry_key(7)
halves = relay.random.threefry_split(key)
pair = relay.random.uniform(halves[0], (1000,), dtype="float32", low=2.0, high=3.0)
bell = relay.random.normal(halves[1], (1000,), dtype="float32", mean=1.0, scale=0.5)
mod = tvm.IRModule.from_expr(relay.Function([], relay.Tuple([pair[1], bell[1], halves[0], halves[1]])))
u, n, left, right = [v.numpy() for v in relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()()]
assert u.min() >= 2 and u.max() < 3 and abs(u.mean() - 2.5) < 0.05
assert abs(n.mean() - 1) < 0.1 and abs(n.std() - 0.5) < 0.1
assert left.dtype == "uint64" and (left != right).any()
again = [v.numpy() for v in relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()()]
np.testing.assert_array_equal(again[0], u)
