import ast

import numpy as np
import tvm
from scipy import sparse
from tvm import relay, te, topi
from tvm.te import hybrid
from tvm.topi.cuda.sparse import is_valid_for_sparse_dense_padded, pad_sparse_matrix

# Rows of sparse matrices in whole groups.
rng = np.random.default_rng(0)
dense = rng.standard_normal((6, 8)).astype("float32") * (rng.random((6, 8)) < 0.4)
for matrix in (sparse.csr_matrix(dense), sparse.bsr_matrix(dense, blocksize=(2, 2))):
    padded = pad_sparse_matrix(matrix, 4)
    assert type(padded) is type(matrix) and not (np.diff(padded.indptr) % 4).any()
    np.testing.assert_array_equal(padded.toarray(), dense)


def typed(shape):
    var = relay.var("x", shape=shape)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([var], var)))["main"].params[0]


assert is_valid_for_sparse_dense_padded(typed((4, 64)), typed((9,)))
assert not is_valid_for_sparse_dense_padded(typed((4, 64)), typed((9, 16, 1)))


def run(outputs, *arrays):
    """The results of tensors whose inputs are the placeholders of the arrays."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    given = [tvm.nd.array(a) for _, a in arrays]
    made = [tvm.nd.empty([int(d) for d in t.shape], t.dtype) for t in outputs]
    args = [p for p, _ in arrays] + outputs
    tvm.build(te.create_schedule([t.op for t in outputs]), args, "interp")(*given, *made)
    return [m.numpy() for m in made]


keys, values = te.placeholder((6,), "int32", "keys"), te.placeholder((6,), "float32", "values")
k, v = np.array([3, -1, 0, 3, 2, -2], "int32"), np.arange(6, dtype="float32")
with tvm.target.Target("llvm"):
    order = run(topi.cuda.stable_sort_by_key_thrust(keys, values, for_scatter=True), (keys, k), (values, v))
    ends = np.where(k < 0, k + 6, k)
    np.testing.assert_array_equal(order[0], np.sort(ends))
    np.testing.assert_array_equal(order[1], v[np.argsort(ends, kind="stable")])
    (before,) = run(topi.cuda.scan_thrust(values, "float32"), (values, v))
    (upto,) = run(topi.cuda.scan_thrust(values, "float32", exclusive=False), (values, v))
np.testing.assert_array_equal(upto, np.cumsum(v))
np.testing.assert_array_equal(before, np.cumsum(v) - v)

packed = te.placeholder((2, 3, 2, 1, 4, 5), "int32", "packed")
data = rng.integers(0, 9, (2, 3, 2, 1, 4, 5)).astype("int32")
(flat,) = run(topi.cuda.unpack_HWNCnc_to_hwnc(packed, "float32"), (packed, data))
np.testing.assert_array_equal(flat, data.transpose(0, 1, 2, 4, 3, 5).reshape(2, 3, 8, 5))
assert topi.cuda.fdiv is tvm.tir.floordiv and topi.cuda.fmod is tvm.tir.floormod

# A hybrid script as text.
TEXT = """
def scaled(a):
    b = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        b[i] = a[i] * factor
    return b
"""
for source in (TEXT, ast.parse(TEXT)):
    made = hybrid.source_to_op(source, [values], {}, {"factor": 3})
    np.testing.assert_array_equal(run(made, (values, v))[0], v * 3)
assert tvm.ir.BaseFunc.attrs
assert [str(s) for s in relay.op.copy_shape_func(None, [keys], None)[0].shape] == ["6"]
batch = relay.transform.ChangeBatch({relay.var("x", shape=(1, 2)): 0}, 4)
assert callable(batch.transform_function) and callable(relay.transform.ChangeBatch.transform_function)
