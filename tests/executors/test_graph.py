"""The graph executor: the classic JSON form, parts saved apart and together, parameters, memory, threads."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.executors.models import chain, close, dense_model
from tests.relay.random_graphs import Generator, assert_same, evaluate
from tests.relay_vm.native import run_in_host
from tilewright import relay, runtime, te
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.relay.backend import Executor, Runtime
from tilewright.relay.backend.executor_factory import AOTExecutorFactoryModule, GraphExecutorFactoryModule
from tilewright.support.errors import TVMError

MOD, PARAMS, X, WANT = dense_model()
EXECUTORS = [None, Executor("graph"), Executor("aot"), Executor("graph", {"link-params": True})]


@pytest.mark.parametrize("executor", EXECUTORS, ids=str)
def test_one_interface(executor: Executor | None) -> None:
    lib = relay.build(MOD, "llvm", params=PARAMS, executor=executor)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    ahead = executor is None or executor.name == "aot"
    assert module.module.type_key == ("AotExecutor" if ahead else "GraphExecutor")
    module.set_input("x", X)
    module.set_input(**PARAMS)  # bound when the model was built, so passed over
    module.set_input(**lib.get_params())
    module.run()
    for i, want in enumerate(WANT):
        close(module.get_output(i), want)
        close(module.get_output(f"output_{i}"), want)
    assert module.get_input_info() == ({"x": (4, 8)}, {"x": "float32"})
    assert module.get_num_inputs() == (1 if ahead else 3)
    out = tvm.nd.empty((64,))
    module.set_output_zero_copy(1, out)
    module.run(x=-X)
    close(out, np.maximum(-X @ PARAMS["w"].T + PARAMS["b"], 0).ravel())
    assert len(module.benchmark(tvm.cpu(), repeat=2, number=2).results) == 2
    with pytest.raises(ValueError, match="the model has no input named `z`; its inputs are: `x`"):
        module.set_input(z=X)


def test_kinds_of_factories() -> None:
    made = [type(relay.build(MOD, "llvm", params=PARAMS, executor=e)) for e in EXECUTORS]
    assert made == [
        GraphExecutorFactoryModule,
        GraphExecutorFactoryModule,
        AOTExecutorFactoryModule,
        GraphExecutorFactoryModule,
    ]
    marked = MOD.with_attr("executor", Executor("graph"))
    assert relay.build(marked, "llvm", params=PARAMS).metadata["executor"] == "graph"


@pytest.mark.parametrize("executor", EXECUTORS[:2], ids=str)
def test_parts_saved_apart(executor: Executor | None, tmp_path: Path) -> None:
    graph, lib, params = relay.build(MOD, "llvm", params=PARAMS, executor=executor)
    assert sorted(params) == ["p0", "p1"]
    lib.export_library(str(tmp_path / "lib.so"))
    (tmp_path / "graph.json").write_text(graph)
    (tmp_path / "model.params").write_bytes(relay.save_param_dict(params))
    loaded = tvm.runtime.load_module(tmp_path / "lib.so")
    module = graph_executor.create((tmp_path / "graph.json").read_text(), loaded, tvm.cpu(0))
    assert module.module.type_key == "GraphExecutor"
    module.load_params((tmp_path / "model.params").read_bytes())
    module.run(x=X)
    for i, want in enumerate(WANT):
        close(module.get_output(i), want)


def test_without_python(tmp_path: Path) -> None:
    """Library, graph and parameters in a host of C++, over the runtime alone."""
    graph, lib, params = relay.build(MOD, "llvm", params=PARAMS, executor=Executor("graph"))
    lib.export_library(str(tmp_path / "lib.so"))
    (tmp_path / "graph.json").write_text(graph)
    (tmp_path / "model.params").write_bytes(relay.save_param_dict(params))
    found = run_in_host(
        tmp_path / "lib.so", [runtime.array(X)], tmp_path, tmp_path / "graph.json", tmp_path / "model.params"
    )
    close(found, WANT[0])


def test_library_that_registers_itself(tmp_path: Path) -> None:
    """Runtime("cpp", {"system-lib": True}): linked into a program, the system library has the model."""
    lib = relay.build(MOD, "llvm", params=PARAMS, runtime=Runtime("cpp", {"system-lib": True}))
    lib.export_library(tmp_path / "net.so")
    program = (
        "import numpy as np; from tilewright import runtime\n"
        f"loaded = runtime.load_module({str(tmp_path / 'net.so')!r})\n"
        "m = runtime.system_lib()['default'](runtime.cpu(0))\n"
        f"m['set_input']('x', np.full((4, 8), 2, 'float32')); m['run'](); print(m['get_output'](0).numpy().sum())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and float(done.stdout) == pytest.approx(2, abs=1e-4), done.stderr


def test_kernels_alone_make_no_executor() -> None:
    _, lib, _ = relay.build(MOD, "llvm", params=PARAMS, executor=Executor("graph"))
    with pytest.raises(
        ValueError, match=r"holds the kernels of a graph only; graph_executor.create\(graph_json, library,"
    ):
        lib["default"](tvm.cpu())


@pytest.mark.parametrize("executor", EXECUTORS, ids=str)
def test_one_library_in_another_process(executor: Executor | None, tmp_path: Path) -> None:
    lib = relay.build(MOD, "llvm", params=PARAMS, executor=executor, mod_name="net")
    path, data = tmp_path / "net.so", tmp_path / "x.npy"
    lib.export_library(path)
    np.save(data, X)
    program = (
        "import sys, numpy as np; from tilewright import runtime\n"
        "from tilewright.contrib import graph_executor\n"
        "assert 'tilewright.relay' not in sys.modules\n"
        f"m = graph_executor.GraphModule(runtime.load_module({str(path)!r})['net'](runtime.cpu(0)))\n"
        f"m.run(x=np.load({str(data)!r})); np.save({str(data)!r}, m.get_output(1).numpy())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    np.testing.assert_allclose(np.load(data), WANT[1], rtol=1e-4, atol=1e-5)


def test_the_json() -> None:
    graph = json.loads(relay.build(MOD, "llvm", params=PARAMS, executor=Executor("graph")).get_graph_json())
    assert list(graph) == ["nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"]
    nodes = graph["nodes"]
    assert [n["name"] for n in nodes if n["op"] == "null"] == ["x", "p0", "p1"]
    assert graph["arg_nodes"] == [i for i, n in enumerate(nodes) if n["op"] == "null"]
    kernel = next(n for n in nodes if n["op"] == "tvm_op")
    assert set(kernel["attrs"]) == {"num_outputs", "num_inputs", "flatten_data", "func_name", "hash"}
    assert kernel["inputs"] == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    views = [n for n in nodes if n["op"] == "tvm_op" and n["attrs"]["func_name"] == "__nop"]
    assert views, "reshapes are nodes that do nothing"
    count = graph["node_row_ptr"][-1]
    for key, kind in {
        "dltype": "list_str",
        "device_index": "list_int",
        "storage_id": "list_int",
        "shape": "list_shape",
    }.items():
        assert graph["attrs"][key][0] == kind and len(graph["attrs"][key][1]) == count
    assert len(graph["heads"]) == 2 and graph["attrs"]["shape"][1][graph["heads"][1][0]] == [64]


def test_storage_is_shared_by_tensors_that_do_not_live_together() -> None:
    lib = relay.build(chain(), "llvm", executor=Executor("graph"))
    attrs = json.loads(lib.get_graph_json())["attrs"]
    inner = attrs["storage_id"][1][1:-1]
    assert len(inner) == 5 and len(set(inner)) == 2
    assert attrs["storage_offset"][1] == [-1, 0, 256, 0, 256, 0, -1]
    # The same without the places in the arena, as a graph of another compiler comes.
    graph = json.loads(lib.get_graph_json())
    for key in ("storage_offset", "constant_offset", "output_names"):
        del graph["attrs"][key]
    x = np.random.default_rng(1).random((8, 8), "float32")
    want = relay.create_executor("debug", chain()).evaluate()(x).numpy()
    for text in (lib.get_graph_json(), json.dumps(graph)):
        module = graph_executor.create(text, lib, tvm.cpu())
        module.run(x=x)
        close(module.get_output(0), want)


def test_functions_of_the_tensor_compiler() -> None:
    """A graph written by hand over functions of tvm.build, one flattening its arguments."""
    n = 4
    a = te.placeholder((n,), name="A")
    b = te.compute(a.shape, lambda *i: a(*i) + 1.0, name="B")
    mlib = tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="myadd")
    attrs = {"func_name": "myadd", "flatten_data": "1", "num_inputs": "1", "num_outputs": "1"}
    nodes = [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "tvm_op", "name": "add", "inputs": [[0, 0, 0]], "attrs": attrs},
    ]
    shape = [[2, 2], [2, 2]]
    graph = {
        "nodes": nodes,
        "arg_nodes": [0],
        "node_row_ptr": [0, 1, 2],
        "heads": [[1, 0, 0]],
        "attrs": {
            "shape": ["list_shape", shape],
            "dltype": ["list_str", ["float32", "float32"]],
            "storage_id": ["list_int", [0, 1]],
        },
    }
    module = graph_executor.create(json.dumps(graph), mlib, tvm.cpu(0))
    values = np.arange(4, dtype="float32").reshape(2, 2)
    module.run(x=values)
    np.testing.assert_array_equal(module.get_output(0).numpy(), values + 1)
    graph["nodes"][1]["attrs"]["flatten_data"] = "0"  # type: ignore[index]
    module = graph_executor.create(json.dumps(graph), mlib, tvm.cpu(0))
    with pytest.raises(ValueError, match="its number of dimensions must be 1, but is 2"):
        module.run(x=values)


@pytest.mark.parametrize("seed", range(500, 506))
def test_random_graphs(seed: int) -> None:
    g = Generator(seed, 14)
    mod, inputs = g.module(), g.inputs()
    lib = relay.build(mod, "llvm", executor=Executor("graph"))
    graph, kernels, params = lib
    want = evaluate(mod, inputs)
    for module in (
        graph_executor.GraphModule(lib["default"](tvm.cpu())),
        graph_executor.create(graph, kernels, tvm.cpu()),
    ):
        module.load_params(relay.save_param_dict(params))
        for _ in range(2):
            module.run(**dict(zip(("x", "y"), inputs, strict=True)))
            assert_same([module.get_output(i).numpy() for i in range(len(want))], want)


def test_library_of_another_graph() -> None:
    """Kernels of one name, compiled for other shapes: calling them would read past the tensors."""
    libraries = []
    for n in (4, 4096):
        x = relay.var("x", shape=(n,))
        libraries.append(relay.build(tvm.IRModule.from_expr(relay.exp(x)), "llvm", executor=Executor("graph")))
    with pytest.raises(
        ValueError, match="the function `fused_exp` of the library is not the one that node `fused_exp` of th"
    ):
        graph_executor.create(libraries[0].get_graph_json(), libraries[1], tvm.cpu())


# ---- parameters


@pytest.mark.parametrize("executor", EXECUTORS[:2], ids=str)
def test_parameters_are_shared_until_they_are_set(executor: Executor | None) -> None:
    lib = relay.build(MOD, "llvm", params=PARAMS, executor=executor)
    first, second = (graph_executor.GraphModule(lib["default"](tvm.cpu())) for _ in range(2))
    bias = next(k for k, v in lib.get_params().items() if v.shape == (16,))
    first.set_input(bias, np.zeros(16, "float32"))
    first.run(x=X)
    second.run(x=X)
    close(first.get_output(1), np.maximum(X @ PARAMS["w"].T, 0).ravel())
    close(second.get_output(1), WANT[1])
    np.testing.assert_array_equal(lib.get_params()[bias].numpy(), PARAMS["b"])
    np.testing.assert_array_equal(first.get_input(bias).numpy(), np.zeros(16))
    # Who asks for the tensor may write to it: it is no longer what the others read.
    second.get_input(bias).copyfrom(np.ones(16, "float32"))
    second.run()
    close(second.get_output(1), np.maximum(X @ PARAMS["w"].T + 1, 0).ravel())
    close(graph_executor.GraphModule(lib["default"](tvm.cpu())).get_input(bias), PARAMS["b"])


def test_share_params() -> None:
    """Parameters that are inputs: the second executor reads the first one's memory."""
    lib = relay.build(MOD, "llvm", executor=Executor("graph"))
    first, second = (graph_executor.GraphModule(lib["default"](tvm.cpu())) for _ in range(2))
    data = relay.save_param_dict(PARAMS)
    first.load_params(data)
    second.share_params(first, data)
    second.run(x=X)
    close(second.get_output(1), WANT[1])
    assert second.get_input("w").data_address == first.get_input("w").data_address
    first.set_input("b", np.zeros(16, "float32"))
    second.run()
    close(second.get_output(1), np.maximum(X @ PARAMS["w"].T, 0).ravel())
    with pytest.raises(ValueError, match="parameter `w` must have shape .16, 8., got .2,."):
        first.load_params(relay.save_param_dict({"w": np.zeros(2, "float32")}))
    for cut in (5, 30, len(data) - 3):
        with pytest.raises(ValueError, match="the parameters end at byte|no parameter file|is damaged"):
            first.load_params(data[:cut])


