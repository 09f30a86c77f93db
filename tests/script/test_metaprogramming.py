"""Programs that Python writes: captured values, macros, loops that run while parsing, modules of several functions."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tvm
from tests.generators.roundtrip import assert_roundtrip
from tilewright import tir
from tilewright.node import assert_structural_equal, first_mismatch
from tilewright.script import ir as I
from tilewright.script import tir as T

SIZE = 16
NAMES = {"block": "copy"}


def plain(body: Any) -> str:
    return re.sub(r"\s+", " ", str(body))


def test_closures_globals_and_attributes() -> None:
    class Config:
        tile, dtype = 4, "int8"
        shape = (SIZE, 4)

    scale = tir.const(3, "int8")
    buffer_type = T.Buffer(Config.shape, Config.dtype)

    @T.prim_func(private=True)
    def f(A: T.Buffer(Config.shape, Config.dtype), B: buffer_type):
        for i, j in T.grid(*Config.shape):
            with T.block(f"{NAMES['block']}_{Config.tile}"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * scale

    block = f.body.block.body.body.body.block
    assert block.name_hint == "copy_4" and f.buffer_map[f.params[1]].dtype == "int8"
    assert str(block.body) == "B[vi, vj] = A[vi, vj] * T.int8(3)"


def test_python_runs_while_parsing() -> None:
    offsets = [0, 4, 8]
    flags = {"fast": True}

    @T.prim_func(private=True)
    def f(A: T.Buffer((SIZE,), "float32"), n: T.int32):
        last = T.meta_var(offsets[-1] + len(offsets))
        a, b = T.meta_var(1), n + 2
        first, *others = T.meta_var(offsets)
        if flags["fast"] and last > 3:
            A[0] = A[last] + [A[k] for k in offsets][1]
        else:
            A[1] = T.float32(0)
        A[b] = sum([A[k] for k in offsets], T.float32(0))
        A[first] = A[others[1]] if len(others) == 2 else A[a]
        A[min(3, 4)] = max([1.0, 2.0])
        (x, y), z = (n, n + 1), n * 2
        A[x + y] = A[z]

    lines = str(f.body).split("\n")
    assert lines == [
        "b: T.int32 = n + 2",
        "A[0] = A[11] + A[4]",
        "A[b] = T.float32(0) + A[0] + A[4] + A[8]",
        "A[0] = A[8]",
        "A[3] = T.float32(2)",
        "x: T.int32 = n",
        "y: T.int32 = n + 1",
        "z: T.int32 = n * 2",
        "A[x + y] = A[z]",
    ]
    assert_roundtrip(f)


@T.macro
def loops_over_python(A, steps, body):  # type: ignore[no-untyped-def]
    for k in range(3):
        A[k + steps[1]] = body(A[k])


@T.macro(hygienic=False)
def store_to_outer(value, *, at=0):  # type: ignore[no-untyped-def]
    OUT[at] = value  # noqa: F821


class Kernels:
    offset = 2

    @T.macro
    def shifted(self, A, i):  # type: ignore[no-untyped-def]
        A[i + self.offset] = A[i]


KERNELS = Kernels()


def test_macros() -> None:
    @T.prim_func(private=True)
    def f(OUT: T.Buffer((SIZE,), "float32"), n: T.int32):
        loops_over_python(OUT, (1, 2), lambda v: v * 2.0)
        store_to_outer(OUT[1], at=n)
        KERNELS.shifted(OUT, n)

        @T.macro
        def inner(k, by=3):
            OUT[k * by] = OUT[k]

        inner(n)
        inner(n, by=2)

    assert plain(f.body) == (
        "for k in range(3): OUT[k + 2] = OUT[k] * T.float32(2) OUT[n] = OUT[1] OUT[n + 2] = OUT[n]"
        " OUT[n * 3] = OUT[n] OUT[n * 2] = OUT[n]"
    )


def test_a_macro_may_hold_a_block_and_return_a_value() -> None:
    @T.macro
    def product(a, b):  # type: ignore[no-untyped-def]
        scaled = a * 2
        return scaled * b

    @T.macro
    def copy_block(A, B, i, name):  # type: ignore[no-untyped-def]
        with T.block(name):
            v = T.axis.spatial(SIZE, i)
            B[v] = A[v]

    @T.prim_func(private=True)
    def f(A: T.Buffer((SIZE,), "int32"), B: T.Buffer((SIZE,), "int32")):
        for i in range(SIZE):
            copy_block(A, B, i, name="copy")
        A[0] = product(A[1], A[2])

    assert f.body.block.body[0].body.block.name_hint == "copy"
    assert plain(f.body.block.body[1]) == "scaled: T.int32 = A[1] * 2 A[0] = scaled * A[2]"


def test_symbolic_shapes() -> None:
    @T.prim_func(private=True)
    def f(a: T.handle, b: T.handle, m: T.int64, k: T.int32):
        n = T.int32()
        size = T.int64(is_size_var=True)
        A = T.match_buffer(a, (n, n * 2, k), "float32")
        B = T.match_buffer(b, (size, m), strides=(m, 1))
        for i, j in T.grid(n, n * 2):
            A[i, j, k - 1] = A[i, j, 0] + B[0, T.Cast("int64", i)]

    buffers = [f.buffer_map[p] for p in f.params[:2]]
    assert isinstance(buffers[1].shape[0], tir.SizeVar) and buffers[1].shape[1] is f.params[2]
    assert buffers[0].shape[1].a is buffers[0].shape[0] and f.body.extent is buffers[0].shape[0]
    assert_roundtrip(f)


@pytest.mark.parametrize(
    "annotation",
    ['T.Buffer((8, 4), "int8")', 'T.Buffer[(8, 4), "int8"]', 'T.Buffer(shape=(8, 4), dtype="int8")'],
)
def test_buffer_annotations(annotation: str) -> None:
    f = tvm.script.from_source(f"@T.prim_func\ndef f(A: {annotation}):\n    A[0, 0] = T.int8(1)")
    (buffer,) = f.buffer_map.values()
    assert [int(d) for d in buffer.shape] == [8, 4] and buffer.dtype == "int8"


def test_one_dimension_without_parentheses() -> None:
    f = tvm.script.from_source('@T.prim_func\ndef f(A: T.Buffer(8), B: T.Buffer[8, "int8"], C: T.Buffer[4]):\n    pass')
    assert [str(b.shape) + b.dtype for b in f.buffer_map.values()] == ["(8,)float32", "(8,)int8", "(4,)float32"]


def test_regions_and_vectors_by_slices() -> None:
    @T.prim_func(private=True)
    def f(A: T.Buffer((16, 64), "float32"), B: T.Buffer((64,), "float32")):
        for j in range(16):
            with T.block("b"):
                v = T.axis.spatial(16, j)
                T.reads(A[0:16, v], B[:], A[v, 4:])
                T.writes(A[v : v + 4, :])
                A[v, 0:4] = A[v, 0:8:2] + B[v : v + 4]
                B[0:4:1] = A[0, 0:4]

    block = f.body.block.body.body.block
    assert [str(r) for r in block.reads] == ["A[0:16, v]", "B[0:64]", "A[v, 4:64]"]
    assert [str(r) for r in block.writes] == ["A[v:v + 4, 0:64]"]
    assert str(block.body[0]) == "A[v, 0:4] = A[v, 0:8:2] + B[v:v + 4]"
    assert [str(i) for i in block.body[1].indices] == ["T.Ramp(0, 1, 4)"]


@I.ir_module
class Module:
    """Functions that call each other, a private one, attributes, macros, values of the class."""

    I.module_attrs({"version": 2, "names": ["a", "b"]})
    I.module_global_infos({})
    # A comment.
    HALF = SIZE // 2

    @T.macro
    def put(A, i):
        A[i] = T.float32(1)

    @T.prim_func
    def main(A: T.Buffer((SIZE,), "float32"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        Module.helper(A.data, n)
        x: T.int32 = cls.size(n, dtype="int32")  # noqa: F821
        cls.put(A, x + HALF)  # noqa: F821

    @T.prim_func(private=True)
    def helper(p: T.handle("float32"), n: T.int32):
        A = T.Buffer((SIZE,), data=p)
        A[n] = T.float32(0)

    @T.prim_func(private=True)
    def size(n: T.int32) -> T.int32:
        T.ret(n * 2)


def test_modules() -> None:
    assert [g.name_hint for g in Module.functions] == ["main", "helper", "size"]
    assert Module.attrs == {"version": 2, "names": ["a", "b"]}
    main = Module["main"]
    call = main.body[0].value
    assert call.op in Module.functions and call.op.name_hint == "helper"
    assert plain(main.body[1]) == 'x: T.int32 = cls.size(n, dtype="int32") A[x + 8] = T.float32(1)'
    assert_roundtrip(Module)


def test_modules_in_functions_see_their_closure() -> None:
    def make(n: int) -> tvm.IRModule:
        @I.ir_module
        class Made:
            @T.prim_func
            def main(A: T.Buffer((n,), "float32")):
                for i in range(n):
                    A[i] = T.float32(n)

        module: tvm.IRModule = Made
        return module

    three, four = make(3), make(4)
    assert first_mismatch(three, four) is not None
    assert first_mismatch(three, make(3)) is None


def test_calls_of_functions_that_are_elsewhere() -> None:
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(n: T.int32):
        I.GlobalVar("elsewhere")(n)
        T.call_extern("void", "f", n)
"""
    module = tvm.script.from_source(text)
    assert module["main"].body[0].value.op.name_hint == "elsewhere"
    assert_roundtrip(module)


