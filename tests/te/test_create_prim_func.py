"""create_prim_func: blocks with exact regions, reductions, symbolic shapes, externs, names, and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import te, tir
from tilewright.node import structural_equal


def blocks(func: tir.PrimFunc) -> dict[str, tir.Block]:
    found: dict[str, tir.Block] = {}
    tir.stmt_functor.post_order_visit(
        func.body, lambda n: found.__setitem__(n.name_hint, n) if isinstance(n, tir.Block) else None
    )
    return found


def regions(items: tuple[tir.BufferRegion, ...]) -> list[str]:
    return [str(r) for r in items]


def matmul(n: Any = 128, m: Any = 32, k: Any = 64) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def test_matmul_block() -> None:
    func = te.create_prim_func(list(matmul()))
    block = blocks(func)["C"]
    assert regions(block.reads) == ["A[v_i, v_k]", "B[v_k, v_j]"]
    assert regions(block.writes) == ["C[v_i, v_j]"]
    assert str(block.init) == "C[v_i, v_j] = T.float32(0)" or "T.float32(0)" in str(block.init)
    assert [v.iter_type for v in block.iter_vars] == [0, 0, 2]
    assert func.attrs["global_symbol"] == "main" and func.attrs["tir.noalias"]


def test_equal_computes_give_equal_functions() -> None:
    assert structural_equal(te.create_prim_func(list(matmul())), te.create_prim_func(list(matmul())))
    assert not structural_equal(te.create_prim_func(list(matmul())), te.create_prim_func(list(matmul(k=65))))


def test_intermediates_become_root_buffers_and_names_are_unique() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="T_add")
    c = te.compute((8,), lambda i: b[i] + 1.0, name="T_add")
    d = te.compute((8,), lambda i: c[i] * 2.0, name="out")
    func = te.create_prim_func([d, a])
    assert [b.name for b in func.body.block.alloc_buffers] == ["T_add", "T_add_1"]  # type: ignore[attr-defined]
    assert list(blocks(func)) == ["T_add", "T_add_1", "out", "root"]
    assert [p.name for p in func.params] == ["var_out", "var_A"]


def test_loads_at_constant_distances_are_one_region() -> None:
    a = te.placeholder((16,), name="A")
    b = te.compute((13,), lambda i: a[i + 1] + a[i + 3] + a[i], name="B")
    assert regions(blocks(te.create_prim_func([a, b]))["B"].reads) == ["A[v_i:v_i + 4]"]


def test_loads_at_unrelated_places_read_the_whole_dimension() -> None:
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] + a[j, j], name="B")
    assert regions(blocks(te.create_prim_func([a, b]))["B"].reads) == ["A[0:16, v_j]"]


def test_padding_keeps_only_the_conditions_that_can_fail() -> None:
    a = te.placeholder((6,), name="A")
    b = te.compute((8,), lambda i: te.if_then_else(te.all(i >= 1, i < 7, i < 8), a[i - 1], 0.0), name="B")
    text = te.create_prim_func([a, b]).script()
    assert "B[v_i] = T.if_then_else(1 <= v_i and v_i < 7, A[v_i - 1], T.float32(0))" in text


def test_tuple_reduction_stores_after_all_values_are_known() -> None:
    x = te.placeholder((4, 8), name="X")
    k = te.reduce_axis((0, 8), "k")
    argmax = te.comm_reducer(
        lambda a, b: (tir.Select(a[1] >= b[1], a[0], b[0]), tir.Select(a[1] >= b[1], a[1], b[1])),
        lambda d0, d1: (tir.const(-1, d0), te.min_value(d1)),
        name="argmax",
    )
    index, value = te.compute((4,), lambda i: argmax((k, x[i, k]), axis=k), name="argmax")
    func = te.create_prim_func([x, index, value])
    block = blocks(func)["argmax"]
    assert regions(block.writes) == ["argmax_v0[v_i]", "argmax_v1[v_i]"]
    assert isinstance(block.body, tir.LetStmt) and isinstance(block.init, tir.SeqStmt)


def test_condition_of_a_reduction_selects_the_identity() -> None:
    x = te.placeholder((8,), name="X")
    k = te.reduce_axis((0, 8), "k")
    s = te.compute((1,), lambda i: te.sum(x[k], axis=k, where=k > 3), name="S")
    assert "S[v_i] + T.if_then_else(" in te.create_prim_func([x, s]).script()


def test_scalar_gets_a_spatial_variable() -> None:
    x = te.placeholder((), name="X")
    y = te.compute((), lambda: x[()] + 1.0, name="Y")
    block = blocks(te.create_prim_func([x, y]))["Y"]
    assert len(block.iter_vars) == 1 and regions(block.writes) == ["Y[()]"]


def test_several_outputs_become_several_blocks() -> None:
    x = te.placeholder((8,), name="X")
    lo, hi = te.compute((8,), lambda i: (x[i] - 1.0, x[i] + 1.0), name="bounds")
    func = te.create_prim_func([x, hi, lo])
    assert [p.name for p in func.params] == ["var_X", "var_bounds_v1", "var_bounds_v0"]
    assert {"bounds_v0", "bounds_v1"} <= set(blocks(func))


def test_symbolic_dimensions_and_scalars() -> None:
    n = te.var("n")
    scale = te.var("scale", "float32")
    x = te.placeholder((n,), name="X")
    y = te.compute((n,), lambda i: x[i] * scale, name="Y")
    func = te.create_prim_func([x, scale, y])
    assert func.params[1] is scale
    assert func.buffer_map[func.params[0]].shape[0] is n


def test_index_dtype_override() -> None:
    func = te.create_prim_func(list(matmul()), index_dtype_override="int64")
    block = blocks(func)["C"]
    assert {str(v.var.dtype) for v in block.iter_vars} == {"int64"}
    assert {str(d.dtype) for b in func.buffer_map.values() for d in b.shape} == {"int64"}


def test_attrs_become_annotations() -> None:
    x = te.placeholder((8,), name="X")
    y = te.compute((8,), lambda i: x[i], name="Y", attrs={"schedule_rule": "none"})
    z = te.compute((8,), lambda i: x[i] + y[i], name="Z", attrs={"layout_free_placeholders": [x]})
    func = te.create_prim_func([x, z])
    assert blocks(func)["Y"].annotations == {"schedule_rule": "none"}
    assert blocks(func)["Z"].annotations == {} and func.attrs["layout_free_buffers"] == (0,)


def test_extern_statement_on_the_functions_buffers() -> None:
    x = te.placeholder((8,), name="X")
    y = te.compute((8,), lambda i: x[i] + 1.0, name="Y")
    z = te.extern((8,), [y], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="Z")
    func = te.create_prim_func([x, z])
    block = blocks(func)["Z"]
    assert regions(block.reads) == ["Y[0:8]"] and regions(block.writes) == ["Z[0:8]"]
    assert "Y.data" in func.script() and "Z.data" in func.script()


def test_extern_primfunc_keeps_its_blocks() -> None:
    inner = te.create_prim_func(list(matmul(8, 8, 8)))
    a, b = te.placeholder((8, 8), name="P"), te.placeholder((8, 8), name="Q")
    c = te.extern_primfunc([a, b], inner)
    d = te.compute((8, 8), lambda i, j: c[i, j] + 1.0, name="D")
    func = te.create_prim_func([a, b, d])
    assert regions(blocks(func)["C"].reads) == ["P[v_i, v_k]", "Q[v_k, v_j]"]


def test_missing_input_is_named() -> None:
    a, _, c = matmul()
    with pytest.raises(ValueError, match=r"placeholder 'B' is read, but is not among the arguments; add it"):
        te.create_prim_func([a, c])


def test_scan_has_no_blocks() -> None:
    x = te.placeholder((4, 8), name="X")
    init = te.compute((1, 8), lambda _, i: x[0, i], name="init")
    state = te.placeholder((4, 8), name="state")
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    s = te.scan(init, update, state, inputs=[x])
    assert s.shape[0] == 4 and isinstance(s.op, te.ScanOp)
    with pytest.raises(TypeError, match="scan 'scan' has no form as blocks"):
        te.create_prim_func([x, s])