def test_executors_of_one_library_run_in_threads() -> None:
    lib = relay.build(MOD, "llvm", params=PARAMS, executor=Executor("graph"))
    failures: list[int] = []

    def work(seed: int) -> None:
        module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.standard_normal((4, 8)).astype("float32")
            module.run(x=x)
            want = np.maximum(x @ PARAMS["w"].T + PARAMS["b"], 0).ravel()
            if not np.allclose(module.get_output(1).numpy(), want, 1e-4, 1e-5):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not failures and not any(t.is_alive() for t in threads)


def test_one_executor_in_two_threads_is_refused() -> None:
    """A node that waits keeps its executor busy; another thread that wants it is told so."""
    started, go = threading.Event(), threading.Event()

    @tvm.register_func("test.executors.wait", override=True)
    def wait(x: Any, y: Any) -> None:
        started.set()
        assert go.wait(30)
        y.copyfrom(x)

    attrs = {"func_name": "test.executors.wait", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}
    graph = {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "tvm_op", "name": "wait", "inputs": [[0, 0, 0]], "attrs": attrs},
        ],
        "arg_nodes": [0],
        "heads": [[1, 0, 0]],
        "attrs": {
            "shape": ["list_shape", [[2], [2]]],
            "dltype": ["list_str", ["float32"] * 2],
            "storage_id": ["list_int", [0, 1]],
        },
    }
    find = {"test.executors.wait": tvm.get_global_func("test.executors.wait")}.get
    module = graph_executor.create(
        json.dumps(graph), runtime.get_global_func("runtime.ModuleFromFinder")("test", find), tvm.cpu()
    )
    thread = threading.Thread(target=module.run)
    thread.start()
    assert started.wait(30)
    with pytest.raises(RuntimeError, match="the executor is in use by another thread: make one for each thread"):
        module.run()
    go.set()
    thread.join(30)
    module.run()