def test_names_that_are_no_identifiers() -> None:
    inner = tir.PrimFunc([], tir.Evaluate(1)).with_attr("global_symbol", "a-b.c")
    call = tir.Call("void", tvm.ir.GlobalVar("two words"), [])
    module = tvm.IRModule({"a-b.c": inner, "two words": tir.PrimFunc([], tir.Evaluate(call))})
    assert_roundtrip(module)
    assert 'T.func_name("a-b.c")' in module.script()


def test_attributes_that_the_module_has() -> None:
    text = """
@I.ir_module
class Module:
    I.module_attrs({"a": 1})
    I.module_attrs({"b": len(I.module_get_attrs())})

    @T.prim_func
    def main(n: T.int32):
        T.evaluate(n)
"""
    assert tvm.script.from_source(text).attrs == {"a": 1, "b": 1}


def test_decorators_of_the_top_package() -> None:
    @tvm.script.ir_module
    class Other:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

    assert isinstance(Other, tvm.IRModule)
    assert_structural_equal(Other, tvm.script.from_source(Other.script()))


def test_from_source_of_functions_with_captured_values() -> None:
    n = 6

    def f(A: T.Buffer((n,), "int32")):  # type: ignore[no-untyped-def]
        A[0] = n

    func = tvm.script.from_source(f)
    assert str(func.body) == "A[0] = 6" and func.attrs["global_symbol"] == "f"


