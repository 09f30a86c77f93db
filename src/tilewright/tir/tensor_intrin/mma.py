"""The PTX instructions mma and ldmatrix as tensor intrinsics: a warp multiplies tiles that are in its registers.

A tile in registers is a buffer (32, n) of scope "warp": n elements of each lane. A product is 16 x 16 x k, two instructions m16n8k of k
= 16 (float16, bfloat16), 32 (int8, float8) or 8 (tf32).

Names: mma_ldmatrix_f16_a, mma_ldmatrix_f16_b_trans_dyn (_dyn: from dynamic shared memory), mma_f16f16f32_trans_b, mma_fill_16x16_f32,
mma_store_16x16_f32_global_. "trans": the first operand is stored (k, m), the second one (n, k). mma_f16f16f32_m16n8k8: the same product by
smaller instructions, which are all that sm_75 has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

from tilewright.ir import DataType
from tilewright.tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IterVar,
    Stmt,
    Var,
    const,
    decl_buffer,
    stmt_seq,
)
from tilewright.tir.arithmetic import cast_to
from tilewright.tir.builtin import mma_fill, mma_store, ptx_ldmatrix, ptx_mma
from tilewright.tir.op import address_of
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.tensor_intrin.mma_layouts import (
    K_DIMS,
    M_DIM,
    N_DIM,
    WARP_SIZE,
    Place,
    ldmatrix_32x8_to_shared_16x16_layout,
    loads_whole,
    operand_layout,
    operand_shape,
    row_address,
    shared_16x16_to_ldmatrix_32x8_layout,
)
from tilewright.tir.tensor_intrin.tile_programs import Intrinsics, Pair, function, nest, tile

KINDS = {
    "float16": ("f16", "fp16"), "bfloat16": ("bf16", "bf16"), "float32": ("tf32", "tf32"), "int8": ("i8", "int8"),
    "uint8": ("u8", "uint8"), "float8_e4m3fn": ("e4m3", "e4m3"), "float8_e5m2": ("e5m2", "e5m2"),
}  # fmt: skip
"""Element type of operands -> (in names of intrinsics, in ptx_mma)."""
SUMS = {"float16": ("f16", "fp16"), "float32": ("f32", "fp32"), "int32": ("i32", "int32")}
"""Element type of sums -> the same."""
SUMS_OF = {"float16": ("float16", "float32"), "int8": ("int32",), "uint8": ("int32",)}
"""Element type of operands -> those of sums; float32 for others."""


INSTRUCTIONS = {"float16": ("m16n8k16", "m16n8k8"), "int8": ("m16n8k32", "m8n8k16"), "uint8": ("m16n8k32", "m8n8k16")}
"""Element type of operands -> shapes of the instructions that make the product of a tile, the largest first."""


def instructions_of(dtype: str) -> tuple[str, ...]:
    """The shapes of instructions that make the product of a tile of a type, the largest first."""
    return INSTRUCTIONS.get(dtype, (f"m16n8k{K_DIMS[DataType(dtype).bits]}",))


def sizes_of(shape: str) -> tuple[int, int, int]:
    """(m, n, k) of a shape such as "m16n8k16"."""
    m, n, k = [int(size) for size in re.findall(r"\d+", shape)]
    return m, n, k


def _registers(name: str, n: int, dtype: str) -> Buffer:
    return decl_buffer((WARP_SIZE, n), dtype, name, scope="warp", data_alignment=64, offset_factor=n)


def _of_lanes(make: Callable[[Var], Stmt]) -> Stmt:
    """A statement of each lane of a warp."""
    lane = Var("tx", "int32")
    axis = IterVar(None, Var("threadIdx.x", "int32"), IterVar.ThreadIndex, "threadIdx.x")
    return For(lane, 0, WARP_SIZE, ForKind.THREAD_BINDING, make(lane), axis)


def _each(n: int, make: Callable[[Var], Stmt]) -> Stmt:
    element = Var("local_id", "int32")
    return For(element, 0, n, ForKind.UNROLLED, make(element))


def get_ldmatrix_intrin(
    k_dim: int, dtype: str, matrix_name: str, transposed: bool, shared_scope: str = "shared"
) -> Pair:
    """Description and implementation of the load of an operand's tile from shared memory to registers.

    matrix_name: "A", (16, k_dim), or "B", (k_dim, 16); in reverse order if transposed. Loads by one ldmatrix, or element by element
    where ldmatrix cannot transpose (elements that have not 16 bits and do not run along k).
    """
    if matrix_name not in ("A", "B"):
        raise ValueError(f'matrix_name is "A" or "B", but {matrix_name!r} was given')
    if k_dim != K_DIMS[DataType(dtype).bits]:
        raise ValueError(
            f"tiles of {dtype} have {K_DIMS[DataType(dtype).bits]} elements along k, but {k_dim} was given"
        )
    shape, place = operand_shape(k_dim, matrix_name, transposed), operand_layout(k_dim, matrix_name, transposed)
    n = M_DIM * k_dim // WARP_SIZE
    made = []
    for implemented in (False, True):
        shared = tile("shared", shape, dtype, shared_scope, 16, implemented)
        registers = _registers("warp", n, dtype)

        def describe(i: Any, j: Any, shared: Buffer = shared, registers: Buffer = registers) -> Any:
            load = BufferLoad(shared, (i, j))
            return BufferStore(registers, load, place(i, j)), (load,)

        def loaded(lane: Var, shared: Buffer = shared, registers: Buffer = registers) -> Stmt:
            if loads_whole(dtype, matrix_name, transposed):
                trans = transposed == (matrix_name == "A")
                row = address_of(BufferLoad(shared, row_address(k_dim, dtype, matrix_name, transposed, lane)))
                to = registers.elem_offset + lane * n
                return Evaluate(ptx_ldmatrix(dtype, trans, 4, ".b16", registers.data, to, row, 0))

            def one(element: Var) -> Stmt:
                at = _element_of(k_dim, matrix_name, lane, element)
                return BufferStore(registers, BufferLoad(shared, at), (lane, element))

            return _each(n, one)

        body = _of_lanes(loaded) if implemented else nest(shape, "SS", "shared_warp", describe)
        made.append(function((registers, shared), [shared], registers, body))
    return made[0], made[1]


def _element_of(k_dim: int, matrix_name: str, lane: Any, element: Any) -> Place:
    """(row, column) in a tile that runs along the other axis than k: (k, m) of a first operand, (k, n) of a second one."""
    per = 4 if k_dim == 32 else 1
    register, byte = element // per, element % per
    along = lane // 4
    if matrix_name == "A":
        return register // 2 * 4 * per + lane % 4 * per + byte, register % 2 * 8 + along
    return register % 2 * 4 * per + lane % 4 * per + byte, register // 2 * 8 + along


def get_mma_intrin(
    k_dim: int,
    out_dtype: str,
    a_transposed: bool,
    b_transposed: bool,
    in_dtype: str | None = None,
    instruction: str = "",
) -> Pair:
    """Description and implementation of C[16, 16] += A * B on registers. The operands' tiles are as loaded for (transposed) memory.

    in_dtype: of the operands; None: float16 for k_dim 16, int8 for 32, and float32, rounded to tf32, for 8. instruction: one of
    `instructions_of` the type; "": the largest.
    """
    dtype = in_dtype or {16: "float16", 32: "int8", 8: "float32"}[k_dim]
    if out_dtype not in SUMS_OF.get(dtype, ("float32",)):
        raise ValueError(f"mma has no sums of {out_dtype} for operands of {dtype}")
    shapes = instructions_of(dtype)
    if instruction and instruction not in shapes:
        raise ValueError(f"tiles of {dtype} are multiplied by mma {' or '.join(shapes)}, but {instruction!r} was given")
    shape = instruction or shapes[0]
    rows, _, step = sizes_of(shape)
    # A register has neighbours along k; registers alternate between the upper and the lower eight rows.
    element = 32 // DataType(dtype).bits
    n = M_DIM * k_dim // WARP_SIZE
    sums = M_DIM * N_DIM // WARP_SIZE
    places = [operand_layout(k_dim, "A", a_transposed), operand_layout(k_dim, "B", b_transposed)]
    made = []
    for implemented in (False, True):
        a, b = _registers("A", n, dtype), _registers("B", n, dtype)
        c = _registers("C", sums, out_dtype)

        def describe(i: Any, j: Any, k: Any, a: Buffer = a, b: Buffer = b, c: Buffer = c) -> Any:
            total = BufferLoad(c, shared_16x16_to_ldmatrix_32x8_layout(i, j))
            left = BufferLoad(a, places[0](k, i) if a_transposed else places[0](i, k))
            right = BufferLoad(b, places[1](j, k) if b_transposed else places[1](k, j))
            value = total + cast_to(left, out_dtype) * cast_to(right, out_dtype)
            return BufferStore(c, value, total.indices), (total, left, right)

        def multiplied(lane: Var, a: Buffer = a, b: Buffer = b, c: Buffer = c) -> Stmt:
            kind, total = KINDS[dtype][1], SUMS[out_dtype][1]

            def part(along_k: int, columns: int, lower: int) -> Stmt:
                return Evaluate(
                    ptx_mma(
                        out_dtype, shape, "row", "col", kind, kind, total,
                        a.data, a.elem_offset + lane * n + (2 * along_k + lower) * element,
                        b.data, b.elem_offset + lane * n + columns * n // 2 + along_k * element,
                        c.data, c.elem_offset + lane * sums + columns * sums // 2 + lower * sums // 4,
                        False,
                    )
                )  # fmt: skip

            parts = product(range(k_dim // step), range(2), range(M_DIM // rows))
            return stmt_seq(*[part(*at) for at in parts])

        body = _of_lanes(multiplied) if implemented else nest((M_DIM, N_DIM, k_dim), "SSR", "update", describe)
        made.append(function((a, b, c), [c, a, b], c, body))
    return made[0], made[1]


def get_mma_fill_intrin(dtype: str, local_size: int) -> Pair:
    """Description and implementation of the initialisation of a tile of 16 x 16 sums by 0. local_size: 8, the sums of a lane."""
    made = []
    for implemented in (False, True):
        c = _registers("C", local_size, dtype)

        def describe(i: Any, j: Any, c: Buffer = c) -> Any:
            return BufferStore(c, const(0, dtype), shared_16x16_to_ldmatrix_32x8_layout(i, j)), ()

        def filled(lane: Var, c: Buffer = c) -> Stmt:
            return Evaluate(mma_fill(dtype, local_size, c.data, c.elem_offset + lane * local_size))

        body = _of_lanes(filled) if implemented else nest((M_DIM, N_DIM), "SS", "init", describe)
        made.append(function((c,), [], c, body))
    return made[0], made[1]


def get_mma_store_intrin(
    dtype: str, local_size: int, scope: str = "global", use_mma_store_intrinic: bool = True
) -> Pair:
    """Description and implementation of the store of a tile of 16 x 16 sums to memory.

    scope: of the memory. use_mma_store_intrinic: by the call mma_store; otherwise by stores of pairs of neighbours.
    """
    made = []
    for implemented in (False, True):
        c, to = _registers("C_warp", local_size, dtype), tile("C", (M_DIM, N_DIM), dtype, scope, 16, implemented)

        def describe(i: Any, j: Any, c: Buffer = c, to: Buffer = to) -> Any:
            load = BufferLoad(c, shared_16x16_to_ldmatrix_32x8_layout(i, j))
            return BufferStore(to, load, (i, j)), (load,)

        def stored(lane: Var, c: Buffer = c, to: Buffer = to) -> Stmt:
            if use_mma_store_intrinic:
                return Evaluate(
                    mma_store(
                        dtype,
                        M_DIM,
                        N_DIM,
                        to.access_ptr("w"),
                        c.data,
                        c.elem_offset + lane * local_size,
                        to.strides[0],
                    )
                )

            def one(element: Var) -> Stmt:
                at = ldmatrix_32x8_to_shared_16x16_layout(lane, element)
                return BufferStore(to, BufferLoad(c, (lane, element)), at)

            return _each(local_size, one)

        body = _of_lanes(stored) if implemented else nest((M_DIM, N_DIM), "SS", "store", describe)
        made.append(function((c, to), [c], to, body))
    return made[0], made[1]


INTRINSICS = Intrinsics("mma_")


def _suffix(dtype: str, instruction: str) -> str:
    """What names say of an instruction: nothing of the largest one."""
    return "" if instruction in ("", instructions_of(dtype)[0]) else f"_{instruction}"


def _register_operands(dtype: str) -> None:
    """The loads and products of one type of operands. The constants of other types than float16 and int8 are ours."""
    short, k = KINDS[dtype][0], K_DIMS[DataType(dtype).bits]
    for scope, dyn in (("shared", ""), ("shared.dyn", "_dyn")):
        for operand in "AB":
            for trans in (False, True):
                end = f"_{operand}{'_TRANS' if trans else ''}{dyn.upper()}"
                INTRINSICS.add(
                    f"LDMATRIX_{short}{end}_INTRIN",
                    f"mma_ldmatrix_{short}{end.lower()}",
                    get_ldmatrix_intrin, k, dtype, operand, trans, scope,
                )  # fmt: skip
    for out_dtype in SUMS_OF.get(dtype, ("float32",)):
        kinds = f"{short}{short}{SUMS[out_dtype][0]}"
        for trans_a in (False, True):
            for trans_b in (False, True):
                end = ("_TRANS_A" if trans_a else "") + ("_TRANS_B" if trans_b else "")
                for shape in instructions_of(dtype):
                    by = _suffix(dtype, shape)
                    INTRINSICS.add(
                        f"MMA_{kinds}{end}{by.upper()}_INTRIN",
                        f"mma_{kinds}{end.lower()}{by}",
                        get_mma_intrin, k, out_dtype, trans_a, trans_b, dtype, shape,
                    )  # fmt: skip


def _register_sums(dtype: str) -> None:
    short = SUMS[dtype][0]
    INTRINSICS.add(f"MMA_fill_16x16_{short}_INTRIN", f"mma_fill_16x16_{short}", get_mma_fill_intrin, dtype, 8)
    for scope in ("global", "shared", "shared.dyn"):
        where = scope.replace(".", "_")
        for simple in (False, True):
            INTRINSICS.add(
                f"MMA_store_16x16_{short}_{where}_INTRIN{'_SIMPLE' if simple else ''}",
                f"mma_store_16x16_{short}_{where}_{'simple_' if simple else ''}",
                get_mma_store_intrin, dtype, 8, scope, not simple,
            )  # fmt: skip


for _dtype in KINDS:
    _register_operands(_dtype)
for _dtype in SUMS:
    _register_sums(_dtype)
TensorIntrin.register_family("mma_", INTRINSICS.get)


def get_mma_intrin_group(
    load_scope: str,
    store_scope: str,
    in_dtype: str,
    out_dtype: str,
    trans_a: bool,
    trans_b: bool,
    not_use_mma_store_intrinic: bool = True,
    store_to_smem_dtype: str | None = None,
    instruction: str = "",
) -> dict[str, str]:
    """The names of the intrinsics of a product: init, load_a, load_b, compute, store.

    load_scope: "shared" or "shared.dyn". store_scope: these or "global". in_dtype: one of KINDS. trans_a, trans_b: operands that are
    stored (k, m) and (n, k). not_use_mma_store_intrinic: sums are stored as pairs of neighbours. store_to_smem_dtype: the type in which
    sums are stored, if they are converted before; None: their own. instruction: one of `instructions_of` the type; "": the largest. Raises
    ValueError for others.
    """
    if load_scope not in ("shared", "shared.dyn") or store_scope not in ("global", "shared", "shared.dyn"):
        raise ValueError(
            f"tiles are loaded from shared memory, and stored there or to global, not {load_scope}, {store_scope}"
        )
    if in_dtype not in KINDS or out_dtype not in SUMS_OF.get(in_dtype, ("float32",)):
        raise ValueError(f"mma has no product of {in_dtype} with sums of {out_dtype}")
    short, out, dyn = KINDS[in_dtype][0], SUMS[out_dtype][0], "_dyn" if load_scope == "shared.dyn" else ""
    by_a, by_b = "_trans" if trans_a else "", "_trans" if trans_b else ""
    stored = SUMS[store_to_smem_dtype or out_dtype][0]
    simple = "simple_" if not_use_mma_store_intrinic else ""
    return {
        "init": f"mma_fill_16x16_{out}",
        "load_a": f"mma_ldmatrix_{short}_a{by_a}{dyn}",
        "load_b": f"mma_ldmatrix_{short}_b{by_b}{dyn}",
        "compute": f"mma_{short}{short}{out}{by_a and by_a + '_a'}{by_b and by_b + '_b'}{_suffix(in_dtype, instruction)}",
        "store": f"mma_store_16x16_{stored}_{store_scope.replace('.', '_')}_{simple}",
    }


__all__ = [
    "INSTRUCTIONS",
    "INTRINSICS",
    "KINDS",
    "SUMS",
    "SUMS_OF",
    "get_ldmatrix_intrin",
    "get_mma_fill_intrin",
    "get_mma_intrin",
    "get_mma_intrin_group",
    "get_mma_store_intrin",
    "instructions_of",
    "sizes_of",
]