# ---- options


def test_executor_and_runtime_objects() -> None:
    aot = Executor("aot", {"unpacked-api": True, "interface-api": "c"})
    assert aot["unpacked-api"] is True and aot["link-params"] is True and "interface-api" in aot
    assert "workspace-byte-alignment" not in aot and aot == Executor("aot", {"unpacked-api": 1, "interface-api": "c"})
    assert Executor.list_registered() == ["aot", "graph"] and Executor.list_registered_options("graph") == {
        "link-params": "bool"
    }
    assert Runtime("crt", {"system-lib": True})["system-lib"] and Runtime.list_registered() == ["cpp", "crt"]
    assert Executor("graph") != Executor("graph", {"link-params": True}) and hash(Executor("graph")) == hash(
        Executor("graph")
    )
    kept = MOD.with_attr("executor", aot)
    assert tvm.ir.load_json(tvm.ir.save_json(kept)).attrs["executor"] == aot


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Executor("vm"), TVMError, "Executor 'vm' is not defined; there are aot, graph"),
        (lambda: Runtime("c"), TVMError, "Runtime 'c' is not defined; there are cpp, crt"),
        (lambda: Executor("graph", {"unpacked-api": True}), TVMError, "Executor 'graph' has no option 'unpacked-api'"),
        (
            lambda: Executor("aot", {"interface-api": 3}),
            TVMError,
            "option 'interface-api' of executor 'aot' must be a str, but is 3",
        ),
        (
            lambda: relay.build(MOD, "llvm", executor=3),
            TypeError,
            "Executor must be a relay.backend.Executor, but is a int",
        ),
        (lambda: Executor.list_registered_options("x"), TVMError, "Executor 'x' is not defined"),
    ],
)
def test_wrong_options(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value).startswith(text)


