"""What ONNX models compute from dynamic dimensions: at import where possible, else at run time, never by pinning shapes."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import tilewright as tvm
from tilewright import relay
from tilewright.relay.frontend.onnx.program import Program

SIZES = "int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] minus = {-1}, int64[1] three = {3}, float half = {0.5}"
PROGRAMS = {
    # What exporters write of `expand(-1, ...)`: a size that is said to be -1 stays as it is.
    "sizes beside -1": """
        s = Shape (x)
        kept = Equal (s, minus)
        rank = Shape (s)
        ones = ConstantOfShape <value = int64[1] {1}> (rank)
        sizes = Where (kept, ones, s)
        y = Expand (half, sizes)
    """,
    "two dynamic axes in one": "y = Flatten <axis = 2> (x)",
    "all axes in one": "y = Flatten <axis = 0> (x)",
    "a size as a number": """
        s = Shape (x)
        n = Gather (s, one)
        f = Cast <to = 1> (n)
        r = Sqrt (f)
        y = Div (x, r)
    """,
    "how many elements there are": """
        s = Shape (x)
        n = ReduceProd <keepdims = 0> (s)
        f = Cast <to = 1> (n)
        y = Div (x, f)
    """,
    **{
        f"a size in {comparison}": f"""
            s = Shape (x)
            n = Gather (s, zero)
            found = {comparison}
            f = Cast <to = 1> (found)
            y = Mul (x, f)
        """
        for comparison in ("Equal (n, three)", "Greater (n, one)")
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_dynamic_dimensions(name: str) -> None:
    text = f"<ir_version: 8, opset_import: ['' : 17]> g (float[b, s, 4] x) => (float[n] y) <{SIZES}> {{ {PROGRAMS[name]} }}"
    made = parser.parse_model(text.replace("'", '"'))
    for o in made.graph.output:
        o.type.tensor_type.ClearField("shape")
    program = Program(made)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for shape in ((2, 3, 4), (3, 1, 4), (1, 5, 4)):
        x = np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)
        np.testing.assert_allclose(program([x])[0], session.run(None, {"x": x})[0], rtol=1e-5)
    assert not program.pinned and not program.bound


def test_states_of_a_known_batch_tell_the_batch_of_a_recurrent_layer() -> None:
    """Behind the layer every extent of 1 goes, as exporters of one example write it; another batch is refused when it comes."""
    text = """<ir_version: 8, opset_import: ["" : 11]> g (float[b, 5] x, float[1, 1, 2] h0) => (float[n] y)
        <int64[3] sizes = {1, -1, 5}> {
        rows = Reshape (x, sizes)
        all, last = GRU <hidden_size = 2> (rows, w, r, , , h0)
        y = Squeeze (last)
    }"""
    made = parser.parse_model(text)
    rng = np.random.default_rng(0)
    for name, shape in (("w", (1, 6, 5)), ("r", (1, 6, 2))):
        made.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), name))
    program = Program(made)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    x, h0 = rng.standard_normal((1, 5), dtype=np.float32), rng.standard_normal((1, 1, 2), dtype=np.float32)
    np.testing.assert_allclose(program([x, h0])[0], session.run(None, {"x": x, "h0": h0})[0], rtol=1e-5)
    assert not program.pinned and not program.bound
    with pytest.raises(ValueError, match="must be equal"):
        program([np.zeros((2, 5), np.float32), h0])


def test_products_of_bytes_with_dynamic_rows_multiply_bytes() -> None:
    """All leading axes are rows of one product, whatever is known of them: it had been a product of int32, at a fiftieth of the speed."""
    rng = np.random.default_rng(0)
    b = rng.integers(-128, 128, (6, 5)).astype("int8")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("a", TensorProto.UINT8, ["n", 2, 6]),
            helper.make_tensor_value_info("z", TensorProto.UINT8, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["n", 2, 5])],
        [numpy_helper.from_array(b, "b")],
    )
    mod, params = relay.frontend.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    assert "qnn.dense" in str(mod)
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    for n in (3, 1):
        a, z = rng.integers(0, 256, (n, 2, 6)).astype("uint8"), np.array(7, "uint8")
        got = machine.run(a=a, z=z).numpy()
        np.testing.assert_array_equal(got, np.matmul(a.astype("int32") - 7, b.astype("int32")))
