"""Programs that no builder makes, each with one thing that an approximate printer or parser would lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.generators.roundtrip import assert_roundtrip
from tilewright import tir
from tilewright.ir import DataType, GlobalVar, IRModule, PointerType, PrimType, Range, TupleType
from tilewright.node.field_values import numpy_dtype
from tilewright.tir import (
    EQ,
    LT,
    Add,
    Allocate,
    AllocateConst,
    And,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    Div,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    IfThenElse,
    IterVar,
    Let,
    LetStmt,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimFunc,
    Ramp,
    Select,
    SeqStmt,
    SizeVar,
    StringImm,
    Sub,
    Var,
    While,
    const,
    decl_buffer,
)  # fmt: skip


def pointer(name: str, dt: str = "float32", scope: str = "global") -> Var:
    return Var(name, PointerType(PrimType(DataType(dt)), scope))


a = decl_buffer((8,), "float32", "A")
n = Var("n")
i = Var("i")
z = Evaluate(0)


def one(body: tir.Stmt, *params: Any, **attrs: Any) -> PrimFunc:
    return PrimFunc([a, *params], body, attrs=attrs)


P: dict[str, Callable[[], Any]] = {}
for nm in [
    "T",
    "I",
    "cls",
    "range",
    "metadata",
    "min",
    "float",
    "True",
    "print",
    "class",
    "Module",
    "main",
    "A",
    "_",
    "int",
    "list",
    "sum",
    "T_1",
    "x y",
]:
    b = decl_buffer((8,), "float32", nm)
    v = Var(nm)
    P["name " + nm] = lambda b=b, v=v, nm=nm: PrimFunc(
        [b, n],
        For(
            v,
            0,
            8,
            0,
            SeqStmt(
                [
                    BufferStore(b, tir.max(const(1.0), b[v]), [v]),
                    For(i, 1, n, 1, BufferStore(b, tir.min(b[i], const(2.0)), [i]), None, {"x": const(1)}),
                ]
            ),
        ),
        attrs={"global_symbol": nm, "m": tvm.te.placeholder((3,), name="q").op},
    )
P["ints"] = lambda: one(
    SeqStmt(
        [
            Evaluate(const(x, d))
            for x, d in (
                (-1, "int32"),
                (-(2**31), "int32"),
                (2**31 - 1, "int32"),
                (2**62, "int64"),
                (-(2**63), "int64"),
                (2**64 - 1, "uint64"),
                (255, "uint8"),
                (-5, "int8"),
                (1, "bool"),
            )
        ]
    )
)
P["floats"] = lambda: one(
    SeqStmt(
        [
            Evaluate(FloatImm(d, x))
            for d in ("float16", "float32", "float64", "bfloat16", "float8_e4m3fn")
            for x in (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-30, 0.1)
        ]
    )
)
P["strings"] = lambda: one(SeqStmt([Evaluate(StringImm(s)) for s in ("a", "a\nb", 'q"', "ä", "\\", "\x00", '"""')]))
P["annot"] = lambda: one(
    For(
        i,
        0,
        8,
        0,
        Evaluate(i),
        None,
        {
            "a": StringImm("s"),
            "b": const(1, "int64"),
            "c": const(2.0),
            "d": [1, (2, 3)],
            "e": {"x": None},
            "f": n,
            "g": n + 1,
            "h": a,
            "k": a.data,
            "l": True,
            "m": 1.5,
            "o": "s",
            "p": const(True),
        },
    ),
    n,
)
P["int keys"] = lambda: one(For(i, 0, 8, 0, Evaluate(i), None, {"a": {1: 2, "b": 3}}))
P["array attr"] = lambda: one(
    z,
    arr=np.arange(3),
    t=tvm.target.Target("llvm"),
    f=PrimFunc([], z),
    m=IRModule({"f": PrimFunc([], z)}),
    d=DataType("int8"),
    ty=PrimType(DataType("int8")),
    r=Range(0, 4),
)
P["float annots"] = lambda: one(z, x=float("inf"), y=float("nan"), w=-0.0, big=2**70)
P["nodes of attrs"] = lambda: one(
    SeqStmt(
        [
            AttrStmt(x, "k", 1, z)
            for x in (
                "s",
                1,
                None,
                [1, n],
                {"a": 1},
                a,
                StringImm("q"),
                const(3, "int64"),
                n,
                n + 1,
                Range(0, n),
                PrimType(DataType("int8")),
                a.data,
            )
        ]
    ),
    n,
)
P["value of attr"] = lambda: one(
    SeqStmt(
        [AttrStmt("s", "k", x, z) for x in (StringImm("v"), const(1.0), n, const(True), Call("int32", "exp", [n]))]
    ),
    n,
)
for dt in ("float16", "bfloat16", "bool", "int8", "uint64", "float8_e5m2"):
    P["const " + dt] = lambda dt=dt: (
        lambda h: one(
            AllocateConst(h, dt, [2, 2], np.array([[0, 1], [1, 0]]).astype(numpy_dtype(DataType(dt))), Evaluate(h))
        )
    )(pointer("h", "int8" if dt == "bool" else dt))
