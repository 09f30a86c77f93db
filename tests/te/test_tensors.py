"""Tensors and operations: indexing, operators, tags, and the texts of their errors."""

from __future__ import annotations

import functools

import pytest

from tilewright import te, tir
from tilewright.node import load_json, save_json, structural_equal


def test_indexing_gives_loads_and_slices() -> None:
    a = te.placeholder((4, 8), name="A")
    i, j = te.var("i"), te.var("j")
    assert isinstance(a[i, j], tir.ProducerLoad) and isinstance(a[i], te.TensorSlice)
    assert structural_equal(a[i][j], a[i, j]) and structural_equal(a(i, j), a[i, j])
    assert a.ndim == 2 and a.dtype == "float32" and a.name == "A" and a.op.output(0) is a


def test_wrong_number_of_indices() -> None:
    a = te.placeholder((4, 8), name="A")
    with pytest.raises(ValueError, match=r"tensor A has 2 dimensions, but was indexed with 3: 0, 1, 2"):
        a[0, 1, 2]


def test_iteration_over_the_first_axis() -> None:
    a = te.placeholder((2, 3), name="A")
    assert [[str(load) for load in row] for row in a] == [[f"A[{i}, {j}]" for j in range(3)] for i in range(2)]
    b = te.compute((2,), lambda i: sum([a[i, j] for j, _ in enumerate(a[0])], tir.const(0.0, "float32")), name="B")
    assert b.shape[0] == 2
    with pytest.raises(TypeError, match="tensor N cannot be iterated over: it has n parts, a number that is not known"):
        list(te.placeholder((te.var("n"),), name="N"))
    with pytest.raises(TypeError, match="tensor S cannot be iterated over: it has no axis left"):
        list(te.placeholder((), name="S"))


def test_parameters_must_fit_the_shape() -> None:
    with pytest.raises(
        ValueError, match=r"compute .compute.: the function takes 1 indices \(i\), but the shape has 2 dimensions"
    ):
        te.compute((4, 8), lambda i: i)


def test_axes_are_named_after_parameters() -> None:
    names = lambda t: [a.var.name for a in t.op.axis]  # noqa: E731
    a = te.placeholder((4, 8), name="A")
    assert names(te.compute((4, 8), lambda x, y: a[x, y])) == ["x", "y"]
    assert names(te.compute((4, 8), lambda *i: a(*i))) == ["i0", "i1"]
    assert names(te.compute((4, 8), lambda n, *i: a(n, *i), varargs_names=["m"])) == ["n", "m"]
    assert names(te.compute((4, 8), functools.partial(lambda t, x, y: t[x, y], a))) == ["x", "y"]


def test_nested_reduction_is_refused() -> None:
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    with pytest.raises(ValueError, match="compute 'B': reductions are only allowed at the top level"):
        te.compute((4,), lambda i: te.sum(a[i, k], axis=k) + 1.0, name="B")


def test_reduction_axis_must_be_one() -> None:
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    with pytest.raises(TypeError, match="reduction axis comes from te.reduce_axis, but was given Var"):
        te.compute((4,), lambda i: te.sum(a[i, k.var], axis=[k, k.var]))


def test_operators_make_elementwise_computes() -> None:
    a, b = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    for t in (a + b, a - 1, 2.0 * a, a / b, -a, te.var("x", "float32") + a):
        assert isinstance(t, te.Tensor) and t.op.tag in ("elemwise", "broadcast", "")
    assert (a + b).op.input_tensors == (a, b)


def test_tags() -> None:
    with te.tag_scope("conv"):
        assert te.compute((4,), lambda i: i, name="X").op.tag == "conv"
        with pytest.raises(ValueError, match="'dense' was created inside tag scope 'conv'"):
            te.compute((4,), lambda i: i, tag="dense")
        with (
            pytest.raises(ValueError, match="nested op_tag is not allowed: 'b' was opened inside 'conv'"),
            te.tag_scope("b"),
        ):
            pass

    @te.tag_scope("pool")
    def pool() -> te.Tensor:
        made: te.Tensor = te.compute((4,), lambda i: i, name="X")
        return made

    assert pool().op.tag == "pool" and te.compute((4,), lambda i: i).op.tag == ""


def test_extern_errors() -> None:
    a = te.placeholder((4,), name="A")
    b = te.placeholder((4,), name="B", dtype="int32")
    with pytest.raises(ValueError, match=r"no dtype was given, and it cannot be taken from inputs of types"):
        te.extern((4,), [a, b], lambda i, o: tir.call_extern("int32", "f"))
    with pytest.raises(ValueError, match="must return a statement or a call, but returned int"):
        te.extern((4,), [a], lambda i, o: 3)
    with pytest.raises(ValueError, match=r"extern 'extern': inputs\[0\] must be a tensor, but is int"):
        te.extern((4,), [1], lambda i, o: 3)  # type: ignore[list-item]


def test_json_round_trip() -> None:
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    again = load_json(save_json(b))
    assert structural_equal(again, b) and isinstance(again, te.Tensor)
    assert structural_equal(te.create_prim_func([again.op.input_tensors[0], again]), te.create_prim_func([a, b]))
