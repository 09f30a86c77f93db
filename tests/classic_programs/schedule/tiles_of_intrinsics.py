import tvm
from tvm import te, tir
from tvm.tir.schedule.analysis import get_tensorize_loop_mapping
from tvm.tir.schedule.transform import tile_with_tensor_intrin
from tvm.tir.tensor_intrin.arm_cpu import ARM_DOT_4x4_i8_NEON_INTRIN, ARM_DOT_4x4_i8_SDOT_INTRIN, get_dotprod_intrin
from tvm.tir.tensor_intrin.cuda import WMMA_SYNC_16x16x16_f16f16f32_INTRIN
from tvm.tir.tensor_intrin.dot_product_common import DP4A_S8S8S32_INTRIN
from tvm.tir.tensor_intrin.metal import SIMDGROUP_MULTI_ACC_8x8x8_f16_INTRIN, get_simdgroup_intrin_group
from tvm.tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN


def product(m, n, k, dtypes, packed=None):
    a = te.placeholder((m, k), dtypes[0], "a")
    r = te.reduce_axis((0, k), "r")
    if packed is None:
        b = te.placeholder((k, n), dtypes[1], "b")
        right = lambda j: b[r, j]
    else:
        b = te.placeholder((n // packed, k // 4, packed, 4), dtypes[1], "b")
        right = lambda j: b[j // packed, r // 4, j % packed, r % 4]
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(dtypes[2]) * right(j).astype(dtypes[2]), r), "c")
    return tir.Schedule(te.create_prim_func([a, b, c]))


# A dense layer of bytes by a dot-product instruction, whose loops are split off and moved inside.
for intrin, types, lanes, word, target in (
    (
        VNNI_DOT_16x4_INTRIN,
        ("uint8", "int8", "int32"),
        16,
        "vpdpbusd",
        "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake",
    ),
    (
        ARM_DOT_4x4_i8_SDOT_INTRIN,
        ("int8", "int8", "int32"),
        4,
        "sdot",
        "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod",
    ),
    (ARM_DOT_4x4_i8_NEON_INTRIN, ("int8", "int8", "int32"), 4, "smull", "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"),
):
    sch = product(5, 32, 64, types, lanes)
    block = sch.get_block("c")
    loop = tile_with_tensor_intrin(sch, block, intrin)
    assert [int(sch.get(x).extent) for x in sch.get_loops(block)] == [5, 32 // lanes, 16, lanes, 4]
    assert sch.get(loop).extent == lanes
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    sch.tensorize(loop, intrin)
    assert word in str(sch.mod)
    assert word in tvm.build(sch.mod, target=target).get_source("asm")

# Which loops those are, and by how much extents would have to be padded.
desc = tir.TensorIntrin.get(WMMA_SYNC_16x16x16_f16f16f32_INTRIN).desc
half = ("float16", "float16", "float32")
sch = product(32, 48, 64, half)
info = get_tensorize_loop_mapping(sch, sch.get_block("c"), desc)
loops = [sch.get_sref(x) for x in sch.get_loops(sch.get_block("c"))]
assert [info.desc_loop_indexer[info.loop_map[x]] for x in loops] == [0, 1, 2] and info.block_iter_paddings is None
sch = product(32, 40, 60, half)
assert get_tensorize_loop_mapping(sch, sch.get_block("c"), desc) is None
info = get_tensorize_loop_mapping(sch, sch.get_block("c"), desc, allow_padding=True)
assert [int(n) for n in info.block_iter_paddings] == [1, 16, 16]
assert tile_with_tensor_intrin(sch, sch.get_block("c"), WMMA_SYNC_16x16x16_f16f16f32_INTRIN) is None
loop = tile_with_tensor_intrin(sch, sch.get_block("c"), WMMA_SYNC_16x16x16_f16f16f32_INTRIN, allow_padding=True)
assert [int(sch.get(x).extent) for x in sch.get_loops(sch.get_block("c"))] == [2, 3, 4, 16, 16, 16]

# A product on Metal's matrices of a simdgroup, 8 x 8 elements each.
sch = product(32, 32, 16, ("float16", "float16", "float16"))
group = get_simdgroup_intrin_group("shared", "global", "float16")
block = sch.get_block("c")
loop = tile_with_tensor_intrin(sch, block, SIMDGROUP_MULTI_ACC_8x8x8_f16_INTRIN)
i, j, k, *_ = sch.get_loops(block)
sch.bind(i, "blockIdx.y")
sch.bind(j, "blockIdx.x")
sums = sch.cache_write(block, 0, "metal.simdgroup")
sch.reverse_compute_at(sums, j)
for place, load in ((0, "load_a"), (1, "load_b")):
    shared = sch.cache_read(block, place, "shared")
    matrix = sch.cache_read(block, place, "metal.simdgroup")
    sch.compute_at(matrix, k)
    sch.compute_at(shared, k)
    sch.tensorize(sch.get_loops(matrix)[-2], group[load])
init = sch.decompose_reduction(block, k)
sch.tensorize(sch.get_loops(init)[-2], group["init"])
sch.tensorize(loop, group["compute"])
sch.tensorize(sch.get_loops(sums)[-2], group["store"])
source = tvm.build(sch.mod, target="metal").imported_modules[0].get_source()
for call in ("make_filled_simdgroup_matrix", "simdgroup_load", "simdgroup_multiply_accumulate", "simdgroup_store"):
    assert call in source, call

assert DP4A_S8S8S32_INTRIN == "dp4a_s8s8s32"
dot = tir.TensorIntrin.get(DP4A_S8S8S32_INTRIN)
assert "dp4a" in str(dot.impl) and tir.TensorIntrin.get("dp4a_u8u8u32") is not None
desc, impl = get_dotprod_intrin("uint8", "uint32")
assert desc.buffer_map[desc.params[2]].dtype == "uint32" and "udot" in str(impl)