P["const of another shape"] = lambda: (
    lambda h: one(AllocateConst(h, "int32", [4], np.arange(4, dtype="int32").reshape(2, 2), Evaluate(h)))
)(pointer("h", "int32"))
P["large const"] = lambda: (
    lambda h: one(AllocateConst(h, "int32", [1000], np.arange(1000, dtype="int32"), Evaluate(h)))
)(pointer("h", "int32"))
P["const nan"] = lambda: (
    lambda h: one(AllocateConst(h, "float32", [3], np.array([np.nan, np.inf, -0.0], "float32"), Evaluate(h)))
)(pointer("h"))
P["ret tuple"] = lambda: PrimFunc([a], z, TupleType([PrimType(DataType("int32")), PrimType(DataType("float32"))]))
P["ret pointer"] = lambda: PrimFunc([a], z, PointerType(PrimType(DataType("int8")), "shared"))
P["pp"] = lambda: PrimFunc([a, Var("p", PointerType(PointerType(PrimType(DataType("int8")))))], z)
P["block only"] = lambda: one(Block([], [], [], 'q"b', z))
c0 = decl_buffer((), "float32", "C")
P["zero dim"] = lambda: PrimFunc(
    [c0],
    SeqStmt(
        [
            BufferStore(c0, c0[()] + 1.0, []),
            BlockRealize(
                [],
                True,
                Block([], [BufferRegion(c0, [])], [BufferRegion(c0, [])], "b", BufferStore(c0, const(1.0), [])),
            ),
        ]
    ),
)
P["alias params"] = lambda: (lambda b: PrimFunc([a, b], BufferStore(b, a[0], [0])))(
    decl_buffer((8,), "float32", "B", data=a.data)
)
hh = Var("hh", "handle")
P["handle used"] = lambda: PrimFunc([hh], SeqStmt([Evaluate(hh), BufferStore(a, const(1.0), [0])]), None, {hh: a})
hp = pointer("hp")
P["typed handle"] = lambda: PrimFunc([hp], BufferStore(a, const(1.0), [0]), None, {hp: a})
P["tb dom"] = lambda: one(For(i, 0, 8, 4, Evaluate(i), IterVar(Range(0, 8), Var("t"), 1, "threadIdx.x")))
P["tb other"] = lambda: one(For(i, 0, 8, 4, Evaluate(i), IterVar(None, Var("t", "int64"), 1, "odd tag")))
P["te dom"] = lambda: one(AttrStmt(IterVar(Range(0, 8), Var("t"), 1, "threadIdx.x"), "thread_extent", 8, z))
P["te datapar"] = lambda: one(AttrStmt(IterVar(None, Var("t"), 0, "threadIdx.x"), "thread_extent", 8, z))
P["virtual"] = lambda: one(AttrStmt(IterVar(None, (t := Var("t")), 1, "vthread"), "virtual_thread", 8, Evaluate(t)))
P["select"] = lambda: one(Evaluate(Select(Broadcast(const(True), 4), Ramp(n, 1, 4), Broadcast(n, 4))), n)
P["folding"] = lambda: one(
    SeqStmt(
        [
            Evaluate(x)
            for x in (
                Not(Not(n < 3)),
                And(const(True), n < 3),
                Or(n < 3, const(False)),
                Sub(n, n),
                Mul(n, const(0)),
                FloorDiv(n, const(1)),
                FloorMod(n, const(1)),
                Div(n, const(2)),
                Mod(n, const(2)),
                Min(n, const(3)),
                Max(const(2), const(3)),
                EQ(n, n),
                Cast("int32", n),
                Cast("int64", const(3)),
                Cast("bool", n),
                Add(const(1.0), const(2.0)),
                Select(const(True), n, n),
                FloorDiv(const(7), const(2)),
                LT(const(1), const(2)),
                Cast("float32x4", Broadcast(n, 4)),
                Not(const(True)),
                FloorDiv(n.astype("float32"), const(2.0)),
                FloorMod(n.astype("float32"), const(2.0)),
                Sub(const(0), n),
                Mul(n, const(-1)),
                Sub(n, const(-1)),
            )
        ]
    ),
    n,
)
P["calls"] = lambda: one(
    SeqStmt(
        [
            Evaluate(Call(d, o, args))
            for d, o, args in (
                ("int32", "tvm_struct_get", [n, 0, 1]),
                ("float32", "call_pure_extern", [StringImm("f")]),
                ("int32", "tvm_call_packed", [StringImm("f"), n]),
                ("float32", "if_then_else", [n < 3, const(1.0), const(2.0)]),
                ("int32", "likely", [n]),
                ("handle", "address_of", [a[0]]),
                ("float32x4", "exp", [Broadcast(const(1.0), 4)]),
                ("int8", "call_extern", [StringImm("x"), StringImm("y")]),
                ("bool", "isnan", [const(1.0)]),
                ("int32", "prefetch", [n]),
                ("handle", "tvm_stack_alloca", [StringImm("array"), 4]),
                ("float32", "fabs", [const(1.0)]),
                ("int32", "abs", [n]),
                ("int32", "popcount", [n]),
                ("int32", "shift_right", [n, n]),
                ("int32", "bitwise_not", [n]),
                ("int32", "ret", [n]),
                ("void", "ret", [n]),
                ("int64", "vscale", []),
                ("int32", "type_annotation", []),
                ("uint32", "tvm_warp_activemask", []),
                ("float32", "ptx_mma", [n]),
            )
        ]
    ),
    n,
)
P["gv call"] = lambda: one(Evaluate(Call("int32", GlobalVar("f"), [n, a.data, StringImm("s")])), n)
P["let same"] = lambda: one(Evaluate(Let(i, const(1), Let(i, i + 1, i))))
P["letstmt size"] = lambda: one(SeqStmt([LetStmt(SizeVar("s", "int64"), const(1, "int64"), z), z]))
P["letstmt handle"] = lambda: one(
    LetStmt(pointer("q", "int8", "shared"), Call("handle", "address_of", [a[0]]), Evaluate(n)), n
)
P["strides"] = lambda: (lambda b: PrimFunc([b], BufferStore(b, const(1.0), [0, 0])))(
    decl_buffer(
        (4, 4),
        "float32",
        "B",
        strides=[Var("s"), const(1)],
        elem_offset=Var("o") * 4,
        axis_separators=[1],
        data_alignment=16,
        offset_factor=4,
    )
)
P["same dims"] = lambda: (lambda b: PrimFunc([b, n], BufferStore(b, const(1.0), [0, 0])))(
    decl_buffer((n, n * 2), "float32", "B")
)
P["loop dtype"] = lambda: one(
    SeqStmt(
        [For((v := Var("v", d)), const(0, d), const(4, d), 0, Evaluate(v)) for d in ("int64", "int8", "uint8", "int16")]
    )
)
P["loop from"] = lambda: one(For(i, n, n * 2, 0, For(Var("j"), i, const(3), 0, z)), n)
P["preds"] = lambda: one(
    SeqStmt(
        [
            BufferStore(a, BufferLoad(a, [Ramp(0, 1, 4)], Broadcast(n < 3, 4)), [Ramp(0, 1, 4)], Broadcast(n < 3, 4)),
            BufferStore(a, Broadcast(const(1.0), 4), [Ramp(n, -1, 4)]),
        ]
    ),
    n,
)
P["alloc many"] = lambda: one(
    SeqStmt(
        [
            Allocate(pointer("t", "float32", "shared"), "float32", [4, n], n < 3, z, {"x": 1}),
            Allocate(pointer("t", "int8"), "bool", [], const(True), z),
        ]
    ),
    n,
)
P["while true"] = lambda: one(While(const(True), z))
P["if const"] = lambda: one(IfThenElse(const(True), z, Evaluate(1)))
P["assert"] = lambda: one(
    SeqStmt([AssertStmt(const(True), StringImm("m"), z), AssertStmt(n < 3, StringImm("m"), z)]), n
)
P["init no axes"] = lambda: one(BlockRealize([], True, Block([], [], [], "b", z, Evaluate(1))))
P["axes kinds"] = lambda: one(
    BlockRealize([n] * 4, n < 3, Block([IterVar(Range(0, 8), Var("v"), k) for k in (0, 2, 3, 4)], [], [], "b", z)), n
)
P["axis int64"] = lambda: one(
    BlockRealize(
        [const(0, "int64"), n],
        True,
        Block(
            [
                IterVar(Range(const(0, "int64"), const(8, "int64")), Var("v", "int64"), 0),
                IterVar(Range(n, n + 4), Var("w"), 0),
            ],
            [],
            [],
            "b",
            z,
        ),
    ),
    n,
)
P["mod ty"] = lambda: IRModule({"f": one(z)}, attrs={"a": {"b": [1]}}, global_infos={})
P["attr private main"] = lambda: IRModule(
    {"f": PrimFunc([a], z, attrs={"global_symbol": "g", "x": 1}), "h": PrimFunc([], z)}
)
P["symbol none"] = lambda: PrimFunc([a], z, attrs={"global_symbol": ""})
P["buffer in callee"] = lambda: one(
    Evaluate(Call("handle", "tvm_access_ptr", [Call("float32", "type_annotation", []), a.data, 0, 8, 3]))
)


@pytest.mark.parametrize("name", P)
def test_comes_back(name: str) -> None:
    assert_roundtrip(P[name]())