def outer_function() -> tir.PrimFunc:
    @T.prim_func(private=True)
    def put(p: T.handle("float32"), n: T.int32):
        A = T.Buffer((4,), data=p)
        A[n] = T.float32(1)

    result: tir.PrimFunc = put
    return result


def test_functions_that_exist_become_members() -> None:
    existing = outer_function()

    @I.ir_module
    class Made:
        put = existing
        other = I.decl_function("a-b", existing)
        I.def_function("third", existing.with_attr("x", 1))

        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            cls.put(A.data, 1)  # noqa: F821
            cls.third(A.data, 2)  # noqa: F821
            other(A.data, 3)  # noqa: F821

    assert {g.name_hint: f.attrs for g, f in Made.functions.items()} == {
        "put": {},
        "a-b": {},
        "third": {"x": 1},
        "main": {"global_symbol": "main"},
    }
    assert [s.value.op.name_hint for s in Made["main"].body.seq] == ["put", "third", "a-b"]
    assert_roundtrip(Made)


def test_functions_of_relay_beside() -> None:
    relay = tvm.relay
    x = relay.var("x", shape=(2, 3))
    func = relay.Function([x], relay.nn.softmax(relay.add(x, relay.const([1.0, 2.0, 3.0], "float32"))))
    module = tvm.IRModule({"main": func, "put": outer_function()})
    text = module.script()
    assert (
        "# main:\n    # fn (%x: Tensor[(2, 3), float32]" in text and 'I.def_function("main", metadata["relay.' in text
    )
    assert_roundtrip(module)
