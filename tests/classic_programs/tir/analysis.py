import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    C = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj] + 1.0


assert tir.analysis.verify_well_formed(f)
lca = tir.analysis.detect_buffer_access_lca(f)
assert len(lca) == 3
assert tir.analysis.estimate_tir_flops(tvm.IRModule({"main": f})) == 512
assert tir.analysis.verify_ssa(f)
assert tir.analysis.calculate_workspace_bytes(tvm.lower(f)["main"], 1) in (0, 1024)
block = f.body.block.body[0].body.body.block
reads, writes = tir.analysis.get_block_access_region(
    block,
    {b.data: b for b in f.buffer_map.values()} | {f.body.block.alloc_buffers[0].data: f.body.block.alloc_buffers[0]},
)[:2]
assert [r.buffer.name for r in reads] == ["A"] and [w.buffer.name for w in writes] == ["C"]
assert tir.analysis.expr_deep_equal(tir.const(1) + 2, tir.const(1) + 2)
assert [v.name for v in tir.analysis.undefined_vars(tir.Evaluate(tir.Var("q", "int32")), [])] == ["q"]
assert tir.analysis.verify_gpu_code(tvm.lower(f)["main"], {"max_threads_per_block": 32})
