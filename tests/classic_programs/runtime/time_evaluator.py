import numpy as np
import tvm
from tvm import te

A = te.placeholder((64,), name="A")
B = te.compute((64,), lambda i: A[i] + 1, name="B")
f = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="plus")
x, y = tvm.nd.array(np.zeros(64, "float32")), tvm.nd.empty((64,))
r = f.time_evaluator("plus", tvm.cpu(0), number=3, repeat=4, min_repeat_ms=0)(x, y)
assert isinstance(r, tvm.runtime.module.BenchmarkResult) and len(r.results) == 4
assert r.min <= r.median <= r.max and r.std >= 0
assert "Execution time summary" in str(r)
calls = []
g = tvm.runtime.convert(lambda: calls.append(1))
