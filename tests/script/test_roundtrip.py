"""parse(print(f)) is structurally equal to f: goldens, random programs at every stage of lowering, kernels, a model."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.generators.programs import random_program, random_schedule
from tests.generators.roundtrip import assert_roundtrip, stages
from tests.scheduling.test_rules import CASES, TARGETS
from tests.tir_schedule.random_programs import programs as small_programs
from tilewright import relay, te, tir
from tilewright.ir import IRModule, PointerType, PrimType, Range
from tilewright.ir.dtype import DataType
from tilewright.node import first_mismatch, structural_hash
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.kernels.machine_code import lowered
from tilewright.relay.backend.planning.entry import entry_module
from tilewright.relay.backend.planning.plan import make_plan
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.tir import Evaluate, For, IterVar, PrimFunc, Ramp, SeqStmt, StringImm, Var, const, decl_buffer

GOLDENS = sorted((Path(__file__).parent / "goldens").glob("*.txt"))


@pytest.mark.parametrize("path", GOLDENS, ids=lambda p: p.stem)
def test_goldens_parse_and_print_back(path: Path) -> None:
    text = path.read_text().rstrip("\n")
    program = from_source(text, check_well_formed=False)
    assert_roundtrip(program)
    if "T.grid" in text or "for i in range(64):\n            for j" not in text:
        assert program.script() == text


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_at_every_stage(seed: int) -> None:
    rng = random.Random(seed)
    func = random_program(rng).func
    for program in (func, random_schedule(func, rng)):
        for mod in stages(program):
            assert_roundtrip(mod)


@pytest.mark.parametrize("seed", range(8))
def test_random_schedules_of_small_programs(seed: int) -> None:
    rng = random.Random(seed)
    func, _ = small_programs.random_program(rng)
    for mod in stages(random_schedule(func, rng), host=False):
        assert_roundtrip(mod)


@pytest.mark.parametrize("case", CASES)
def test_kernels_of_schedule_rules(case: str) -> None:
    for name, description in TARGETS.items():
        with Target(description) as target, KernelPlan(target):
            func = schedule_kernel(te.create_prim_func(CASES[case]()), target)
        for mod in stages(func) if name == "avx512" else [func]:
            assert_roundtrip(mod)


def test_modules_of_a_small_model() -> None:
    x = relay.var("x", shape=(1, 3, 16, 16), dtype="float32")
    w = relay.const(np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype("float32"))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), channels=16, kernel_size=(3, 3)))
    y = relay.nn.softmax(relay.nn.batch_flatten(relay.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))))
    target = Target("llvm")
    with target, KernelPlan(target):
        optimized, _ = optimize(IRModule.from_expr(relay.Function([x], y)), target)
        compiler = TECompiler(target)
        plan = make_plan(optimized, compiler)
    kernels = list(compiler.kernels.values())
    assert len(kernels) >= 3
    for kernel in kernels:
        assert_roundtrip(kernel.func)
        assert_roundtrip(lowered(kernel.func, target))
    assert_roundtrip(entry_module(plan))


def handle(name: str, dtype: str = "float32", scope: str = "global") -> Var:
    return Var(name, PointerType(PrimType(DataType(dtype)), scope))


def make_odd_programs() -> dict[str, PrimFunc]:
    """Programs that no builder makes, each with one thing that an approximate printer would lose."""
    a = decl_buffer((64,), "float32", "A")
    i, n, wide = Var("i"), Var("n"), Var("w", "int64")
    x = Var("x", "float32")

    def one(body: tir.Stmt, *params: Any) -> PrimFunc:
        return PrimFunc([*params, a], body)

    def region(begin: Any, extent: Any) -> PrimFunc:
        r = tir.BufferRegion(a, (Range.from_min_extent(begin, extent),))
        block = tir.Block([], [r], [], "b", Evaluate(0))
        return one(SeqStmt([tir.BlockRealize([], True, block), Evaluate(n)]), n, i)

    stride64 = decl_buffer((4, 4), "float32", "B", strides=[Var("s", "int64"), tir.SizeVar("t")])
    offset = decl_buffer((4,), "float32", "B", elem_offset=Var("o", "int64"), offset_factor=2)
    aligned = decl_buffer((4,), "float32", "B", elem_offset=0, offset_factor=4)
    pointer = handle("ptr", "float16", "local")
    nothing = Evaluate(0)
    return {
        "extent that is a difference": region(i, tir.Sub(tir.Add(i, const(4)), i)),
        "extent that is a variable": region(const(0), n),
        "extent of an unfolded sum": region(const(0), tir.Add(const(0), n)),
        "extent after a constant": region(const(2), n),
        "extent one from a sum": region(i * 2, const(1)),
        "loop with an unfolded extent": one(For(i, 1, tir.Sub(n, const(1)), 0, Evaluate(i)), n),
        "strides of int64 and sizes": PrimFunc([stride64], nothing),
        "offset of int64": PrimFunc([offset], nothing),
        "offset zero with a factor": PrimFunc([aligned], nothing),
        "a let of a typed pointer": one(
            SeqStmt([tir.LetStmt(pointer, tir.reinterpret("handle", const(0, "int64")), Evaluate(pointer)), nothing])
        ),
        "a let of a size": one(tir.LetStmt(tir.SizeVar("n"), const(3), nothing)),
        "attributes of kinds of numbers": one(nothing).with_attr("ints", [1, const(1), const(1, "int64"), True, "s"]),
        "a ramp of one lane": one(Evaluate(tir.BufferLoad(a, [Ramp(i, 1, 1)])), i),
        "a ramp of int64": one(Evaluate(tir.BufferLoad(a, [Ramp(wide, const(2, "int64"), 4)])), wide),
        "intrinsics that would fold": one(
            SeqStmt(
                [
                    Evaluate(tir.Call("float32", "floor", [const(1.5)])),
                    Evaluate(tir.Call("int32", "exp", [n])),
                    Evaluate(tir.Call("bool", "likely", [const(True)])),
                    Evaluate(tir.Call("float32", "if_then_else", [const(True), x, x])),
                    Evaluate(tir.Call("int32", "shift_left", [const(1), const(2)])),
                    Evaluate(tir.Call("float32", "call_extern", [StringImm("f"), x])),
                    Evaluate(tir.Call("void", "tvm_storage_sync", [StringImm("shared")])),
                ]
            ),
            n,
            x,
        ),
        "constants that are not rounded": one(tir.BufferStore(a, tir.FloatImm("float32", 0.1), [0])),
        "a thread that is launched inside itself": one(
            tir.AttrStmt(
                t := IterVar(None, Var("tx"), IterVar.ThreadIndex, "threadIdx.x"),
                "thread_extent",
                32,
                tir.AttrStmt(t, "thread_extent", 32, nothing),
            )
        ),
        "an axis as the subject of an attribute": one(
            tir.AttrStmt(IterVar(Range(0, 4), i, IterVar.DataPar), "pragma", 1, nothing), i
        ),
        "a variable used before its loop": one(
            SeqStmt([For(Var("i"), 0, 4, 0, nothing), tir.AttrStmt(i, "pragma", 1, For(i, 0, 8, 0, Evaluate(i)))])
        ),
        "chained connectives": one(
            tir.IfThenElse(tir.And(tir.And(n < 1, n < 2), tir.And(n < 3, tir.Or(n < 4, tir.Not(n < 5)))), nothing), n
        ),
        "nothing but a root": PrimFunc([a], tir.BlockRealize([], True, tir.Block([], [], [], "root", nothing))),
    }


ODD = make_odd_programs()


@pytest.mark.parametrize("name", ODD)
def test_odd_programs(name: str) -> None:
    assert_roundtrip(ODD[name])


def test_free_variables_keep_their_places() -> None:
    i, j = Var("i"), Var("i")
    a = decl_buffer((8,), "float32", "A")
    f = PrimFunc([a], SeqStmt([For(i, 0, 8, 0, Evaluate(i)), Evaluate(j)]))
    other = PrimFunc([a], SeqStmt([For(i, 0, 8, 0, Evaluate(i)), Evaluate(i)]))
    for program in (f, other):
        assert_roundtrip(program)
    assert first_mismatch(f, from_source(other.script(), check_well_formed=False), map_free_vars=True) is not None


def test_a_scope_binds_its_variable_anew() -> None:
    """One variable of two loops in a row is as good as two; inside its own scope it is not."""
    i, j, k = Var("i"), Var("j"), Var("k")

    def loops(first: Var, second: Var) -> PrimFunc:
        return PrimFunc([], SeqStmt([For(v, 0, 8, 0, Evaluate(v)) for v in (first, second)]))

    def nest(outer: Var, inner: Var, used: Var) -> PrimFunc:
        return PrimFunc([], For(outer, 0, 8, 0, SeqStmt([For(inner, 0, 8, 0, Evaluate(used)), Evaluate(outer)])))

    assert_roundtrip(loops(i, i))
    assert first_mismatch(loops(i, i), loops(j, k)) is None and first_mismatch(loops(j, k), loops(i, i)) is None
    assert structural_hash(loops(i, i)) == structural_hash(loops(j, k))
    assert first_mismatch(nest(i, i, i), nest(j, k, k)) is None
    assert structural_hash(nest(i, i, i)) == structural_hash(nest(j, k, k))
    assert first_mismatch(nest(i, i, i), nest(j, k, j)) is not None


def test_scopes_bind_their_buffers_anew() -> None:
    """One object in two scopes side by side is as good as two; two in one scope are two."""
    data, a = handle("p"), decl_buffer((8,), "float32", "A")
    view, other = decl_buffer((8,), "float32", "V", data=data), decl_buffer((8,), "float32", "W", data=data)
    true = const(True)

    def store(b: tir.Buffer, i: int = 0) -> tir.Stmt:
        return tir.BufferStore(b, const(1.0), [i])

    def allocate(b: tir.Buffer) -> tir.Stmt:
        return tir.Allocate(b.data, "float32", [8], true, SeqStmt([store(b), store(b, 1)]))

    def block(b: tir.Buffer) -> tir.Stmt:
        return tir.BlockRealize([], true, tir.Block([], [], [], "b", store(b), None, [b]))

    thread = IterVar(None, Var("tx"), IterVar.ThreadIndex, "threadIdx.x")
    launch = tir.AttrStmt(thread, "thread_extent", 4, Evaluate(thread.var))
    for body in (
        [allocate(view), allocate(view)],
        [tir.DeclBuffer(view, store(view)), tir.DeclBuffer(view, store(view))],
        [block(view), block(view)],
        [launch, launch],
    ):
        assert_roundtrip(PrimFunc([a, data], SeqStmt(body)))
    one = PrimFunc([a], store(a))
    assert_roundtrip(IRModule({"f": one.with_attr("global_symbol", "f"), "g": one.with_attr("global_symbol", "g")}))
    # Within one scope, and where nothing binds them, objects are told apart.
    assert first_mismatch(allocate(view), allocate(other)) is None
    twice, mixed = SeqStmt([store(a), store(a)]), SeqStmt([store(a), store(decl_buffer((8,), "float32", "A"))])
    assert first_mismatch(twice, mixed, map_free_vars=True) is not None
    assert structural_hash(twice, True) != structural_hash(mixed, True)


def test_one_variable_of_two_nested_loops() -> None:
    i = Var("i")
    assert_roundtrip(PrimFunc([], For(i, 0, 8, 0, SeqStmt([For(i, 0, 4, 0, Evaluate(i)), Evaluate(i)]))))


def test_tensors_of_te() -> None:
    n, i = te.var("n"), Var("i")
    x = te.placeholder((n, 8), name="X")
    k = te.reduce_axis((0, 8), "k")
    y = te.compute((n, 8), lambda i, j: x[i, j] + 1.0, name="Y")
    r = te.compute((n,), lambda i: te.sum(x[i, k], axis=k), name="R")
    store = tir.ProducerStore(y, tir.ProducerLoad(x, [i, 0]) + 1.0, [i, 0])
    body = tir.ProducerRealize(y, (Range(0, n), Range(0, 8)), const(True), For(i, 0, 8, 0, store), "local")
    reduction = tir.ProducerStore(r, r.op.body[0], [r.op.axis[0].var])
    for func in (PrimFunc([n], SeqStmt([body, Evaluate(0)])), PrimFunc([n], body), PrimFunc([n], reduction)):
        assert_roundtrip(func)
    text = PrimFunc([n], body).script()
    assert 'T.ProducerRealize(Y[0:n, 0:8], T.bool(True), "local")' in text and "Y[i, 0] = X[i, 0] +" in text


def test_index_maps_and_hardware_in_attributes() -> None:
    layout = tir.IndexMap.from_func(lambda i, j: (i // 4, j, i % 4), inverse_index_map=lambda a, b, c: (a * 4 + c, b))
    wide = tir.IndexMap.from_func(lambda i: (i // 4, i % 4), index_dtype="int64")
    func = PrimFunc([], Evaluate(0), attrs={"layout": layout, "more": [wide], "target": Target("llvm", host="llvm")})
    assert_roundtrip(func)
    assert "T.index_map(lambda i, j: (i // 4, j, i % 4), inverse_index_map=T.index_map(" in func.script()
