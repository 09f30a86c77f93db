"""lower() and build(): packed functions, the text of their errors, options of PassContext."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.ir.transform import PassContext
from tilewright.support.errors import TVMError


def nd(a: Any) -> Any:
    return tvm.nd.array(a)


def add_rows() -> tir.PrimFunc:
    n = tir.Var("n", "int32")
    a, b = te.placeholder((n, 4), name="A"), te.placeholder((n,), name="B")
    return te.create_prim_func([a, b, te.compute((n, 4), lambda i, j: a[i, j] + b[i], name="C")])


@pytest.fixture(scope="module")
def rows() -> Any:
    return tvm.build(add_rows(), target="llvm", name="addb")["addb"]


def test_symbolic_sizes_come_from_the_arguments(rows: Any) -> None:
    for n in (1, 5, 17):
        a, b, c = (
            np.random.rand(n, 4).astype("float32"),
            np.random.rand(n).astype("float32"),
            nd(np.zeros((n, 4), "float32")),
        )
        rows(nd(a), nd(b), c)
        np.testing.assert_array_equal(c.numpy(), a + b[:, None])


F = "float32"
BAD = [
    (((5, 4, F), (5, F)), TypeError, "addb: the number of arguments must be 3, but is 2"),
    (
        ((5, 4, F), (5, F), 3),
        TypeError,
        r"addb: argument 2 \(C\) must be a tensor, but is an int$",
    ),
    (
        ((5, 4, F), (5, 1, F), (5, 4, F)),
        ValueError,
        r"addb: argument 1 \(B\): its number of dimensions must be 1, but is 2",
    ),
    (
        ((5, 4, F), (5, F), (5, 4, "float64")),
        TypeError,
        r"addb: argument 2 \(C\): its dtype must be float32: its bits must be 32, but is 64",
    ),
    (
        ((5, 4, F), (5, F), (5, 4, "int32")),
        TypeError,
        r"addb: argument 2 \(C\): its dtype must be float32: its type code .* must be 2, but is 0",
    ),
    (((5, 3, F), (5, F), (5, 4, F)), ValueError, r"addb: argument 0 \(A\): dimension 1 must be 4, but is 3"),
    (((5, 4, F), (6, F), (5, 4, F)), ValueError, r"addb: argument 1 \(B\): dimension 0 must be equal to n, but is 6"),
]


@pytest.mark.parametrize(("args", "kind", "text"), BAD)
def test_wrong_arguments(rows: Any, args: Any, kind: type[Exception], text: str) -> None:
    values = [nd(np.zeros(x[:-1], x[-1])) if isinstance(x, tuple) else x for x in args]
    with pytest.raises(kind, match=text):
        rows(*values)


def test_tensors_that_are_not_compact(rows: Any) -> None:
    import torch

    with pytest.raises(ValueError, match=r"addb: argument 0 \(A\) must be compact and row-major: stride 1 of it is 5"):
        rows(torch.zeros(4, 5).t(), torch.zeros(5), torch.zeros(5, 4))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int32", "int64", "float16", "bool"])
def test_dtypes(dtype: str) -> None:
    a = te.placeholder((3, 5), dtype=dtype, name="A")
    b = te.compute((3, 5), lambda i, j: a[i, 4 - j], name="B")
    f = tvm.build(te.create_prim_func([a, b]), target="llvm")
    x = np.arange(15).reshape(3, 5).astype(dtype)
    y = nd(np.zeros((3, 5), dtype))
    f(nd(x), y)
    np.testing.assert_array_equal(y.numpy(), x[:, ::-1])


def test_scalar_arguments_and_results() -> None:
    n, x = tir.Var("n", "int32"), tir.Var("x", "float32")
    value = tir.Cast("float32", n) * x
    f = tir.PrimFunc([n, x], tir.Evaluate(tir.ret(value))).with_attr("global_symbol", "scaled")
    scaled = tvm.build(f, target="llvm")["scaled"]
    assert scaled(3, 1.5) == 4.5
    assert scaled(3, 2) == 6.0
    with pytest.raises(TypeError, match=r"scaled: argument 0 \(n\) must be an int, but is a float$"):
        scaled(1.0, 1.0)


def test_lower_options() -> None:
    seen: list[str] = []

    def note(func: tir.PrimFunc, mod: Any, ctx: Any) -> tir.PrimFunc:
        seen.append(func.attrs["global_symbol"])
        return func

    class Names:
        def __init__(self) -> None:
            self.names: list[str] = []

        def run_before_pass(self, mod: Any, info: Any) -> None:
            self.names.append(info.name)

    names = Names()
    with PassContext(config={"tir.add_lower_pass": [(1, note)]}, instruments=[names]):
        tvm.lower(add_rows(), name="f")
    assert seen == ["f"]
    assert names.names.index("note") > names.names.index("tir.FlattenBuffer")
    assert names.names.index("note") < names.names.index("tir.VectorizeLoop")
    with PassContext(disabled_pass=["tir.StorageRewrite"], instruments=[names]):
        names.names.clear()
        tvm.lower(add_rows())
    assert "tir.StorageRewrite" not in names.names
    with (
        PassContext(config={"tir.add_lower_pass": [(7, note)]}),
        pytest.raises(TVMError, match=r'"tir.add_lower_pass" takes pairs \(phase 0..3, pass\), but holds \(7'),
    ):
        tvm.lower(add_rows())


@pytest.mark.parametrize(("phase", "blocks", "loads"), [(0, True, 2), (1, False, 1), (2, False, 1), (3, False, 1)])
def test_phases_of_added_passes(phase: int, blocks: bool, loads: int) -> None:
    seen: list[tir.PrimFunc] = []

    def note(func: tir.PrimFunc, mod: Any, ctx: Any) -> tir.PrimFunc:
        seen.append(func)
        return func

    a = te.placeholder((4, 4), name="A")
    func = te.create_prim_func([a, te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="B")])
    with PassContext(config={"tir.add_lower_pass": [(phase, note)]}):
        tvm.lower(func)
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(seen[0].body, found.append)
    assert any(isinstance(n, tir.Block) for n in found) is blocks
    assert {len(n.indices) for n in found if isinstance(n, tir.BufferLoad)} == {loads}


def test_options_without_effect_here() -> None:
    options = {"tir.disable_cse_tir": True, "tir.vtcm_capacity": 0, "tir.InjectDoubleBuffer": {"split_loop": 2}}
    with PassContext(config=options):
        optioned = tvm.lower(add_rows())
    tvm.ir.assert_structural_equal(optioned, tvm.lower(add_rows()))


def test_names_of_a_function_alone() -> None:
    a = te.placeholder((4,), name="A")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="B")]).with_attr("global_symbol", "mine")
    assert tvm.lower(func)["main"].attrs["global_symbol"] == "mine"
    assert tvm.lower(func, name="other")["other"].attrs["global_symbol"] == "other"
    assert tir.Schedule(func).mod["main"].attrs["global_symbol"] == "mine"
    out = tvm.nd.empty((4,))
    for built, name in ((tvm.build(func), "mine"), (tvm.build(func, name="other"), "other")):
        built[name](nd(np.zeros(4, "float32")), out)
        built(nd(np.zeros(4, "float32")), out)
        np.testing.assert_array_equal(out.numpy(), 1)


def test_wrong_inputs() -> None:
    with pytest.raises(
        ValueError, match="lower takes a PrimFunc, an IRModule, a tir.Schedule or a te.Schedule, but was given int"
    ):
        tvm.build(3)
    with pytest.raises(ValueError, match="lower: args go with a te.Schedule; a PrimFunc has its own parameters"):
        tvm.lower(add_rows(), [1])
    with pytest.raises(
        TVMError, match="build: there is no code generator for target kind 'vulkan'; there are ones for .*llvm"
    ):
        tvm.build(add_rows(), target="vulkan")


def test_dimension_that_no_argument_gives() -> None:
    n = tir.Var("n", "int32")
    a = te.placeholder((n * 2,), name="A")
    b = te.compute((n * 2,), lambda i: a[i], name="B")
    f = te.create_prim_func([a, b])
    with pytest.raises(TVMError, match="n cannot be found from the arguments; make it a parameter"):
        tvm.build(f, target="llvm")


def test_assertions_can_be_left_out() -> None:
    out, n = tir.decl_buffer((4,), "int32", "out"), tir.Var("n")
    store = tir.BufferStore(out, n, [0])
    func = tir.PrimFunc([out, n], tir.AssertStmt(n > 0, tir.StringImm("n must be positive"), store))
    assert "n must be positive" in tvm.lower(func).script()
    with PassContext(config={"tir.disable_assert": True}):
        assert "n must be positive" not in tvm.lower(func).script()


def test_the_only_function_is_the_entry() -> None:
    out = tir.decl_buffer((4,), "int32", "out")
    fill = [tir.PrimFunc([out], tir.BufferStore(out, value, [0])) for value in (3, 4)]
    array = tvm.nd.array(np.zeros(4, "int32"))
    tvm.build(tvm.IRModule({"fill": fill[0].with_attr("global_symbol", "fill")}))(array)
    assert array.numpy()[0] == 3
    both = tvm.IRModule({name: f.with_attr("global_symbol", name) for name, f in zip(("a", "b"), fill, strict=True)})
    with pytest.raises(AttributeError, match="the module has no main function; call one by name"):
        tvm.build(both)(array)
