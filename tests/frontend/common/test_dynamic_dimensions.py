"""Models with dynamic dimensions: what exporters compute of shapes becomes symbolic sizes, and one program runs at every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tilewright import relay
from tilewright.relay.backend.vm import compile as vm_compile
from tilewright.runtime.vm import VirtualMachine
from tilewright.tir import SizeVar

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'

HEADS = """agraph (float[n, s, 12] x) => (float[n, s, 12] y)
<int64 zero = {0}, int64 one = {1}, int64[2] tail = {3, 4}, int64[1] minus = {-1}, int64[1] first = {0}> {
    shape = Shape(x)
    batch = Gather(shape, zero)
    length = Gather(shape, one)
    b1 = Unsqueeze(batch, first)
    l1 = Unsqueeze(length, first)
    apart = Concat<axis = 0>(b1, l1, tail)
    heads = Reshape(x, apart)
    turned = Transpose<perm = [0, 2, 1, 3]>(heads)
    three = Constant<value_int = 3>()
    both = Mul(batch, three)
    m1 = Unsqueeze(both, first)
    four = Constant<value_ints = [4]>()
    flat_shape = Concat<axis = 0>(m1, minus, four)
    flat = Reshape(turned, flat_shape)
    turned_shape = Shape(turned)
    again = Reshape(flat, turned_shape)
    back = Transpose<perm = [0, 2, 1, 3]>(again)
    whole = Concat<axis = 0>(b1, l1, minus)
    y = Reshape(back, whole)
}"""

POSITIONS = """agraph (int64[n, s] ids, float[n, s] x) => (float[n, s] y, float[h] z)
<int64[1] zero = {0}, int64[1] one = {1}, int64 start = {0}, int64 step = {1}, int64[1] two = {2},
 float[1, 8] table = {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0}> {
    s1 = Shape<start = 1, end = 2>(ids)
    s0 = Squeeze(s1)
    shape = Shape(ids)
    part = Slice(table, zero, s1, one, one)
    wide = Expand(part, shape)
    range = Range(start, s0, step)
    floats = Cast<to = 1>(range)
    sum = Add(wide, floats)
    y = Add(sum, x)
    half = Div(s1, two)
    row = ReduceSum<keepdims = 0>(x, zero)
    z = Slice(row, zero, half)
}"""


def machine(text: str, **given: Any) -> tuple[Any, VirtualMachine]:
    """The reference and the compiled program of a model."""
    model = onnx.parser.parse_model(HEAD + text)
    mod, params = relay.frontend.from_onnx(model, **given)
    return ReferenceEvaluator(model), VirtualMachine(vm_compile(mod, "llvm", params=params))


@pytest.mark.parametrize("given", [{}, {"shape": {"x": (None, relay.Any(), 12)}}], ids=("declared", "given"))
def test_attention_heads(given: dict[str, Any]) -> None:
    reference, vm = machine(HEADS, **given)
    for n, s in ((1, 1), (2, 5), (3, 8)):
        x = np.random.default_rng(n).standard_normal((n, s, 12)).astype("float32")
        np.testing.assert_array_equal(vm.run(x).numpy(), reference.run(None, {"x": x})[0])


def test_types_say_what_is_equal() -> None:
    mod, _ = relay.frontend.from_onnx(onnx.parser.parse_model(HEAD + HEADS))
    main = mod["main"]
    given, result = main.params[0].checked_type, main.ret_type
    assert [d.name for d in given.shape[:2]] == ["n", "s"] and all(isinstance(d, SizeVar) for d in given.shape[:2])
    assert result == given


def test_positions_ranges_and_slices() -> None:
    reference, vm = machine(POSITIONS)
    for n, s in ((1, 1), (2, 5), (3, 8)):
        feeds = {"ids": np.zeros((n, s), np.int64), "x": np.random.default_rng(n).random((n, s), np.float32)}
        for mine, theirs in zip(vm.run(*feeds.values()), reference.run(None, feeds), strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-6)


def test_a_size_beyond_the_table_is_refused() -> None:
    _, vm = machine(POSITIONS)
    with pytest.raises(ValueError, match=r"the sizes .* must be equal or 1"):
        vm.run(np.zeros((1, 9), np.int64), np.zeros((1, 9), np.float32))


READ = """agraph (float[n, 6] x, int64[2] shape, int64 stop, int64[2] times) => (float[a, b] y, int64[c] z, float[d, e] w)
<int64 start = {0}, int64 step = {2}> {
    y = Reshape(x, shape)
    z = Range(start, stop, step)
    w = Tile(x, times)
}"""


def test_shapes_that_are_inputs_are_read_when_the_program_runs() -> None:
    reference, vm = machine(READ)
    for n, shape, stop, times in ((2, (3, 4), 5, (1, 2)), (3, (-1, 9), 0, (2, 1)), (1, (6, 1), 8, (3, 2))):
        x = np.random.default_rng(n).random((n, 6), np.float32)
        feeds = {"x": x, "shape": np.array(shape), "stop": np.array(stop), "times": np.array(times)}
        for mine, theirs in zip(vm.run(*feeds.values()), reference.run(None, feeds), strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs)
