"""Passes on TIR of one's own: looked up by visiting, made by ir_transform, run by hand and at each phase of lowering."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, tir
from tvm.ir.transform import PassContext

a = te.placeholder((96,), name="a")
b = te.placeholder((96,), name="b")
c = te.compute((96,), lambda i: a[i] * 2 + b[i], name="c")
sch = te.create_schedule(c.op)


def whole_loops(func, factor):
    found = []

    def note(node):
        if isinstance(node, tir.For) and isinstance(node.extent, tir.IntImm) and node.extent.value % factor == 0:
            found.append(node)

    tir.stmt_functor.post_order_visit(func.body, note)
    return found


@tir.transform.prim_func_pass(opt_level=0)
def strips_of_12(func, mod, ctx):
    """Loops of a multiple of 12 turns: strips outside, vectors inside."""
    chosen = whole_loops(func, 12)

    def strip(loop):
        if loop not in chosen:
            return None
        outer, inner = tir.Var(loop.loop_var.name + "_strip", "int32"), tir.Var(loop.loop_var.name + "_lane", "int32")
        body = tir.stmt_functor.substitute(loop.body, {loop.loop_var: outer * 12 + inner})
        body = tir.For(inner, 0, 12, tir.ForKind.VECTORIZED, body)
        return tir.For(outer, 0, loop.extent.value // 12, tir.ForKind.SERIAL, body)

    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, strip, ["tir.For"]))


x, y = np.random.rand(2, 96).astype("float32")


def run(mod_or_schedule, *args):
    out = tvm.nd.array(np.zeros(96, "float32"))
    tvm.build(mod_or_schedule, *args)(tvm.nd.array(x), tvm.nd.array(y), out)
    tvm.testing.assert_allclose(out.numpy(), 2 * x + y, rtol=1e-6)


plain = tvm.lower(sch, [a, b, c])
assert "for i in range(96)" in str(plain)
assert strips_of_12.info.name == "strips_of_12"
by_hand = strips_of_12(plain)
assert "T.vectorized(12)" in str(by_hand)

with PassContext(config={"tir.add_lower_pass": [(1, strips_of_12)]}):
    lowered = tvm.lower(sch, [a, b, c])
    assert "i_strip * 12:i_strip * 12 + 12" in str(lowered), lowered
    run(sch, [a, b, c])
    tensorir = tir.Schedule(te.create_prim_func([a, b, c]))
    assert "i_strip * 12:i_strip * 12 + 12" in str(tvm.lower(tensorir.mod["main"]))
    run(tensorir.mod)

seen = {}
for phase in range(4):

    @tir.transform.prim_func_pass(opt_level=0, name=f"look{phase}")
    def look(func, mod, ctx, phase=phase):
        seen[phase] = func
        return func

    with PassContext(config={"tir.add_lower_pass": [(phase, look), (1, strips_of_12)]}):
        tvm.lower(sch, [a, b, c])
assert "T.block" in str(seen[0]) and "T.block" not in str(seen[1])
assert "T.vectorized" not in str(seen[2]) and "i_strip * 12 + 12" in str(seen[3])

options = {
    "tir.UnrollLoop": {"auto_max_step": 4, "explicit_unroll": True},
    "tir.LoopPartition": {"partition_const_loop": True},
    "tir.disable_vectorize": True,
    "tir.instrument_bound_checkers": True,
    "tir.disable_cse_tir": True,
}
with PassContext(opt_level=3, config=options):
    assert "i_strip" not in str(tvm.lower(sch, [a, b, c]))
    run(sch, [a, b, c])
for name, value in {"tir.no_such_option": 1, "tir.disable_vectorize": "yes"}.items():
    try:
        PassContext(config={name: value})
    except (AttributeError, TypeError) as error:
        assert name in str(error)
    else:
        raise AssertionError(name)

# Passes of the package, one after the other, with what each changes.
stages = []


@tvm.instrument.pass_instrument
class Names:
    def run_after_pass(self, mod, info):
        stages.append(info.name)


mod = tvm.IRModule({"main": te.create_prim_func([a, b, c])})
with PassContext(instruments=[Names()]):
    flat = tvm.transform.Sequential(
        [
            tir.transform.LowerInitBlock(),
            tir.transform.PlanAndUpdateBufferAllocationLocation(),
            tir.transform.ConvertBlocksToOpaque(),
            tir.transform.CompactBufferAllocation(),
            tir.transform.LowerOpaqueBlock(),
            tir.transform.FlattenBuffer(),
            tir.transform.Simplify(),
            tir.transform.VectorizeLoop(True),
            tir.transform.StorageRewrite(),
            tir.transform.UnrollLoop(),
            tir.transform.RemoveNoOp(),
        ]
    )(mod)
assert stages[0] == "tir.LowerInitBlock" and len(stages) == 12
assert "T.block" not in str(flat) and tir.analysis.verify_well_formed(flat["main"])
assert tir.analysis.verify_ssa(flat["main"]) and tir.analysis.estimate_tir_flops(flat) == 192
