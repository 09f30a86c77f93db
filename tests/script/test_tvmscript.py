"""The TVMScript text of every construct of tir, as goldens."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.ir import GlobalVar, IRModule, PointerType, PrimType, Range
from tilewright.ir.dtype import DataType
from tilewright.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    Let,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    Ramp,
    SeqStmt,
    Var,
    While,
    const,
    decl_buffer,
)

Golden = Callable[[str, str], None]
TRUE = const(True)


def handle(name: str, dtype: str = "float32", scope: str = "global") -> Var:
    return Var(name, PointerType(PrimType(DataType(dtype)), scope))


def func(buffers: list[tir.Buffer], body: tir.Stmt, **attrs: object) -> PrimFunc:
    return PrimFunc(buffers, body, attrs={"global_symbol": "main", **attrs})


def test_conv_with_padding_and_epilogue(golden: Golden) -> None:
    a, w = te.placeholder((1, 8, 14, 14), name="A"), te.placeholder((16, 8, 3, 3), name="W")
    pad = te.compute(
        (1, 8, 16, 16),
        lambda n, c, h, w: te.if_then_else(te.all(h >= 1, h < 15, w >= 1, w < 15), a[n, c, h - 1, w - 1], 0.0),
        name="pad",
    )
    rc, ry, rx = te.reduce_axis((0, 8), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    conv = te.compute(
        (1, 16, 14, 14),
        lambda n, o, h, x: te.sum(pad[n, rc, h + ry, x + rx] * w[o, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    relu = te.compute((1, 16, 14, 14), lambda *i: te.max(conv(*i), 0.0), name="relu")
    golden("conv", te.create_prim_func([a, w, relu]).script())


def test_symbolic_shapes(golden: Golden) -> None:
    n, m = te.var("n"), te.size_var("m", "int32")
    x = te.placeholder((n, m), name="X", dtype="float16")
    y = te.compute((n, m), lambda i, j: x[i, j].astype("float32") * (n - i), name="Y")
    golden("symbolic", te.create_prim_func([x, m, y]).script())


def test_loops(golden: Golden) -> None:
    a = decl_buffer((128,), "float32", "A")
    loops = []
    for kind in (ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED):
        i = Var("i")
        loops.append(For(i, 0, 128, kind, BufferStore(a, const(1.0), [i])))
    i, j, k = Var("i"), Var("j"), Var("k")
    loops.append(For(i, 2, 8, 0, BufferStore(a, const(2.0), [i])))
    loops.append(
        For(i, 0, 8, 0, BufferStore(a, const(2.0), [i]), None, {"pragma_unroll_explicit": 1, "tags": ["x", True]})
    )
    thread = IterVar(None, Var("threadIdx.x"), IterVar.ThreadIndex, "threadIdx.x")
    loops.append(For(k, 0, 8, ForKind.THREAD_BINDING, BufferStore(a, const(2.0), [k]), thread))
    # The extent of the inner loop depends on the outer one, so they do not share a grid.
    loops.append(For(i, 0, 8, 0, For(j, 0, i + 1, 0, BufferStore(a, const(3.0), [i + j]))))
    wide = Var("w", "int64")
    loops.append(For(wide, 0, 8, 0, BufferStore(a, const(4.0), [wide])))
    golden("loops", func([a], SeqStmt(loops)).script())


def test_flat_statements(golden: Golden) -> None:
    a = decl_buffer((64,), "float32", "A")
    flat = decl_buffer((16, 4), "float32", "A", data=a.data)
    store, i, x = handle("tmp", scope="local"), Var("i"), Var("x", "float32")
    tmp = decl_buffer((8,), "float32", "tmp", data=store)
    table = handle("table", "int32")
    tab = decl_buffer((4,), "int32", "table", data=table)
    body = SeqStmt(
        [
            Allocate(store, "float32", [8], TRUE, For(i, 0, 8, 0, BufferStore(tmp, BufferLoad(flat, [i, 0]), [i]))),
            AllocateConst(
                table, "int32", [4], np.arange(4, dtype="int32"), Evaluate(Call("int32", "ret", [BufferLoad(tab, [2])]))
            ),
            LetStmt(x, const(2.0), BufferStore(a, x + 1.0, [0])),
            AttrStmt(a.data, "storage_alignment", 128, Evaluate(0)),
            AssertStmt(i < 3, tir.StringImm('i is "small"\n'), Evaluate(0)),
            IfThenElse(i < 3, BufferStore(a, const(1.0), [i]), BufferStore(a, const(2.0), [i])),
            While(BufferLoad(a, [0]) < 10.0, BufferStore(a, BufferLoad(a, [0]) * 2.0, [0])),
            DeclBuffer(tmp, Evaluate(Call("handle", "address_of", [BufferLoad(tmp, [3])]))),
            Allocate(store, "float32", [8], i < 2, BufferStore(tmp, const(0.0), [1]), {"disable": True}),
        ]
    )
    golden("flat", func([a], body, **{"tir.noalias": True, "target": "llvm"}).script())


def test_threads(golden: Golden) -> None:
    a = decl_buffer((64,), "float32", "A")
    tx, bx = (IterVar(None, Var(n), IterVar.ThreadIndex, t) for n, t in (("tx", "threadIdx.x"), ("bx", "blockIdx.x")))
    store = BufferStore(a, const(1.0), [bx.var * 32 + tx.var])
    inner = AttrStmt(tx, "thread_extent", 32, store)
    golden("threads", func([a], AttrStmt(bx, "thread_extent", 2, SeqStmt([inner, inner]))).script())


def test_blocks(golden: Golden) -> None:
    a = decl_buffer((64, 64), "float32", "A")
    shared = decl_buffer((16, 16), "float32", "A_shared", scope="shared")
    view = decl_buffer((4, 4), "float32", "V", strides=[Var("s0"), Var("s1")], offset_factor=1)
    i, j = Var("i"), Var("j")
    vi, vj, vk = (IterVar(Range(0, 64), Var(n), IterVar.DataPar) for n in ("vi", "vj", "vk"))
    vk = IterVar(Range(1, 9), Var("vk"), IterVar.CommReduce)
    region = BufferRegion(a, [Range.from_min_extent(vi.var, 4), Range.from_min_extent(vj.var, 4)])
    inner = Block(
        [vi, vj, vk],
        [region],
        [BufferRegion(a, [Range.from_min_extent(vi.var, 1), Range(0, 64)])],
        "tile",
        BufferStore(view, const(1.0), [0, 0]),
        BufferStore(a, const(0.0), [vi.var, 0]),
        [shared],
        [MatchBufferRegion(view, region)],
        {"buffer_dim_align": [[0, 0, 32, 8]]},
    )
    realize = BlockRealize([i, j, i * 2 + 1], i + j < 64, inner)
    root = Block([], [], [], "root", For(i, 0, 64, 0, For(j, 0, 64, 0, realize)))
    golden("blocks", func([a], BlockRealize([], TRUE, root)).script())
    golden("blocks_plain", func([a], BlockRealize([], TRUE, root)).script(syntax_sugar=False))


def test_vectors(golden: Golden) -> None:
    a = decl_buffer((64,), "float32", "A")
    i = Var("i")
    contiguous, strided, backward = (Ramp(i * 4, s, 4) for s in (1, 2, -1))
    mask = Broadcast(const(True), 4)
    body = SeqStmt(
        [
            BufferStore(a, BufferLoad(a, [strided]) + Broadcast(const(1.0), 4), [contiguous]),
            BufferStore(a, tir.Select(mask, BufferLoad(a, [backward]), Broadcast(const(0.0), 4)), [contiguous]),
            BufferStore(a, BufferLoad(a, [contiguous], mask), [contiguous], mask),
            Evaluate(tir.Shuffle([BufferLoad(a, [contiguous])], [2])),
        ]
    )
    golden("vectors", func([a], For(i, 0, 16, ForKind.SERIAL, body)).script())


def test_parameters(golden: Golden) -> None:
    n, p = Var("n", "int64"), handle("p", "int8")
    a = decl_buffer((8,), "bool", "A")
    b = decl_buffer((n,), "float32", "B", offset_factor=4)
    c = decl_buffer((n * 2, 4), "bfloat16", "C", strides=[Var("s"), 1], data_alignment=16, buffer_type="auto_broadcast")
    d = decl_buffer((4,), "float32", "D", scope="shared")
    hb, hc, hd, scalar = Var("hb", "handle"), Var("hc", "handle"), Var("hd", "handle"), Var("x", "float32")
    ha = Var("ha", "handle")
    body = BufferStore(b, scalar, [b.elem_offset])
    f = PrimFunc(
        [ha, hb, p, hc, hd, scalar], body, PrimType(DataType("int32")), {ha: a, hb: b, hc: c, hd: d}, {"x": None}
    )
    golden("parameters", f.script())


def test_module(golden: Golden) -> None:
    a = decl_buffer((8,), "float32", "A")
    callee, x = GlobalVar("callee"), Var("x", "int32")
    inner = PrimFunc([x], Evaluate(x), attrs={})
    main = func([a], SeqStmt([Evaluate(callee(1)), Evaluate(Call("int32", callee, [2]))]))
    other = PrimFunc([a], Evaluate(0), attrs={"global_symbol": "exported"})
    mod = IRModule({GlobalVar("main"): main, callee: inner, GlobalVar("other"): other}, attrs={"version": 1})
    golden("module", mod.script())
    assert str(mod) == mod.script()


def test_free_variables_and_metadata(golden: Golden) -> None:
    a = decl_buffer((8,), "float32", "A")
    n, y = Var("n"), Var("y")
    free = decl_buffer((n,), "int8", "F")
    body = SeqStmt(
        [
            Evaluate(Let(y, n + 1, y * y)),
            BufferStore(a, BufferLoad(free, [y]).astype("float32"), [n]),
            AttrStmt(a.data, "meta", 1, Evaluate(0)),
        ]
    )
    golden("free", func([a], body, meta=te.placeholder((1,), name="P").op).script())


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x, y: x + y * 2 - 1, "x + y * 2 - 1"),
        (lambda x, y: (x + y) * 2, "(x + y) * 2"),
        (lambda x, y: x - (y - 1), "x - (y - 1)"),
        (lambda x, y: x // 4 % 8, "x // 4 % 8"),
        (lambda x, y: x // (y * 4), "x // (y * 4)"),
        (lambda x, y: tir.truncdiv(x, y), "T.Div(x, y)"),
        (lambda x, y: tir.truncmod(x, y), "T.truncmod(x, y)"),
        (lambda x, y: tir.all(x < y, tir.any(x > 1, y > 2)), "x < y and (x > 1 or y > 2)"),
        (lambda x, y: ~(x < y), "not x < y"),
        (lambda x, y: tir.Add(const(1), const(2)), "T.Add(1, 2)"),
        (lambda x, y: tir.Add(x, const(0)), "T.Add(x, 0)"),
        (lambda x, y: tir.Min(x, x), "T.Min(x, x)"),
        (lambda x, y: te.min(x, y), "T.min(x, y)"),
        (lambda x, y: x * -1, "x * -1"),
        (lambda x, y: const(-1) - x, "-1 - x"),
        (lambda x, y: x.astype("int64") + 1, 'T.Cast("int64", x) + T.int64(1)'),
        (lambda x, y: const(1e-5, "float64"), "T.float64(1e-05)"),
        (lambda x, y: tir.infinity("float16"), 'T.float16("inf")'),
        (lambda x, y: tir.exp(x.astype("float32")), 'T.exp(T.Cast("float32", x))'),
        (lambda x, y: tir.exp(x.astype("float32")) / 2.0, 'T.exp(T.Cast("float32", x)) / T.float32(2)'),
        (lambda x, y: tir.if_then_else(x < y, x, y), "T.if_then_else(x < y, x, y)"),
        (lambda x, y: tir.call_extern("int32", "f", x), 'T.call_extern("int32", "f", x)'),
        (lambda x, y: tir.call_intrin("int64", "tir.exp", x), 'T.call_intrin("int64", "tir.exp", x)'),
        (lambda x, y: tir.reinterpret("float32", x), 'T.reinterpret("float32", x)'),
        (lambda x, y: x << 2, "T.shift_left(x, 2)"),
        (lambda x, y: (x == y).asobject(), "x == y"),
        (lambda x, y: tir.EQ(x < y, y < x), "(x < y) == (y < x)"),
        (lambda x, y: Ramp(x, 1, 4), "T.Ramp(x, 1, 4)"),
    ],
)
def test_expressions(build: Callable[[Var, Var], tir.PrimExpr], text: str) -> None:
    assert str(build(Var("x"), Var("y"))) == text


def test_names_are_python_identifiers_and_unique() -> None:
    a = decl_buffer((8,), "float32", "A.b")
    i1, i2, kw = Var("i"), Var("i"), Var("lambda")
    f = func([a], For(i1, 0, 8, 0, For(i2, 0, 8, 0, For(kw, 0, 8, 0, BufferStore(a, const(0.0), [i1 + i2 + kw])))))
    assert "for i, i_1, lambda_ in T.grid(8, 8, 8):\n        A_b[i + i_1 + lambda_] = T.float32(0)" in f.script()


def test_prefix_indent_and_line_numbers() -> None:
    a = decl_buffer((8,), "float32", "A")
    f = func([a], BufferStore(a, const(0.0), [0]))
    text = f.script(tir_prefix="tir", indent_spaces=2, print_line_numbers=True)
    assert text.split("\n") == [
        "1 # from tilewright.script import tir as tir",
        "2",
        "3 @tir.prim_func",
        '4 def main(A: tir.Buffer((8,), "float32")):',
        "5   A[0] = tir.float32(0)",
    ]


def test_show_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    a = decl_buffer((8,), "float32", "A")
    f = func([a], BufferStore(a, const(0.0), [0]))
    f.show()
    assert capsys.readouterr().out == f.script() + "\n"


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "goldens").glob("*.txt")), ids=lambda p: p.stem)
def test_scripts_are_python(path: Path) -> None:
    ast.parse(path.read_text())
