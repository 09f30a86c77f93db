"""Operators whose sizes or axes the data decide: AffineGrid, Col2Im, and Squeeze without axes, against onnx's reference or ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import parser
from onnx.numpy_helper import from_array
from onnx.reference import ReferenceEvaluator

import tilewright as tvm
from tilewright import relay
from tilewright.relay.frontend.onnx.program import Program
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import DiagnosticError

Array = np.ndarray[Any, Any]
R = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    """Random numbers."""
    return R.standard_normal(shape).astype("float32")


def parsed(body: str, inputs: str, axes: int | None = None) -> Any:
    """A model that gives z, of so many axes if that is declared."""
    text = f"<ir_version: 9, opset_import: ['' : 20]> g ({inputs}) => (float{['', '[a]', '[a, b]'][axes or 0]} z) {{ {body} }}"
    made = parser.parse_model(text.replace("'", '"'))
    if axes is None:
        made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def check(made: Any, feeds: Sequence[Mapping[str, Any]], reference: bool = True) -> None:
    """One program of the virtual machine answers all inputs as the reference, or ONNX Runtime, does."""
    mod, params = relay.frontend.from_onnx(made)
    machine = VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    own: Any = ReferenceEvaluator(made) if reference else ort.InferenceSession(made.SerializeToString())
    for feed in feeds:
        given = {name: np.asarray(value) for name, value in feed.items()}
        want = own.run(None, given)[0]
        np.testing.assert_allclose(machine.run(**given).numpy(), want, rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("length", ["4", "5", "k"])
def test_affine_grid(length: str, align: int) -> None:
    n = 3 if length == "5" else 2
    made = parsed(f"z = AffineGrid <align_corners = {align}> (t, s)", f"float[b, {n}, {n + 1}] t, int64[{length}] s")
    sizes = ([2, 1, 4, 5, 3], [1, 3, 2, 7, 2])
    check(made, [{"t": floats(s[0], n, n + 1), "s": np.array(s[: n + 2])} for s in sizes])


def test_affine_grid_of_the_size_of_an_input() -> None:
    made = parsed("s = Shape (x) z = AffineGrid (t, s)", "float[b, c, h, w] x, float[b, 2, 3] t")
    check(made, [{"x": floats(*s), "t": floats(s[0], 2, 3)} for s in ((2, 3, 4, 5), (1, 1, 2, 7))])


@pytest.mark.parametrize(
    ("body", "kind", "taken"),
    [
        ("z = AffineGrid (x, v)", "float[2, 2, 3] x", "4"),
        ("z = Col2Im (x, v, v)", "float[2, 8, 9] x", "64 at most"),
    ],
)
def test_vectors_of_more_elements_than_axes(body: str, kind: str, taken: str) -> None:
    with pytest.raises(DiagnosticError, match=f"has 1099511627776 elements, where it takes {taken}, one an axis"):
        relay.frontend.from_onnx(parsed(body, f"{kind}, int64[1099511627776] v"))


def test_sizes_of_two_axes() -> None:
    with pytest.raises(DiagnosticError, match="its sizes have 2 axes, and are a vector"):
        relay.frontend.from_onnx(parsed("z = Resize (x, , , s)", "float[2, 2] x, int64[2, k] s"))


def test_a_tensor_of_more_axes_than_can_be() -> None:
    with pytest.raises(DiagnosticError, match="a tensor must have 64 axes at most, but it has 255"):
        relay.frontend.from_onnx(parsed("z = ConstantOfShape (v)", "int64[255] v"))


LAYOUTS = {
    "": lambda h, w: h * w,
    "strides = [2, 3], pads = [1, 0, 2, 1], dilations = [1, 2]": lambda h, w: ((h + 1) // 2 + 1) * ((w - 4) // 3 + 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_col2im_of_computed_images(layout: str) -> None:
    made = parsed(
        f"b = Constant <value = int64[2] {{2, 3}}> () z = Col2Im <{layout or 'pads = [0, 1, 1, 1]'}> (x, s, b)",
        "float[n, 12, l] x, int64[2] s",
    )
    sizes = [(5, 7), (4, 10)]
    check(made, [{"x": floats(k + 1, 12, LAYOUTS[layout](h, w)), "s": [h, w]} for k, (h, w) in enumerate(sizes)])


def test_col2im_of_computed_blocks() -> None:
    made = parsed("z = Col2Im (x, s, b)", "float[n, r, l] x, int64[k] s, int64[2] b")
    feeds = [
        {"x": floats(2, 8, 12), "s": [4, 5], "b": [2, 2]},
        {"x": floats(1, 18, 4), "s": [4, 4], "b": [3, 3]},
    ]
    check(made, feeds)


def test_col2im_of_five_axes() -> None:
    made = parsed(
        "s = Constant <value = int64[3] {4, 5, 3}> () b = Constant <value = int64[3] {1, 5, 2}> () z = Col2Im (x, s, b)",
        "float[n, 10, l] x",
    )
    check(made, [{"x": floats(2, 10, 8)}])


def test_squeeze_of_a_declared_number_of_axes() -> None:
    made = parsed("z = Squeeze (x)", "float[n, 1, m] x", axes=2)
    check(made, [{"x": floats(*s)} for s in ((2, 1, 3), (5, 1, 2))], reference=False)
    mod, params = relay.frontend.from_onnx(made)
    machine = VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    with pytest.raises(
        ValueError, match="whether axis 0 of the input of Squeeze '.*' has extent 1, since the output 'z', .* only its"
    ):
        machine.run(x=floats(1, 1, 3))


SQUEEZED = {
    "a number of all elements": "s = Squeeze (x) r = Relu (s) z = ReduceSum <keepdims = 0> (r)",
    "a shape": "s = Squeeze (x) r = Neg (s) z = Reshape (r, minus)",
    "two of one dimension": "s = Squeeze (x) a = Abs (x) t = Squeeze (a) p = Add (s, t) z = Reshape (p, minus)",
    "a rank": "s = Squeeze (x) d = Shape (s) e = Shape (d) f = Cast <to = 1> (e) z = Reshape (f, minus)",
}


@pytest.mark.parametrize("name", SQUEEZED)
def test_squeeze_where_ranks_come_together(name: str) -> None:
    made = parsed(f"minus = Constant <value = int64[1] {{-1}}> () {SQUEEZED[name]}", "float[n, 1, m, n] x")
    shapes = ((2, 1, 3, 2), (1, 1, 3, 1), (2, 1, 1, 2), (1, 1, 1, 1))
    check(made, [{"x": floats(*s)} for s in shapes], reference=False)


def test_programs_of_each_rank() -> None:
    """Where nothing says how many axes a result has, a program is compiled for the sizes that come."""
    run = Program(parsed("z = Squeeze (x)", "float[n, 1, m] x"))
    for shape in ((2, 1, 3), (1, 1, 3), (1, 1, 1)):
        x = floats(*shape)
        np.testing.assert_array_equal(run([x])[0], np.squeeze(x), strict=True)


def test_transposed_convolutions_of_dynamic_channels() -> None:
    weights = from_array(floats(3, 4, 3, 3), "w")
    made = parsed("z = ConvTranspose (x, w)", "float[1, c, 5, 6] x")
    made.graph.initializer.append(weights)
    check(made, [{"x": floats(1, 3, 5, 6)}])
