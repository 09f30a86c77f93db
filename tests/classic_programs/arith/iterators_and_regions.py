import tvm
from tvm import arith, tir

x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
dom = {x: tvm.ir.Range(0, 8), y: tvm.ir.Range(0, 4)}
res = arith.detect_iter_map([x * 4 + y], dom)
assert len(res.indices) == 1 and not res.errors
assert (
    arith.detect_iter_map([x * 3 + y], dom).indices == [] or len(arith.detect_iter_map([x * 3 + y], dom).indices) == 0
)
back = arith.normalize_iter_map_to_expr(res.indices[0])
assert arith.Analyzer().can_prove_equal(back, x * 4 + y)
a, b = arith.detect_linear_equation(x * 3 + 5, [x])
assert int(a) == 3 and int(b) == 5
c = arith.detect_clip_bound(tir.all(x > 2, x < 9), [x])
assert [int(v) for v in c] == [3, 8]
d = arith.deduce_bound(x, x * 2 < 9, {}, {})
assert isinstance(d, arith.IntervalSet) and int(arith.Analyzer().simplify(d.max_value)) == 4
sets = arith.estimate_region_lower_bound([tvm.ir.Range.from_min_extent(x * 4, 4)], {x: tvm.ir.Range(0, 8)}, True)
assert int(sets[0].max_value) == 31
solution = arith.solve_linear_equations([tir.EQ(x + y, 10), tir.EQ(x - y, 2)], [x, y])
assert {str(k): int(arith.Analyzer().simplify(v)) for k, v in solution.src_to_dst.items()} == {"x": 6, "y": 4}
