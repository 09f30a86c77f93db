import tvm
from tvm import tir

m, n = tir.Var("m", "int32"), tir.Var("n", "int32")
A = tir.decl_buffer((m, n), dtype="float16", name="A")
assert A.dtype == "float16" and A.name == "A" and A.scope() == "global"
assert A.data.dtype == "handle" and str(A.data.type_annotation) == 'T.handle("float16")'
assert len(A.strides) == 0 and A.offset_factor == 1 and A.data_alignment == 64
load = A.vload([1, 2], "float16")
assert isinstance(load, tir.BufferLoad)
store = A.vstore([1, 2], tir.const(1, "float16"))
assert isinstance(store, tir.BufferStore)
assert tir.decl_buffer((4, 4)).offset_of([1, 2])[0].value == 6
B = tir.decl_buffer((4, 4), strides=[8, 1], elem_offset=3, name="B")
flat = B.get_flattened_buffer()
assert len(flat.shape) == 1
ptr = A.access_ptr("rw")
assert ptr.op.name == "tir.tvm_access_ptr" and ptr.args[-1].value == 3
assert A.access_ptr("w", offset=10).args[2].value == 10
shared = tir.decl_buffer((8,), scope="shared", name="S")
assert shared.scope() == "shared"
region = tir.BufferRegion(B, [tvm.ir.Range(0, 4), tvm.ir.Range.from_min_extent(1, 2)])
assert [int(r.extent) for r in region.region] == [4, 2]
