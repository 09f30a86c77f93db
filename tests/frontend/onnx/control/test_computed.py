"""Shapes, bounds and counts that only a run knows: read by the virtual machine, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import parser

import tilewright as tvm
from tilewright import relay

ROWS = np.random.default_rng(0).standard_normal((2, 7)).astype("float32")
IMAGE = np.random.default_rng(0).standard_normal((1, 4, 6, 5)).astype("float32")
TO_EIGHT = """s = Shape (x) o = Constant <value = int64[1] {1}> () e = Constant <value = int64[1] {8}> ()
    z0 = Constant <value = int64[1] {0}> ()
    n = Gather (s, o) r = Mod (n, e) q = Sub (e, r) b = Mod (q, e) p = Concat <axis = 0> (z0, z0, z0, b) """
SIZE = "s = Shape (x) o = Constant <value = int64[1] {1}> () n = Gather (s, o) "
MODES = ("constant", "edge", "reflect", "wrap")
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "expand": ("z = Expand (x, s)", "float[1, n] x, int64[3] s", {"x": ROWS[:1], "s": [4, 3, 1]}),
    "expand by fewer axes": ("z = Expand (x, s)", "float[2, n] x, int64[1] s", {"x": ROWS, "s": [7]}),
    **{
        f"slice {s} {e}": ("z = Slice (x, s, e)", "float[m, n] x, int64[2] s, int64[2] e", {"x": ROWS, "s": s, "e": e})
        for s, e in (([0, 1], [1, 4]), ([-1, -4], [2, -1]), ([1, 3], [0, 1000]), ([0, -100], [2, 2]))
    },
    "slice backwards": (
        "a = Constant <value = int64[1] {-1}> () b = Constant <value = int64[1] {-2}> () z = Slice (x, s, e, a, b)",
        "float[2, n] x, int64[1] s, int64[1] e", {"x": ROWS, "s": [-1], "e": [-100]},
    ),
    "slice to a computed end": (
        "s = Constant <value = int64[1] {0}> () a = Constant <value = int64[1] {1}> () z = Slice (x, s, e, a)",
        "float[2, n] x, int64[1] e", {"x": ROWS, "e": [3]},
    ),
    "topk": ("v, i = TopK (x, k) f = Cast <to = 1> (i) z = Add (v, f)", "float[2, n] x, int64[1] k", {"x": ROWS, "k": [3]}),
    "topk of none": ("v, i = TopK (x, k) f = Cast <to = 1> (i) z = Add (v, f)", "float[2, n] x, int64[1] k", {"x": ROWS, "k": [0]}),
    "topk of a constant none": (
        "k = Constant <value = int64[1] {0}> () v, i = TopK <axis = 0> (x, k) f = Cast <to = 1> (i) z = Add (v, f)",
        "float[m, 7] x", {"x": ROWS},
    ),
    "topk of all": (SIZE + "v, i = TopK (x, n) f = Cast <to = 1> (i) z = Add (v, f)", "float[2, n] x", {"x": ROWS}),
    "topk of half": (
        SIZE + "t = Constant <value = int64[1] {2}> () k = Div (n, t) v, i = TopK (x, k) z = Identity (v)", "float[2, n] x", {"x": ROWS},
    ),
    "one-hot": (
        "z = OneHot (i, d, v)", "int64[3] i, int64 d, float[2] v", {"i": [0, -1, 2], "d": np.array(4), "v": np.array([0.5, 2], "float32")},
    ),
    "one-hot as wide as an input": (
        SIZE + "v = Constant <value = float[2] {0, 1}> () z = OneHot (i, n, v)", "float[2, n] x, int64[3] i", {"x": ROWS, "i": [0, -1, 2]},
    ),
    **{f"pad {m}": (f"z = Pad <mode = '{m}'> (x, p)", "float[2, n] x, int64[4] p", {"x": ROWS, "p": [0, 1, 1, 2]}) for m in MODES},
    **{f"pad {m} to a multiple": (TO_EIGHT + f"z = Pad <mode = '{m}'> (x, p)", "float[2, n] x", {"x": ROWS}) for m in MODES},
    "pad by less than nothing": ("z = Pad (x, p)", "float[2, n] x, int64[4] p", {"x": ROWS, "p": [0, -1, 1, 2]}),
    "pad an axis": (
        "a = Constant <value = int64[1] {1}> () c = Constant <value = float {2}> () z = Pad (x, p, c, a)",
        "float[2, n] x, int64[2] p", {"x": ROWS, "p": [1, 2]},
    ),
    "crop or pad": ("z = CenterCropPad (x, s)", "float[h, n] x, int64[2] s", {"x": ROWS, "s": [4, 4]}),
    "three parts of seven": ("a, b, z = Split <axis = 1, num_outputs = 3> (x)", "float[2, n] x", {"x": ROWS}),
    "the second of four parts": ("a, z, b, c = Split <axis = -1, num_outputs = 4> (x)", "float[2, n] x", {"x": ROWS}),
    **{
        f"pool {auto}": (
            f"z = MaxPool <kernel_shape = [3, 2], strides = [2, 2], auto_pad = '{auto}'> (x)", "float[1, 4, h, w] x", {"x": IMAGE},
        )
        for auto in ("SAME_UPPER", "SAME_LOWER")
    },
    "convolution SAME": (
        "v = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> () t = Constant <value = int64[4] {1, 4, 2, 1}> ()"
        " w = Reshape (v, t) z = Conv <strides = [2, 2], auto_pad = 'SAME_LOWER'> (x, w)", "float[1, 4, h, w0] x", {"x": IMAGE},
    ),
    "transposed convolution SAME": (
        "v = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]> ()"
        " t = Constant <value = int64[4] {4, 1, 3, 1}> () w = Reshape (v, t)"
        " z = ConvTranspose <strides = [2, 2], auto_pad = 'SAME_UPPER'> (x, w)",
        "float[1, 4, h, w0] x", {"x": IMAGE},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_computed(name: str) -> None:
    body, inputs, values = CASES[name]
    text = f"<ir_version: 8, opset_import: ['' : 19]> g ({inputs}) => (float z) {{ {body} }}"
    made = parser.parse_model(text.replace("'", '"'))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = {k: np.asarray(v) for k, v in values.items()}
    (want,) = ort.InferenceSession(made.SerializeToString()).run(None, feeds)
    mod, _ = relay.frontend.from_onnx(made)
    arguments = [feeds[p.name_hint] for p in mod["main"].params]
    for kind in ("debug", "vm") if name.startswith("topk of none") else ("vm",):
        got = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()(*arguments).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, strict=True)


def test_softmax_of_dynamic_axes() -> None:
    """Until opset 13 everything from an axis on is one."""
    made = parser.parse_model(
        '<ir_version: 7, opset_import: ["" : 11]> g (float[b, h, n] x) => (float[b, h, n] z) { z = Softmax <axis = 1> (x) }'
    )
    x = IMAGE[0]
    (want,) = ort.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    mod, _ = relay.frontend.from_onnx(made)
    got = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(x).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, strict=True)


def imported(body: str, inputs: str, opset: int = 19) -> Any:
    """The module of a model that gives z."""
    text = f"<ir_version: 8, opset_import: ['' : {opset}]> g ({inputs}) => (float z) {{ {body} }}"
    made = parser.parse_model(text.replace("'", '"'))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return relay.frontend.from_onnx(made)[0]


@pytest.mark.parametrize(
    "body, inputs, finding",
    [
        (
            "s = Constant <value = int64[2] {3, 3}> () z, b = Split <axis = 1> (x, s)", "float[2, n] x",
            r"the sizes T.int64\(2\) \* n and T.int64\(12\) must be equal \(reshape\), but they are 14 and 12",
        ),
        (
            "s = Constant <value = int64[2] {5, 4}> () a, b = Split <axis = -1> (x, s) z = Relu (b)", "float[m, n] x",
            "must be equal .*, but they are 7 and 9",
        ),
        (
            "s = Constant <value = int64[1] {8}> () z = Split <axis = 1> (x, s)", "float[m, n] x",
            "must be equal .*, but they are 7 and 8",
        ),
        (
            "r = Relu (x) s = Constant <value = int64[2] {2, 9}> () w = Reshape (r, s) z = Relu (w)", "float[2, n] x",
            "must be equal .*, but they are 14 and 18",
        ),
        ("k = Constant <value = int64[1] {8}> () z, i = TopK (x, k)", "float[2, n] x", r"\(topk\), but they are 8 and 7"),
        (SIZE + "k = Add (n, o) z, i = TopK (x, k)", "float[2, n] x", r"\(topk\), but they are 8 and 7"),
        (
            "p = Constant <value = int64[4] {0, 7, 0, 0}> () z = Pad <mode = 'reflect'> (x, p)", "float[2, n] x",
            r"\(nn.pad\), but they are 7 and 8",
        ),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit(body: str, inputs: str, finding: str) -> None:
    """A machine that went on would read what is not part of its inputs."""
    run = relay.create_executor("vm", imported(body, inputs), tvm.cpu(), "llvm").evaluate()
    with pytest.raises(ValueError, match=finding):
        run(ROWS)


@pytest.mark.parametrize("body", ["z = DepthToSpace <blocksize = 2> (x)", "z = SpaceToDepth <blocksize = 2> (x)"])
def test_blocks_that_are_not_whole(body: str) -> None:
    run = relay.create_executor("vm", imported(body, "float[n, c, h, w] x"), tvm.cpu(), "llvm").evaluate()
    assert run(np.ones((1, 4, 2, 6), np.float32)).numpy().size == 48
    with pytest.raises(ValueError, match="must be equal"):
        run(np.ones((1, 5, 3, 7), np.float32))


@pytest.mark.parametrize("extents", ["2, 7", "2, n", "m, n"])
@pytest.mark.parametrize("told", [2, 7, 12])
def test_places_behind_the_last_one(extents: str, told: int) -> None:
    """What a condition says of them is ignored."""
    for count in ("q", str(told)):
        mod = imported("b = Cast <to = 9> (c) z = Compress <axis = 1> (x, b)", f"float[{extents}] x, int64[{count}] c")
        found = np.arange(told) % 2
        got = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(ROWS, found).numpy()
        np.testing.assert_array_equal(got, np.compress(found[:7], ROWS, axis=1))


def test_more_elements_than_there_are() -> None:
    mod = imported("z, i = TopK (x, k)", "float[2, n] x, int64[1] k")
    with pytest.raises(ValueError, match="topk.*, but they are 8 and 7"):
        relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(ROWS, np.array([8]))


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_fewer_elements_than_none(kind: str) -> None:
    mod = imported("z, i = TopK (x, k)", "float[2, n] x, int64[1] k")
    with pytest.raises((tvm.error.TVMError, ValueError), match="k must be 0 or more"):
        relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()(ROWS, np.array([-1]))


def test_padding_of_dynamic_axes_around() -> None:
    body = "p = Constant <value = int64[4] {1, -2, 0, 9}> () z = Pad <mode = 'wrap'> (x, p)"
    got = relay.create_executor("vm", imported(body, "float[m, n] x"), tvm.cpu(), "llvm").evaluate()(ROWS).numpy()
    np.testing.assert_array_equal(got, np.pad(ROWS[:, 2:], ((1, 0), (0, 9)), "wrap"))


def test_parts_of_symbolic_sizes() -> None:
    halves = "t = Constant <value = int64[1] {2}> () h = Div (n, t) r = Sub (n, h) c = Concat <axis = 0> (h, r) "
    mod = imported(SIZE + halves + "a, z = Split <axis = 1> (x, c)", "float[2, n] x")
    got = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(ROWS).numpy()
    np.testing.assert_array_equal(got, ROWS[:, 3:])
    mod = imported("s = Shape (y) a, z = Split <axis = 1> (x, s)", "float[2, n] x, float[a, b] y")
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    np.testing.assert_array_equal(run(ROWS, np.zeros((3, 4), np.float32)).numpy(), ROWS[:, 3:])
    with pytest.raises(ValueError, match="what the parts leave of the axis must be from 0 to 0"):
        run(ROWS, np.zeros((3, 3), np.float32))


@pytest.mark.parametrize("kind", ["debug", "vm"])
@pytest.mark.parametrize("order", ["(t, r)", "(r, t)", "(t, r, f)"])
def test_parts_of_fewer_elements_than_none(kind: str, order: str) -> None:
    """Three elements of two, and what is left; the last of three parts has five."""
    count = order.count(",") + 1
    given = "t = Constant <value = int64[1] {3}> () f = Constant <value = int64[1] {5}> () "
    rest = f"u = Constant <value = int64[1] {{{3 if count == 2 else 8}}}> () r = Sub (n, u) "
    parts = f"c = Concat <axis = 0> {order} {', '.join('abz'[-count:])} = Split <axis = 1> (x, c)"
    mod = imported(SIZE + given + rest + parts, "float[2, n] x")
    run = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()
    wide = np.arange(20, dtype="float32").reshape(2, 10)
    np.testing.assert_array_equal(
        run(wide).numpy(), {"(t, r)": wide[:, 3:], "(r, t)": wide[:, 7:]}.get(order, wide[:, 5:])
    )
    with pytest.raises(
        (tvm.error.TVMError, ValueError), match="must not be negative|positions must rise within the axis"
    ):
        run(wide[:, :2].copy() if count == 2 else wide[:, :7].copy())


@pytest.mark.parametrize(
    "body, finding",
    [
        ("a, z = Split <axis = 1, num_outputs = 3> (x)", "it names 2 outputs, and its attribute num_outputs is 3"),
        ("z = Split <axis = 1, num_outputs = 2> (x)", "it names 1 outputs, and its attribute num_outputs is 2"),
        (
            "p = Constant <value = int64[6] {0, 1, 1, 2, 5, 5}> () z = Pad (x, p)",
            "it has 6 pads, where each of its 2 axes has two",
        ),
        ("z = Celu <alpha = 0.0> (x)", "its alpha is 0, by which it divides"),
        ("z = Unique <axis = 7> (x)", r"its axes are \[7\], but there are 2"),
    ],
)
def test_counts_that_do_not_fit(body: str, finding: str) -> None:
    with pytest.raises(tvm.error.TVMError, match=finding):
        imported(body, "float[2, n] x")


def test_more_pads_than_can_be() -> None:
    with pytest.raises(tvm.error.TVMError, match="it has 1099511627776 pads, where each of its 2 axes has two"):
        imported("z = Pad (x, v)", "float[2, n] x, int64[1099511627776] v")


AXES = {
    "Slice": "b = Constant <value = int64[2] {0, 0}> () e = Constant <value = int64[2] {1, 1}> () z = Slice (x, b, e, a)",
    "a computed Slice": "z = Slice (x, p, p, a)",
    "Pad": "w = Constant <value = int64[4] {1, 1, 1, 1}> () z = Pad (x, w, , a)",
    "Unsqueeze": "z = Unsqueeze (x, a)",
    "Resize": "s = Constant <value = float[2] {2, 2}> () z = Resize <axes = AXES> (x, , s)",
}


@pytest.mark.parametrize("sizes", ["float[2, 7]", "float[2, n]"])
@pytest.mark.parametrize("axes", ["[1, 9]", "[0, -9]", "[-1, -1]"])
@pytest.mark.parametrize("name", AXES)
def test_axes_that_there_are_not(name: str, axes: str, sizes: str) -> None:
    finding = "of which two are the same" if axes == "[-1, -1]" else "but there are"
    given = f"a = Constant <value = int64[2] {{{axes[1:-1]}}}> () "
    with pytest.raises(tvm.error.TVMError, match=finding):
        imported(given + AXES[name].replace("AXES", axes), f"{sizes} x, int64[2] p")


def test_picking_along_an_axis_that_there_is_not() -> None:
    with pytest.raises(tvm.error.TVMError, match=r"its axes are \[3\], but there are 2"):
        imported("b = Cast <to = 9> (c) z = Compress <axis = 3> (x, b)", "float[2, n] x, int64[3] c")


@pytest.mark.parametrize("axis", [-3, 3])
def test_flattening_from_an_axis_that_there_is_not(axis: int) -> None:
    with pytest.raises(tvm.error.TVMError, match="its input has 2 axes"):
        imported(f"z = Flatten <axis = {axis}> (x)", "float[2, 7] x")


def test_softmax_of_axes_of_unknown_extents() -> None:
    body = "y = NonZero (x) w = Cast <to = 1> (y) v = Unsqueeze <axes = [2]> (w) z = Softmax <axis = 0> (v)"
    with pytest.raises(tvm.error.TVMError, match="the shape of its input must be known"):
        imported(body, "float[2, n] x", 11)
