import numpy as np
import tvm
from tvm import tir

im = tir.IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
assert [str(v) for v in im.map_indices([10, 3])] == ["2", "3", "2"]
assert [int(v) for v in im.map_shape([16, 8])] == [4, 8, 4]
back = im.inverse([16, 8])
assert [int(v) for v in back.map_indices([2, 3, 2])] == [10, 3]
again = tir.IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
assert im.is_equivalent_to(again)
padded = tir.IndexMap.from_func(lambda i: [i // 4, i % 4])
inverse, predicate = padded.non_surjective_inverse([14])
assert isinstance(predicate, tvm.ir.PrimExpr)
moved = im.map_ndarray(tvm.nd.array(np.arange(16 * 8, dtype="int32").reshape(16, 8)))
np.testing.assert_array_equal(moved.numpy(), np.arange(128).reshape(4, 4, 8).transpose(0, 2, 1))
