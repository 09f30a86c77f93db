"""Tensor arrays of the prelude, of free ranks and of fixed shapes, in the interpreter and in the virtual machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay_vm.executors import run_both
from tilewright import relay
from tilewright.relay.prelude import Prelude, StaticTensorArrayOps, TensorArrayOps, get_tensor_array_shape

RNG = np.random.default_rng(0)


def program(body: str, params: str, static: tuple[Any, ...] | None = None, dtype: str = "float32") -> relay.IRModule:
    """main with a body in which $name is a function, constructor or type for the dtype (and shape)."""
    p = Prelude()
    if static is None:
        TensorArrayOps(p, dtype).register()
    else:
        StaticTensorArrayOps(p, dtype, static).register()
    suffix = f"_{dtype}" if static is None else p.get_name_static("", dtype, static)
    text = f"def @main({params}) {{ {body} }}".replace("$", suffix)
    return relay.parse(text, init_module=p.mod)


def value(result: Any) -> Any:
    """The tensor in a tensor value."""
    return result.fields[0].numpy()


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "int64"])
def test_write_read_and_stack(dtype: str) -> None:
    mod = program(
        """let %l = @tensor_array$(3);
        let %l1 = @tensor_array_write$(%l, 0, tensor1$(%x));
        let %l2 = @tensor_array_write$(%l1, 1, tensor1$(%y));
        let %l3 = @tensor_array_write$(%l2, 2, @tensor_array_read$(%l2, 0));
        (@tensor_array_stack$(%l3), @tensor_array_concat$(%l3), @tensor_array_read$(%l, 1))""",
        f"%x: Tensor[(?), {dtype}], %y: Tensor[(?), {dtype}]",
        dtype=dtype,
    )
    x, y = (RNG.integers(0, 9, 4).astype(dtype) for _ in range(2))
    stacked, joined, empty = run_both(mod, x, y)
    np.testing.assert_array_equal(value(stacked), [x, y, x])
    np.testing.assert_array_equal(value(joined), np.concatenate([x, y, x]))
    assert empty.constructor.name_hint == f"tensor_nil_{dtype}"


def test_unstack_scatter_split_and_gather() -> None:
    mod = program(
        """let %l = @tensor_array_unstack_tensor2$(%x);
        let %s = @tensor_array_scatter$(%l, %at, Cons(tensor1$(%y), Cons(tensor1$(%y + %y), Nil())));
        let %p = @tensor_array_split$(@tensor_array$(2), tensor2$(%x), %n);
        (@tensor_array_stack$(%s), @tensor_array_gather$(%l, %at), @tensor_array_read$(%p, 0), @tensor_array_read$(%p, 1))""",
        "%x: Tensor[(?, ?), float32], %y: Tensor[(?), float32], %at: Tensor[(?), int32], %n: Tensor[(?), int32]",
    )
    x, y = RNG.standard_normal((3, 2)).astype("float32"), RNG.standard_normal(2).astype("float32")
    scattered, gathered, first, second = run_both(mod, x, y, np.array([2, 0], "int32"), np.array([1, 2], "int32"))
    np.testing.assert_array_equal(value(scattered), [y + y, x[1], y])
    np.testing.assert_array_equal(value(gathered), x[[2, 0]])
    np.testing.assert_array_equal(value(first), x[:1])
    np.testing.assert_array_equal(value(second), x[1:])


@pytest.mark.parametrize("shape", [(2,), (3, 2), ()])
def test_static_arrays(shape: tuple[int, ...]) -> None:
    dims = f"Tensor[({', '.join(map(str, shape))},), float32]" if shape else "float32"
    mod = program(
        """let %l = @tensor_array_write$(@tensor_array$(2), 0, tensor_constructor$(%x));
        let %f = @tensor_array_write$(%l, 1, tensor_constructor$(%y));
        let %u = @tensor_array_unstack$(stack((%x, %y, %x), axis=0));
        (@tensor_get_data$(@tensor_array_read$(%f, 1)), @tensor_array_stack$(%f), @tensor_array_gather$(%u, %at),
         @tensor_array_stack$(@tensor_array_scatter$(%f, %at, %u)))""",
        f"%x: {dims}, %y: {dims}, %at: Tensor[(?), int32]",
        shape,
    )
    x, y = (RNG.standard_normal(shape).astype("float32") for _ in range(2))
    read, stacked, gathered, scattered = run_both(mod, x, y, np.array([1, 0], "int32"))
    np.testing.assert_array_equal(read.numpy(), y)
    np.testing.assert_array_equal(value(stacked), [x, y])
    np.testing.assert_array_equal(value(gathered), [y, x])
    np.testing.assert_array_equal(value(scattered), [y, x])


def test_static_arrays_of_dynamic_rows_split_and_join() -> None:
    shape = (relay.Any(), 2)
    mod = program(
        """let %p = @tensor_array_split$(@tensor_array$(2), %x, %n);
        (@tensor_array_concat$(%p), @tensor_get_data$(@tensor_array_read$(%p, 0)), @tensor_take$(@tensor_array_read$(%p, 1), 0, 1))""",
        "%x: Tensor[(?, 2), float32], %n: Tensor[(?), int32]",
        shape,
    )
    x = RNG.standard_normal((5, 2)).astype("float32")
    joined, first, row = run_both(mod, x, np.array([3, 2], "int32"))
    np.testing.assert_array_equal(value(joined), x)
    np.testing.assert_array_equal(first.numpy(), x[:3])
    np.testing.assert_array_equal(value(row), x[3:4])


def test_names() -> None:
    p = Prelude()
    assert p.get_name("tensor_t", "float32") == "tensor_float32_t"
    assert p.get_name_static("tensor_t", "int8", (2, relay.Any())) == "static_tensor_int8_2_any_t"
    assert p.get_name_static("tensor_array_read", "int8", ()) == "tensor_array_read_int8_scalar"
    assert p.get_global_var("tensor_array_read", "float32").name_hint == "tensor_array_read_float32"
    assert p.get_tensor_ctor("tensor2", "float32").name_hint == "tensor2_float32"
    assert p.get_ctor("tensor_t", "tensor_nil", "float32").name_hint == "tensor_nil_float32"
    assert p.get_type("tensor_t", "float32").name_hint == "tensor_float32_t"
    assert p.get_global_var_static("tensor_get_data", "float32", (3,)).name_hint == "tensor_get_data_float32_3"
    assert p.get_tensor_ctor_static("tensor_constructor", "float32", (3,)).name_hint == "tensor_constructor_float32_3"
    read = p.get_global_var_static("tensor_array_read", "float32", (3,))
    taken = read(p.get_global_var_static("tensor_array", "float32", (3,))(relay.const(2)), relay.const(0))
    assert get_tensor_array_shape(taken, "float32", p) == (3,)


def test_natural_numbers() -> None:
    mod = relay.IRModule()
    mod.import_from_std("nat.rly")
    mod = relay.parse(
        "def @main() { @nat_iterate(fn (%x: int32) { %x + 1 }, @nat_add(@nat_double(s(s(z()))), s(z())))(0) }",
        init_module=mod,
    )
    assert int(run_both(mod).numpy()) == 5


def test_types_are_there_by_their_names() -> None:
    prelude = Prelude(relay.IRModule())
    header, *constructors = prelude.get_type("tensor_float32_t")
    assert header.name_hint == "tensor_float32_t" and constructors[1].name_hint == "tensor0_float32"
    few = len(prelude.mod.functions)
    prelude.load_prelude()
    names = {h.name_hint for h in prelude.mod.type_definitions}
    assert {"List", "tensor_int64_t", "tensor_uint8_t", "tensor_float16_t"} <= names
    assert len(prelude.mod.functions) > 5 * few
