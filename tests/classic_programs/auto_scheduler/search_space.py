import tvm
from tvm import auto_scheduler, te


@auto_scheduler.register_workload
def classic_programs_matmul_relu(N):
    A = te.placeholder((N, N), name="A")
    B = te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=[k]), name="C")
    D = te.compute((N, N), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return [A, B, D]


task = auto_scheduler.SearchTask(func=classic_programs_matmul_relu, args=(32,), target="llvm")
assert task.compute_dag.flop_ct >= 2 * 32**3
text = str(task.compute_dag)
assert "A = PLACEHOLDER [32, 32]" in text and "C(i, j) +=" in text
state = task.compute_dag.get_init_state()
C = state.stages[2].op if hasattr(state.stages[2], "op") else None
it = state.split(2, state.stages[2].iters[0], [4])
assert len(it) == 2
assert "for i.0" in str(state)
s, tensors = task.compute_dag.apply_steps_from_state(state)
assert "i_inner" in str(tvm.lower(s, tensors, simple_mode=True))
