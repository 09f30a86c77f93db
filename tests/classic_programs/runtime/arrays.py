import numpy as np
import tvm

a = tvm.nd.array(np.arange(6, dtype="float32").reshape(2, 3))
assert a.shape == (2, 3) and a.dtype == "float32" and a.device == tvm.cpu(0)
np.testing.assert_array_equal(a.numpy(), np.arange(6).reshape(2, 3))
b = tvm.nd.empty((2, 3), "float32", tvm.cpu(0))
a.copyto(b)
np.testing.assert_array_equal(b.numpy(), a.numpy())
b[:] = np.ones((2, 3), "float32")
assert b.numpy().sum() == 6
b.copyfrom(np.full((2, 3), 4, "float32"))
assert float(b.numpy()[1, 2]) == 4
c = a.copyto(tvm.cpu(0))
assert c.same_as(a) is False
h = tvm.nd.array(np.array([1, 2], "float16"))
assert h.dtype == "float16"
assert tvm.nd.array([1, 2, 3]).shape == (3,)
assert "NDArray" in repr(a) or "tvm.nd.NDArray" in repr(a)
try:
    a.copyfrom(np.zeros((4, 4), "float32"))
except ValueError as error:
    assert "shape" in str(error)
else:
    raise AssertionError
view = a._create_view((3, 2))
assert view.shape == (3, 2) and view.numpy()[2, 1] == 5
x = tvm.nd.from_dlpack(a.to_dlpack())
np.testing.assert_array_equal(x.numpy(), a.numpy())
