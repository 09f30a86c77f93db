"""PrimFunc, buffers and walks over programs."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import te, tir
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Node, assert_structural_equal, first_mismatch, structural_equal, structural_hash
from tilewright.support.errors import TVMError
from tilewright.tir import BufferLoad, Ramp, Var, decl_buffer
from tilewright.tir.stmt_functor import (
    child_stmts,
    ir_transform,
    post_order_visit,
    pre_order_visit,
    substitute,
)


def scaled(n: Any) -> tuple[tir.PrimFunc, Any]:
    """b[i] = a[i] * 2 for i < n."""
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="b")
    return te.create_prim_func([a, b]), a


def test_parameters_may_be_buffers() -> None:
    a = decl_buffer((4,), name="a")
    f = tir.PrimFunc([a, Var("n")], tir.Evaluate(0))
    assert [p.name for p in f.params] == ["a_handle", "n"]
    assert f.buffer_map[f.params[0]] is a
    assert f.checked_type.arg_types[1].dtype == "int32"  # type: ignore[attr-defined]


def test_functions_are_equal_up_to_names() -> None:
    (f, _), (g, _) = scaled(8), scaled(8)
    assert f is not g
    assert structural_equal(f, g)
    assert structural_hash(f) == structural_hash(g)
    (h, _) = scaled(16)
    assert first_mismatch(f, h) is not None
    with pytest.raises(ValueError, match=r"StructuralEqual check failed at .*: 8 != 16"):
        assert_structural_equal(f, h)


def test_paths_of_differences() -> None:
    i, j = Var("i"), Var("j")
    loop = tir.For(i, 0, 8, tir.ForKind.SERIAL, tir.Evaluate(i + 1))
    assert structural_equal(loop, tir.For(j, 0, 8, tir.ForKind.SERIAL, tir.Evaluate(j + 1)))
    assert str(first_mismatch(loop, loop.replace(extent=IntImm("int32", 16)))).startswith(".extent.value: 8 != 16")
    assert str(first_mismatch(loop, loop.replace(kind=tir.ForKind.PARALLEL))).startswith(".kind: 0 != 1")
    other = tir.For(j, 0, 8, tir.ForKind.SERIAL, tir.Evaluate(i + 1))
    assert str(first_mismatch(loop, other)).startswith(".body.value.a:")
    assert not structural_equal(i + 1, j + 1)
    assert structural_equal(i + 1, j + 1, map_free_vars=True)


def test_specialize_sizes() -> None:
    n = te.size_var("n")
    f, _ = scaled(n)
    buffer = f.buffer_map[f.params[0]]
    fixed = f.specialize({f.params[0]: decl_buffer((16,), buffer.dtype)})
    assert [int(b.shape[0]) for b in fixed.buffer_map.values()] == [16, 16]
    assert_structural_equal(fixed.with_attr("x", 1).body, scaled(16)[0].body, map_free_vars=True)


def test_specialize_scalars() -> None:
    n, out = Var("n"), decl_buffer((4,), "int32")
    f = tir.PrimFunc([out, n], tir.BufferStore(out, n + 1, [0]))
    fixed = f.specialize({n: 4})
    assert [p.name for p in fixed.params] == ["buffer_handle"]
    assert structural_equal(fixed.body.value, tir.Add(4, 1))  # type: ignore[attr-defined]


def test_specialize_refuses() -> None:
    f, _ = scaled(8)
    handle = f.params[0]
    with pytest.raises(TVMError, match="specialize: x is not a parameter; they are"):
        f.specialize({Var("x"): 3})
    with pytest.raises(TVMError, match="specialize: buffer a has 1 dimensions, the new one 2"):
        f.specialize({handle: decl_buffer((8, 8))})
    with pytest.raises(TVMError, match="specialize: buffer a has a dimension of 8, not 9"):
        f.specialize({handle: decl_buffer((9,))})


def test_substitute_reaches_buffers() -> None:
    n, i = Var("n"), Var("i")
    buffer = decl_buffer((n,), name="a")
    loop = tir.For(i, 0, n, tir.ForKind.SERIAL, tir.BufferStore(buffer, buffer[i] + 1.0, [i]))
    new = substitute(loop, {n: 4})
    assert int(new.extent) == 4
    assert int(new.body.buffer.shape[0]) == 4
    assert new.body.value.a.buffer is new.body.buffer
    assert substitute(loop, {Var("other"): 1}) is loop
    assert substitute(loop, {}) is loop


def test_visits() -> None:
    i = Var("i")
    stmt = tir.SeqStmt([tir.Evaluate(i + 1), tir.Evaluate(i * 2)])
    seen: list[str] = []
    post_order_visit(stmt, lambda x: seen.append(type(x).__name__))
    assert seen == ["Var", "IntImm", "Add", "Evaluate", "IntImm", "Mul", "Evaluate", "SeqStmt"]
    before: list[str] = []

    def outer(x: Node) -> bool:
        before.append(type(x).__name__)
        return not isinstance(x, tir.Add)

    pre_order_visit(stmt, outer)
    assert before == ["SeqStmt", "Evaluate", "Add", "Evaluate", "Mul", "Var", "IntImm"]
    assert child_stmts(stmt) == stmt.seq


def test_ir_transform_before_and_after() -> None:
    i = Var("i")
    stmt = tir.SeqStmt([tir.Evaluate(i + 1), tir.Evaluate(i * 2)])

    def double(x: Any) -> Any:
        return IntImm("int32", x.value * 2) if isinstance(x, IntImm) else None

    new = ir_transform(stmt, None, double)
    assert [int(s.value.b) for s in new.seq] == [2, 4]  # type: ignore[attr-defined]
    assert ir_transform(stmt, lambda x: None, lambda x: None) is stmt
    stopped = ir_transform(stmt, lambda x: x if isinstance(x, tir.Mul) else None, double, ["tir.Mul", "IntImm"])
    assert [int(s.value.b) for s in stopped.seq] == [2, 2]  # type: ignore[attr-defined]


def test_buffers_load_regions_and_vectors() -> None:
    a = decl_buffer((8, 16), "float32", "a")
    i = Var("i")
    assert isinstance(a[i, 0], BufferLoad)
    region = a[i, 0:4]
    assert isinstance(region, tir.BufferRegion)
    assert structural_equal(region.region[1], Range(0, 4))
    assert int(a[0:2, :].region[1].extent) == 16
    vector = a[i, 0:8:2]
    assert vector.dtype == "float32x4"
    assert isinstance(vector.indices[1], Ramp)
    assert a.vload([i, 0], "float32x8").dtype == "float32x8"
    store = a.vstore([i, 4], tir.const(1.0, "float32x4"))
    assert store.indices[1].lanes == 4
    with pytest.raises(TypeError, match="buffer a has 2 dimensions, but is indexed with 1"):
        _ = a[i]


def test_buffers_know_offsets_and_views() -> None:
    a = decl_buffer((8, 16), "float32", "a", scope="local")
    i, j = Var("i"), Var("j")
    assert a.scope() == "local"
    assert structural_equal(a.offset_of([i, j])[0], i * 16 + j)
    assert int(a.offset_of([2, 3])[0]) == 35
    s = Var("s")
    strided = decl_buffer((8, 16), "float32", strides=[s, 1])
    assert structural_equal(strided.offset_of([i, j])[0], i * s + j)
    flat = a.get_flattened_buffer()
    assert [int(d) for d in flat.shape] == [128]
    assert flat.data is a.data
    assert flat.get_flattened_buffer() is flat
    pointer = a.access_ptr("rw", offset=4)
    assert isinstance(pointer, PrimExpr)
    assert int(pointer.args[4]) == 3  # type: ignore[attr-defined]
    assert decl_buffer((4,), offset_factor=8).elem_offset.name == "buffer_elem_offset"  # type: ignore[attr-defined]


def test_buffers_refuse_other_dimensions() -> None:
    with pytest.raises(TypeError, match=r"buffer c: a dimension must be a scalar integer, but .* is float32"):
        decl_buffer((1.5,), name="c")
