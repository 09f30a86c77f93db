import pickle

import tvm

a = tvm.runtime.convert([1, 2, tvm.runtime.String("three")])
assert len(a) == 3 and a[0] == 1 and a[-1] == "three" and list(a[1:])[1] == "three"
assert isinstance(a, tvm.ir.Array)
m = tvm.runtime.convert({"x": 1, "y": [2, 3]})
assert isinstance(m, tvm.ir.Map) and m["x"] == 1 and len(m) == 2 and "z" not in m
assert sorted(k for k in m) == ["x", "y"] and m.get("z", 5) == 5
assert {k: v for k, v in m.items()}["x"] == 1
s = tvm.runtime.String("text")
assert s == "text" and s.startswith("te") and isinstance(s, str)
shape = tvm.runtime.ShapeTuple([1, 2, 3])
assert len(shape) == 3 and shape[2] == 3 and tuple(shape) == (1, 2, 3) and shape == tvm.runtime.ShapeTuple([1, 2, 3])
for value in (s, tvm.ir.Range(0, 4), tvm.tir.Var("x", "int32")):
    again = pickle.loads(pickle.dumps(value))
    assert tvm.ir.structural_equal(again, value, map_free_vars=True)
adt = tvm.runtime.container.tuple_object([tvm.nd.array([1.0]), tvm.nd.array([2.0])])
assert adt.tag == 0 and len(adt) == 2 and float(adt[1].numpy()[0]) == 2.0
try:
    a[3]
except IndexError:
    pass
else:
    raise AssertionError
