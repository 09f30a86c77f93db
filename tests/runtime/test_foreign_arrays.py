"""Arrays of another byte order, strided, of another dtype: what is copied is converted, memory that is shared is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te
from tilewright.contrib import graph_executor, pipeline_executor, pipeline_executor_build
from tilewright.runtime import container, vm

SWAPPED = np.arange(4, dtype=">f4")
X = relay.var("x", shape=(4,))
ADD_ONE = tvm.IRModule.from_expr(relay.Function([X], X + relay.const(1.0)))


@pytest.fixture(scope="module", params=["aot", "graph"])
def executor(request: pytest.FixtureRequest) -> graph_executor.GraphModule:
    lib = relay.build(ADD_ONE, "llvm", executor=relay.backend.Executor(request.param))
    return graph_executor.GraphModule(lib["default"](tvm.cpu()))


@pytest.fixture(scope="module")
def machine() -> vm.VirtualMachine:
    return vm.VirtualMachine(relay.vm.compile(ADD_ONE, "llvm"), tvm.cpu())


@pytest.fixture(scope="module")
def add_one() -> Any:
    a = te.placeholder((4,), name="A")
    return tvm.build(te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0)]), target="llvm")


def with_constant(values: Any) -> np.ndarray[Any, Any]:
    mod = tvm.IRModule.from_expr(relay.Function([X], X + relay.const(values)))
    return run(graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu())), np.ones(4, "float32"))


def with_parameter(values: Any) -> np.ndarray[Any, Any]:
    w = relay.var("w", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([X, w], X + w))
    lib = relay.build(mod, "llvm", params={"w": values})
    return run(graph_executor.GraphModule(lib["default"](tvm.cpu())), np.ones(4, "float32"))


def run(executor: graph_executor.GraphModule, x: Any) -> np.ndarray[Any, Any]:
    executor.run(x=x)
    values: np.ndarray[Any, Any] = executor.get_output(0).numpy()
    return values


COPIES: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "nd.array": lambda v: tvm.nd.array(v).numpy() + 1,
    "copyfrom": lambda v: tvm.nd.empty((4,)).copyfrom(v).numpy() + 1,
    "parameters": lambda v: tvm.runtime.load_param_dict(tvm.runtime.save_param_dict({"a": v}))["a"].numpy() + 1,
    "json": lambda v: tvm.ir.load_json(tvm.ir.save_json(relay.const(v))).data.numpy() + 1,
    "constant": with_constant,
    "parameter": with_parameter,
    "interpreter": lambda v: relay.create_executor("debug", ADD_ONE, tvm.cpu(), "llvm").evaluate()(v).numpy(),
    "create_executor": lambda v: relay.create_executor("graph", ADD_ONE, tvm.cpu(), "llvm").evaluate()(v).numpy(),
}


@pytest.mark.parametrize("door", COPIES)
def test_what_is_copied_is_converted(door: str) -> None:
    np.testing.assert_array_equal(COPIES[door](SWAPPED), [1, 2, 3, 4])


def test_constants_of_either_order_are_equal() -> None:
    assert tvm.ir.structural_equal(relay.const(SWAPPED), relay.const(SWAPPED.astype("float32")))


def test_constants_of_tensor_programs() -> None:
    """Stored as the type that is declared, whatever the array has."""
    for values in (SWAPPED, np.arange(4.0), np.arange(4)):
        var, out = (
            tvm.tir.Var("c", tvm.ir.PointerType(tvm.ir.PrimType("float32"))),
            tvm.tir.decl_buffer((4,), name="out"),
        )
        read = tvm.tir.BufferLoad(tvm.tir.decl_buffer((4,), data=var, name="c"), [tvm.tir.Var("i", "int32")])
        store = tvm.tir.BufferStore(out, read, list(read.indices))
        loop = tvm.tir.For(read.indices[0], 0, 4, 0, store)
        body = tvm.tir.AllocateConst(var, "float32", [4], values, loop)
        handle = tvm.tir.Var("h", "handle")
        func = tvm.tir.PrimFunc([handle], body, buffer_map={handle: out}).with_attr("global_symbol", "main")
        result = tvm.nd.empty((4,))
        tvm.build(func, target="llvm")(result)
        np.testing.assert_array_equal(result.numpy(), [0, 1, 2, 3])


@pytest.mark.parametrize("call", ["run", "set_input", "set_one_input", "by name"])
def test_the_machine_converts_what_it_only_reads(machine: vm.VirtualMachine, call: str) -> None:
    if call == "run":
        result = machine.run(SWAPPED)
    elif call == "by name":
        result = machine.run(x=SWAPPED)
    else:
        machine.set_input("main", SWAPPED) if call == "set_input" else machine.set_one_input("main", "x", SWAPPED)
        machine.invoke_stateful("main")
        result = machine.get_outputs()[0]
    np.testing.assert_array_equal(result.numpy(), [1, 2, 3, 4])


MESSAGE = (
    "the memory of an array of dtype float32 in big-endian byte order ('>f4') cannot be shared: this machine is little-endian;"
    " convert it first: a.astype(a.dtype.newbyteorder('='))"
)


@pytest.mark.parametrize(
    "share",
    [
        tvm.nd.from_dlpack,
        tvm.nd.numpyasarray,
        lambda v: tvm.runtime.convert(lambda a: a)(v),
        lambda v: tvm.runtime.convert(lambda a: a)([v]),
        lambda v: container.tuple_object([v]),
    ],
)
def test_memory_that_is_shared_is_refused(share: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError) as caught:
        share(SWAPPED)
    assert str(caught.value) == MESSAGE


def test_kernels_and_executors_refuse_to_share(
    add_one: Any, executor: graph_executor.GraphModule, machine: vm.VirtualMachine
) -> None:
    plain = np.zeros(4, "float32")
    calls: list[Callable[[], Any]] = [
        lambda: add_one(SWAPPED, plain),
        lambda: add_one(plain, SWAPPED.copy()),
        lambda: executor.module["set_input"]("x", SWAPPED),
        lambda: executor.set_input_zero_copy("x", SWAPPED),
        lambda: executor.set_output_zero_copy(0, SWAPPED),
        lambda: executor.get_output(0, SWAPPED),
        lambda: machine.set_outputs("main", SWAPPED),
    ]
    for call in calls:
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == MESSAGE


RECORDS = np.zeros(4, [("a", "i1"), ("b", "f4")])
RECORDS["b"] = range(4)
GIVEN = {
    "foreign byte order": SWAPPED,
    "every second": np.arange(0, 4, 0.5, dtype="float32")[::2],
    "backwards": np.arange(3, -1, -1, dtype="float32")[::-1],
    "a column": np.arange(4, dtype="float32").repeat(3).reshape(4, 3)[:, 1],
    "a field": RECORDS["b"],
    "float64": np.arange(4.0),
    "int64": np.arange(4),
    "float16": np.arange(4, dtype="float16"),
    "a list": [0, 1, 2, 3],
    "a read-only array": np.frombuffer(np.arange(4, dtype="float32").tobytes(), "float32"),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_set_input_copies_as_numpy_converts(executor: graph_executor.GraphModule, kind: str) -> None:
    for _ in range(2):  # the second time what was learned of dtypes is used
        np.testing.assert_array_equal(run(executor, GIVEN[kind]), [1, 2, 3, 4])


def test_one_value_for_all_elements(executor: graph_executor.GraphModule) -> None:
    np.testing.assert_array_equal(run(executor, np.broadcast_to(np.float32(3), (4,))), [4, 4, 4, 4])


def test_numbers_to_integers() -> None:
    """Cut off towards zero, as NumPy casts, and booleans from numbers."""
    for dtype, expected in (("int32", [1, 2, -1, 0]), ("bool", [True, True, True, False])):
        y = relay.var("y", shape=(4,), dtype=dtype)
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([y], relay.copy(y))), "llvm")
        module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        module.run(y=np.array([1.9, 2.0, -1.9, 0.0]))
        np.testing.assert_array_equal(module.get_output(0).numpy(), expected)


def test_strided_tensors_of_torch_and_of_the_runtime(executor: graph_executor.GraphModule) -> None:
    torch = pytest.importorskip("torch")
    wide = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    given = [
        wide[:, 0],
        tvm.nd.from_dlpack(wide[:, 0]),
        wide[:, 0].double(),
        wide.long()[:, 0],
        wide[:, 0].contiguous(),
    ]
    for value in given * 2:
        np.testing.assert_array_equal(run(executor, value), [1, 4, 7, 10])


def test_a_view_of_the_input_itself(executor: graph_executor.GraphModule) -> None:
    executor.set_input("x", np.arange(4, dtype="float32"))
    executor.set_input("x", np.from_dlpack(executor.get_input("x"))[::-1])
    np.testing.assert_array_equal(executor.get_input("x").numpy(), [3, 2, 1, 0])
    executor.module["set_input"]("x", np.from_dlpack(executor.get_input("x"))[::-1])
    np.testing.assert_array_equal(executor.get_input("x").numpy(), [0, 1, 2, 3])


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 1, 6), (1, 7), (5, 0, 2), (2, 3, 4, 5)])
def test_the_native_copy_takes_any_order_of_axes(shape: tuple[int, ...], dtype: str) -> None:
    """What hosts without NumPy use; pipelines and the machine, too."""
    y = relay.var("x", shape=shape, dtype=dtype)
    pipeline = pipeline_of(tvm.IRModule.from_expr(relay.Function([y], y)))
    values = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    turned = values.T.copy().T
    for given in (turned, values[..., ::-1], turned[::-1], np.swapaxes(np.swapaxes(values, 0, -1).copy(), 0, -1)):
        pipeline.module["set_input"]("x", given)
        pipeline.run()
        np.testing.assert_array_equal(pipeline.get_output()[0].numpy(), given)


def test_pipelines_convert() -> None:
    pipeline = pipeline_of(ADD_ONE)
    for value in (SWAPPED, np.arange(3, -1, -1, dtype="float32")[::-1], np.arange(4.0)):
        pipeline.set_input("x", value)
        pipeline.run()
        np.testing.assert_array_equal(pipeline.get_output()[0].numpy(), [1, 2, 3, 4])


def pipeline_of(mod: tvm.IRModule) -> pipeline_executor.PipelineModule:
    config = pipeline_executor_build.PipelineConfig()
    config["input"]["x"].connect(config[mod]["input"]["x"])
    config[mod]["output"][0].connect(config["output"]["0"])
    config[mod].target, config[mod].dev = "llvm", tvm.cpu()
    return pipeline_executor.PipelineModule(pipeline_executor_build.build(config))
