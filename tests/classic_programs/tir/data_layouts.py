from tvm import tir

src = tir.layout("NCHW")
assert len(src) == 4 and src[1] == "C" and src.name == "NCHW"
assert "c" not in src and src.index_of("H") == 2
blocked = tir.layout("NCHW16c")
assert blocked.factor_of("c") == 16 and blocked.factor_of("C") == 16 and blocked.factor_of("N") == -1
lay = tir.bijective_layout("NCHW", "NCHW16c")
assert [int(v) for v in lay.forward_shape((2, 32, 7, 7))] == [2, 2, 7, 7, 16]
assert [int(v) for v in lay.backward_shape((2, 2, 7, 7, 16))] == [2, 32, 7, 7]
assert [int(v) for v in lay.forward_index([0, 18, 6, 6])] == [0, 1, 6, 6, 2]
