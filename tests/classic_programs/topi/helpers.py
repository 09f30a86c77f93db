import tvm
from tvm import te, topi
from tvm.topi import tag
from tvm.topi.nn.utils import get_pad_tuple
from tvm.topi.utils import (
    equal_const_int,
    get_const_int,
    get_const_tuple,
    ravel_index,
    simplify,
    traverse_inline,
    unravel_index,
)

A = te.placeholder((2, 3), name="A")
assert get_const_tuple(A.shape) == (2, 3) and get_const_int(A.shape[1]) == 3 and equal_const_int(A.shape[0], 2)
B = topi.nn.relu(A)
assert tag.is_injective(B.op.tag) and tag.is_broadcast(B.op.tag)
assert tag.is_injective(topi.transpose(A).op.tag) and not tag.is_broadcast(topi.transpose(A).op.tag)
assert int(simplify(ravel_index((1, 2), (2, 3)))) == 5
assert [int(v) for v in unravel_index(tvm.tir.const(5), (2, 3))] == [1, 2]
assert get_pad_tuple((1, 2), (3, 3)) == (1, 2, 1, 2) and get_pad_tuple("SAME", (3, 3)) == (1, 1, 1, 1)
s = te.create_schedule(topi.exp(B).op)
seen = []
traverse_inline(s, s.outputs[0], lambda op: seen.append(op.name))
assert seen and seen[0] == s.outputs[0].name or len(seen) >= 1