def test_face_of_the_ahead_of_time_executor() -> None:
    from tilewright.runtime.executor import AotModule

    lib = relay.build(MOD, "llvm", params=PARAMS, executor=Executor("aot"))
    module = AotModule(lib["default"](tvm.cpu()))
    module.run(x=X)
    close(module.get_output(0), WANT[0])
    assert module.get_input_name(0) == "x" and tvm.runtime.executor.AotModule is AotModule
    graph = relay.build(MOD, "llvm", params=PARAMS, executor=Executor("graph"))
    with pytest.raises(
        ValueError, match="AotModule runs what was compiled ahead of time .*, not a GraphExecutor; use contrib"
    ):
        AotModule(graph["default"](tvm.cpu()))


VALUES = (
    -1,
    0,
    1,
    3,
    63,
    64,
    1 << 20,
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
    "x",
    "float32",
    "int8",
    "bool",
    "__nop",
    "__copy",
)
OTHERS: tuple[Any, ...] = (
    "fused_nn_softmax",
    "__tilewright_run",
    [],
    {},
    None,
    [1],
    [[0, 0, 0]],
    1.5,
    True,
    [1 << 40, 1 << 40],
    [-4],
)


def damaged(graph: Any, rng: random.Random) -> str:
    """The graph with a value changed, taken away or added, anywhere."""

    def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
        for k, v in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
            yield (*path, k)
            yield from places(v, (*path, k))

    for _ in range(rng.choice((1, 1, 2, 3))):
        *path, last = rng.choice(list(places(graph)))
        holder = graph
        for k in path:
            holder = holder[k]
        action = rng.random()
        if action < 0.15:
            del holder[last]
        elif action < 0.3 and isinstance(holder, list):
            holder.insert(last, rng.choice(VALUES + OTHERS))
        else:
            holder[last] = rng.choice(VALUES + OTHERS)
    return json.dumps(graph)


