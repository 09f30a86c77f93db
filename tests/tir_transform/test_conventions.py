"""Passes about functions as wholes: entries, filters, calling conventions, intrinsics, assertions, marks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tir_transform.test_moving_code import calls
from tests.tir_transform.thread.test_threads import module, nodes
from tilewright import tir
from tilewright.codegen.interp import run
from tilewright.driver import build
from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.ir.transform import PassContext
from tilewright.runtime import ndarray as nd
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.testing import CompareBeforeAfter
from tilewright.tir import transform as P
from tilewright.tir.function import IN_PLACE


@T.prim_func
def scale(A: T.Buffer((8,), "float32"), n: T.int32):
    for i in range(n):
        A[i] = A[i] * T.float32(2)


def two(**attrs: Any) -> IRModule:
    return IRModule({GlobalVar(n): scale.with_attrs({"global_symbol": n, **attrs}) for n in ("f", "g")})


def test_the_only_function_is_the_entry() -> None:
    alone = P.AnnotateEntryFunc()(IRModule({"f": scale}))
    assert alone["f"].attrs["tir.is_entry_func"]
    assert P.AnnotateEntryFunc()(alone) is alone
    both = P.AnnotateEntryFunc()(two())
    assert not any(["tir.is_entry_func" in f.attrs for f in both.functions.values()])
    private = IRModule(
        {GlobalVar("f"): scale.with_attr("global_symbol", "f"), GlobalVar("g"): scale.without_attr("global_symbol")}
    )
    assert P.AnnotateEntryFunc()(private)["f"].attrs["tir.is_entry_func"]


def test_functions_are_filtered() -> None:
    mod = two()
    kept = P.Filter(lambda f: f.attrs["global_symbol"] == "g")(mod)
    assert [g.name_hint for g in kept.functions] == ["g"]


def test_packed_functions_check_their_arguments() -> None:
    mod = P.MakePackedAPI()(P.FlattenBuffer()(two()))
    func = mod["f"]
    assert [p.name for p in func.params] == ["self", "args", "num_args", "result"]
    assert func.attrs["global_symbol"] == "__tvm_ffi_f" and func.attrs["calling_conv"] == 1 and not func.buffer_map
    texts = [str(n.message) for f in mod.functions.values() for n in nodes(IRModule({"main": f}), tir.AssertStmt)]
    assert [t for t in texts if "f: argument 0 (A)" in t] and [t for t in texts if "argument 1 (n) must be an int" in t]
    assert P.MakePackedAPI()(mod)["f"] is func, "a packed function stays"
    named = scale.without_attr("global_symbol")
    assert P.MakePackedAPI()(IRModule({"f": named}))["f"] is named, "what has no symbol is not exported"
    m = tir.Var("m", "int32")
    unknown = module(tir.Evaluate(tir.call_extern("int32", "h", m)))
    with pytest.raises(TVMError, match="main: m cannot be found from the arguments; make it a parameter"):
        P.MakePackedAPI()(unknown)


def test_packed_functions_whose_parameters_share_memory() -> None:
    @T.prim_func
    def add(a: T.Buffer((1,), "float32"), b: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "add", "tir.noalias": True, IN_PLACE: (1, 2)})
        for i in range(8):
            c[i] = b[i] + a[0]

    func = P.MakePackedAPI()(IRModule({"add": add}))["add"]
    assert IN_PLACE not in func.attrs and not func.attrs["tir.noalias"]
    one, both = nd.array(np.ones(1, "float32")), nd.array(np.arange(8, dtype="float32"))
    build(add, target="llvm")(one, both, both)
    np.testing.assert_array_equal(both.numpy(), np.arange(1, 9, dtype="float32"))


def test_the_entry_is_exposed_as_main() -> None:
    packed = P.MakePackedAPI()(P.AnnotateEntryFunc()(IRModule({"f": scale.with_attr("global_symbol", "f")})))
    out = P.ExposeEntryFunc()(packed)
    assert sorted(f.attrs["global_symbol"] for f in out.functions.values()) == ["__tvm_ffi_f", "__tvm_ffi_main"]
    assert P.ExposeEntryFunc()(P.MakePackedAPI()(two())).functions.keys() == two().functions.keys()


def test_unpacked_functions_carry_no_shapes() -> None:
    out = P.MakeUnpackedAPI()(two())
    assert out["f"].attrs["calling_conv"] == "aot"
    n = tir.Var("n", "int32")
    a = tir.decl_buffer((n,), name="A")
    with pytest.raises(TVMError, match="main: buffer A .* depends on n, which raw pointers do not contain"):
        P.MakeUnpackedAPI()(module(tir.BufferStore(a, 1.0, [0]), a))


class TestHintsAndRules(CompareBeforeAfter):
    transform = P.LowerIntrin()

    def before(self) -> Any:
        op = Op("tir.test_twice")
        op.set_attr("FLowerIntrin", lambda e: e.args[0] + e.args[0])
        a, i = tir.decl_buffer((8,), "int32", "A"), tir.Var("i", "int32")
        store = tir.BufferStore(a, tir.call_intrin("int32", "tir.test_twice", a[i]), [i])
        return module(tir.For(i, 0, 8, 0, tir.IfThenElse(tir.likely(i < 7), store)), a)

    def expected(self) -> Any:
        a, i = tir.decl_buffer((8,), "int32", "A"), tir.Var("i", "int32")
        return module(tir.For(i, 0, 8, 0, tir.IfThenElse(i < 7, tir.BufferStore(a, a[i] + a[i], [i]))), a)


class TestAssertionsGo(CompareBeforeAfter):
    transform = P.SkipAssert()

    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        assert n > 0, "n must be positive"
        A[0] = n

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), n: T.int32):
        A[0] = n


def test_loops_are_marked_not_written_out() -> None:
    mod = IRModule({"main": scale})
    fixed = IRModule({"main": scale.specialize({scale.params[1]: tir.const(4, "int32")})})
    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
        assert [f.kind for f in nodes(P.MarkUnrollLoop()(fixed), tir.For)] == [tir.ForKind.UNROLLED]
        assert [f.kind for f in nodes(P.MarkUnrollLoop()(mod), tir.For)] == [tir.ForKind.SERIAL], "no constant extent"
    array = np.ones(8, "float32")
    run(P.MarkUnrollLoop()(fixed), [array])
    assert array.tolist() == [2] * 4 + [1] * 4
    assert not calls(fixed)


def test_user_passes_run_at_their_phase() -> None:
    seen: list[tuple[str, bool, bool]] = []

    def look(name: str) -> Any:
        @P.prim_func_pass(opt_level=0, name=name)
        def custom(func: Any, mod: Any, ctx: Any) -> Any:
            one = IRModule({"main": func})
            seen.append((name, bool(nodes(one, tir.Block)), bool([f for f in nodes(one, tir.For) if f.kind == 2])))
            return func

        return custom

    @P.prim_func_pass(opt_level=0)
    class Named:
        def transform_function(self, func: Any, mod: Any, ctx: Any) -> Any:
            return func.with_attr("seen", True)

    from tilewright.driver import lower
    from tilewright.tir.schedule import Schedule

    @T.prim_func
    def f(A: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1)

    s = Schedule(f)
    s.vectorize(s.get_loops("A")[-1])
    added = [(k, look(f"phase{k}")) for k in (3, 2, 1, 0)] + [(1, Named())]
    with PassContext(config={"tir.add_lower_pass": added}):
        mod = lower(s.mod)
    assert mod["main"].attrs["seen"]
    assert seen == [
        ("phase0", True, True), ("phase1", False, True), ("phase2", False, False), ("phase3", False, False),
    ]  # fmt: skip
    wrong = PassContext(config={"tir.add_lower_pass": [(4, 1)]})
    with wrong, pytest.raises(TVMError, match="takes pairs \\(phase 0..3, pass\\), but holds \\(4, 1\\)"):
        lower(f)
