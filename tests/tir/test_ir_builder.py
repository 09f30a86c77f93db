"""The IRBuilder: what its scopes build, and its errors."""

from __future__ import annotations

import pytest

from tilewright import te, tir
from tilewright.tir import decl_buffer, ir_builder


def test_loops_conditions_and_scopes() -> None:
    ib = ir_builder.create()
    out = decl_buffer((16,), "float32", "out")
    o = ib.buffer_ptr(out)
    n = te.var("n")
    ib.scope_attr(out.data, "storage_alignment", 128)
    tmp = ib.allocate("float32", (4,), name="tmp", scope="local")
    with ib.for_range(0, 4, "i") as i:
        tmp[i] = o[i] * 2
        with ib.if_scope(i < n):
            o[i] = tmp[i]
        with ib.else_scope():
            o[i] = 0
    with ib.for_range(1, n, kind="parallel") as j:
        x = ib.let("x", o[j] + 1.0)
        o[j] = x
    with ib.while_loop(o[0] < 10.0):
        o[0] = o[0] * 2.0
    ib.emit(tir.call_extern("int32", "f", o.asobject()))
    body = ib.get()
    assert tir.PrimFunc([out], body, attrs={"global_symbol": "f"}).script().split("\n")[6:] == [
        '    T.attr(out.data, "storage_alignment", 128)',
        '    tmp = T.allocate([4], "float32", "local")',
        "    tmp_1 = T.Buffer((4,), data=tmp)",
        "    for i in range(4):",
        "        tmp_1[i] = out[i] * T.float32(2)",
        "        if i < n:",
        "            out[i] = tmp_1[i]",
        "        else:",
        "            out[i] = T.float32(0)",
        "    for j in T.parallel(1, n):",
        "        x: T.float32 = out[j] + T.float32(1)",
        "        out[j] = x",
        "    while out[0] < T.float32(10):",
        "        out[0] = out[0] * T.float32(2)",
        '    T.call_extern("int32", "f", out.data)',
    ]


def test_flat_index_into_several_dimensions() -> None:
    ib = ir_builder.create()
    a = ib.buffer_ptr(decl_buffer((2, 3, 4), "float32", "A"))
    assert str(a[te.var("i")]) == "A[i // 4 // 3, i // 4 % 3, i % 4]"
    assert str(a[1, 2, 3]) == "A[1, 2, 3]"
    with pytest.raises(ValueError, match=r"buffer A has 3 dimensions, but was indexed with 2: \[1, 2\]"):
        a[1, 2]


def test_errors() -> None:
    ib = ir_builder.create()
    a = ib.buffer_ptr(decl_buffer((4,), "float32", "A"))
    with pytest.raises(ValueError, match="data type does not match content type float32 vs int32"):
        a[0] = te.var("i")
    with pytest.raises(ValueError, match="unknown kind of loop 'spiral'"):
        ib.for_range(0, 4, kind="spiral")
    with pytest.raises(RuntimeError, match="else_scope can only follow an if_scope"), ib.else_scope():
        pass
    scope = ib.for_range(0, 4)
    scope.__enter__()
    with pytest.raises(RuntimeError, match="1 scopes of the builder are still open"):
        ib.get()


def test_body_of_an_extern() -> None:
    def double(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8) as i:
            y[i] = x[i] * 2.0
        return ib.get()

    a = te.placeholder((8,), name="A")
    b = te.extern((8,), [a], double, name="B")
    assert "B[i] = A[i] * T.float32(2)" in te.create_prim_func([a, b]).script()