def test_damage_of_any_kind_is_refused_or_harmless() -> None:
    """No change of the text makes a kernel read or write where it must not."""
    libraries = [
        relay.build(MOD, "llvm", params=PARAMS, executor=Executor("graph")),
        relay.build(chain(), "llvm", executor=Executor("graph")),
    ]
    refused = 0
    for seed in range(400):
        rng = random.Random(seed)
        lib = rng.choice(libraries)
        text = damaged(json.loads(lib.get_graph_json()), rng)
        try:
            module = graph_executor.create(text, rng.choice((lib, lib.lib)), tvm.cpu())
            module.run()
            module.get_output(0)
        except (ValueError, IndexError, TypeError, MemoryError):
            refused += 1
    assert 200 < refused < 400


def test_views_of_another_size() -> None:
    lib = relay.build(MOD, "llvm", params=PARAMS, executor=Executor("graph"))
    graph = json.loads(lib.get_graph_json())
    view = next(i for i, n in enumerate(graph["nodes"]) if n["name"] == "reshape_nop")
    graph["attrs"]["shape"][1][view] = [1 << 20]
    with pytest.raises(ValueError, match="the view `reshape_nop` is of another size than what it shows"):
        graph_executor.create(json.dumps(graph), lib, tvm.cpu())


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        ("192", "the slice `slice_nop` ends outside of what it is cut from"),
        ("32", "must be a multiple of 64"),
        ("-64", "must be a multiple of 64"),
    ],
)
def test_slices_outside_of_what_they_are_cut_from(offset: str, why: str) -> None:
    x = relay.var("x", shape=(4, 16))
    body = relay.sort(relay.strided_slice(relay.sort(x), [1], [3], axes=[0]), axis=0)
    lib = relay.build(IRModule.from_expr(relay.Function([x], body)), "llvm", executor=Executor("graph"))
    graph = json.loads(lib.get_graph_json())
    (cut,) = [n for n in graph["nodes"] if n["name"] == "slice_nop"]
    assert cut["attrs"]["offset"] == "64"
    cut["attrs"]["offset"] = offset
    with pytest.raises(ValueError, match=why):
        graph_executor.create(json.dumps(graph), lib, tvm.cpu())


def test_kernels_one_by_one() -> None:
    """As the command line's profile runs them."""
    for executor in (None, Executor("graph")):
        lib = relay.build(MOD, "llvm", params=PARAMS, executor=executor)
        module = lib["default"](tvm.cpu())
        module["set_input"]("x", X)
        count = module["get_num_kernels"]()
        for i in range(count):
            module["run_kernel"](i, 2)
        close(module["get_output"](0), WANT[0])
        names = [k["name"] for k in json.loads(module["get_metadata"]())["kernels"]]
        assert names == [module["get_kernel_name"](i) for i in range(count)]
        with pytest.raises(IndexError, match="kernel 9 is out of range: the (graph|model) has 2"):
            module["run_kernel"](9)


def test_the_compiler_as_an_object() -> None:
    compiler = relay.build_module.BuildModule()
    with pytest.raises(TVMError, match=r"nothing was built yet; call build\(mod, target\) first"):
        compiler.get_json()
    graph, lib, params = compiler.build(MOD, "llvm", params=PARAMS, executor=Executor("graph"))
    module = graph_executor.create(graph, lib, tvm.cpu())
    module.run(x=X, **params)
    close(module.get_output(0), WANT[0])
    assert compiler.get_json() == graph and compiler.get_devices() == [tvm.cpu(0)]
    optimized, rest = compiler.optimize(MOD, "llvm", params=PARAMS)
    assert rest == {} and [p.name_hint for p in optimized["main"].params] == ["x"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "int8", "float64", "uint8", "int64"])
def test_element_types_of_parameters(dtype: str) -> None:
    numpy_dtype = runtime.to_numpy_dtype(dtype)
    a, c = np.array([[1, 1, 0], [0, 1, 1]]).astype(numpy_dtype), np.array([[1, 0, 1], [0, 1, 1]]).astype(numpy_dtype)
    x = relay.var("x", shape=(2, 3), dtype=dtype)
    combine = relay.logical_and if dtype == "bool" else relay.add
    mod = tvm.IRModule.from_expr(relay.Function([x], combine(x, relay.const(c))))
    graph, lib, params = relay.build(mod, "llvm", executor=Executor("graph"))
    module = graph_executor.create(graph, lib, tvm.cpu())
    module.load_params(relay.save_param_dict(params))
    module.run(x=tvm.nd.array(a))
    want = a & c if dtype == "bool" else a + c
    assert (module.get_output(0).numpy() == want).all() and module.get_output(0).dtype == dtype


def test_outputs_of_every_kind() -> None:
    """An input, the same again, a constant, a value, its view, an empty tensor; memory of the caller's for some."""
    x, e = relay.var("x", shape=(3,)), relay.var("e", shape=(0, 3))
    y = relay.exp(x)
    body = relay.Tuple([x, x, relay.const(1.0), y, relay.reshape(relay.tanh(x), (1, 3)), relay.exp(e)])
    mod = tvm.IRModule.from_expr(relay.Function([x, e], body))
    value = np.arange(3, dtype="float32")
    want = [value, value, np.ones(()), np.exp(value), np.tanh(value)[None], np.zeros((0, 3))]
    for executor in EXECUTORS[:2]:
        module = graph_executor.GraphModule(relay.build(mod, "llvm", executor=executor)["default"](tvm.cpu()))
        module.run(x=value, e=np.zeros((0, 3), "float32"))
        for i, w in enumerate(want):
            close(module.get_output(i), w)
        mine = {i: tvm.nd.empty(w.shape) for i, w in enumerate(want)}
        for i, out in mine.items():
            module.set_output_zero_copy(i, out)
        module.run()
        for i, w in enumerate(want):
            close(mine[i], w)
