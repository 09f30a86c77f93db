"""Modules: code of this process and of files, theirs in ours and ours in theirs, export, imports, the pool."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import tvm_ffi

import tilewright as tvm
from tests.runtime import native
from tilewright import runtime, te
from tilewright.contrib import graph_executor
from tilewright.contrib.debugger import debug_executor
from tilewright.runtime.linking.object_file import data_object
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import ObjectKind


@pytest.fixture(scope="module")
def jit():
    return native.Jit(native.MODEL, native.MODEL_SYMBOLS)


@pytest.fixture
def model(jit):
    constants = runtime.array(np.array([1, 2, 3, 4], "float32"))
    return runtime.Module.from_aot(jit.symbols, json.dumps(native.METADATA), constants, keep_alive=jit)


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    text = native.bytes_variable("__tilewright_metadata", json.dumps(native.METADATA).encode() + b"\0")
    code = native.compile_object(native.MODEL + text)
    kind = ObjectKind.of(code)
    assert kind is not None
    blob = data_object("__tilewright_constants", np.array([1, 2, 3, 4], "float32").tobytes(), kind)
    return native.link(folder, "model", code, blob)


def check_model(executor):
    graph = graph_executor.GraphModule(executor)
    graph.set_input("x", np.array([1, 1, 2, 2], "float32"))
    graph.run()
    np.testing.assert_array_equal(graph.get_output(0).numpy(), [2, 3, 7, 9])
    graph.run(x=torch.tensor([0.0, 1, 0, 1]))
    np.testing.assert_array_equal(graph.get_output("y").numpy(), [1, 3, 1, 5])
    return graph


def test_executor_in_process(model):
    graph = check_model(model["default"](runtime.cpu(0)))
    assert graph.module.type_key == "AotExecutor"
    assert (graph.get_num_inputs(), graph.get_num_outputs(), graph.get_input_index("x")) == (1, 1, 0)
    assert graph.get_input_index("none") == -1
    assert graph.get_input_info() == ({"x": (4,)}, {"x": "float32"})
    out = runtime.empty((4,))
    graph.get_output(0, out)
    np.testing.assert_array_equal(out.numpy(), [1, 3, 1, 5])
    mine = runtime.array(np.full(4, 2, "float32"))
    graph.set_input_zero_copy("x", mine)
    graph.run()
    np.testing.assert_array_equal(graph.get_output(0).numpy(), [3, 5, 7, 9])
    mine[:] = 0
    graph.run()
    np.testing.assert_array_equal(graph.get_output(0).numpy(), [1, 1, 1, 1])
    assert len(graph.benchmark(runtime.cpu(0), repeat=3, number=2).results) == 3
    assert len(graph.benchmark(runtime.cpu(0), repeat=3, end_to_end=True, x=np.ones(4, "float32")).results) == 3


def test_executor_of_a_file(model_file):
    check_model(runtime.load_module(model_file)["default"](runtime.cpu(0)))


def graph_of_model():
    """The model as a graph: x and the factors p0, scaled, then increased by one."""

    def node(name, *inputs):
        attrs = {"func_name": name, "num_inputs": str(len(inputs)), "num_outputs": "1", "flatten_data": "0"}
        return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]}

    return {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "null", "name": "p0", "inputs": []},
            node("scale", 0, 1),
            node("increment", 2),
        ],
        "arg_nodes": [0, 1],
        "heads": [[3, 0, 0]],
        "attrs": {
            "dltype": ["list_str", ["float32"] * 4],
            "shape": ["list_shape", [[4]] * 4],
            "storage_id": ["list_int", [0, 1, 2, 3]],
        },
        "node_row_ptr": [0, 1, 2, 3, 4],
    }


def test_graph_executor(model):
    graph = graph_executor.create(json.dumps(graph_of_model()), model, runtime.cpu(0))
    assert graph.module.type_key == "GraphExecutor" and graph.get_num_inputs() == 2
    graph.load_params(runtime.save_param_dict({"p0": np.array([1, 2, 3, 4], "float32"), "other": np.zeros(2)}))
    graph.run(x=np.array([1, 1, 2, 2], "float32"))
    np.testing.assert_array_equal(graph.get_output(0).numpy(), [2, 3, 7, 9])
    out = runtime.empty((4,))
    graph.set_output_zero_copy(0, out)
    graph.run()
    np.testing.assert_array_equal(out.numpy(), [2, 3, 7, 9])
    with pytest.raises(ValueError, match="the tensor of node 1 is not kept: use contrib.debugger.debug_executor"):
        graph.debug_get_output(1)


def test_debug_executor(model):
    text = json.dumps(graph_of_model())
    debug = debug_executor.create(text, model, runtime.cpu(0))
    debug.set_input(x=np.ones(4, "float32"), p0=np.array([1, 2, 3, 4], "float32"))
    times = debug.run_individual(number=2, repeat=3)
    assert [len(t) for t in times] == [3] * 4 and times[0] == [0, 0, 0] and min(times[2]) > 0
    np.testing.assert_array_equal(debug.get_output(0).numpy(), [2, 3, 4, 5])
    np.testing.assert_array_equal(debug.debug_get_output("scale").numpy(), [1, 2, 3, 4])
    debug.exit()
    with pytest.raises(
        ValueError, match=r'a module of kind AotExecutor keeps no single nodes; make one that does: lib\["de'
    ):
        debug_executor.GraphModuleDebug(model["default"](runtime.cpu(0)), [runtime.cpu(0)], text)
    with pytest.raises(ValueError, match="says nothing of the graph that it was compiled from"):
        model["debug_create"]("default", runtime.cpu(0))


def damaged(change):
    graph = graph_of_model()
    change(graph)
    return json.dumps(graph)


DAMAGE = [
    (lambda g: g.pop("nodes"), "this text is not a graph: it has no list `nodes`"),
    (
        lambda g: g["nodes"][3].update(inputs=[[3, 0, 0]]),
        r"at node 3 \(`increment`\): it reads a node that does not come b",
    ),
    (lambda g: g["nodes"][3].update(inputs=[[2, 1, 0]]), "it reads an output that its input does not have"),
    (lambda g: g["nodes"][2].update(op="cuda_op"), r"node 2 \(`scale`\) of the graph is a `cuda_op`; a node is `null`"),
    (lambda g: g.update(node_row_ptr=[0, 1, 2, 3, 9]), "node_row_ptr does not fit the outputs of its nodes"),
    (lambda g: g["attrs"].pop("shape"), "its attrs have no `shape`"),
    (lambda g: g["attrs"]["dltype"][1].pop(), "attrs `dltype` has 3 values for 4 tensors"),
    (lambda g: g["attrs"]["shape"][1].__setitem__(2, [1 << 50]), r"tensor 2 has the shape \(1125899906842624,\)"),
    (lambda g: g.update(arg_nodes=[2]), "arg_nodes names node 2, which is not an input"),
    (
        lambda g: g["nodes"][2]["attrs"].update(func_name="absent"),
        "the library has no function `absent`, which node `scale`",
    ),
]


@pytest.mark.parametrize(("change", "text"), DAMAGE)
def test_damaged_graphs(model, change, text):
    with pytest.raises(ValueError, match=text):
        graph_executor.create(damaged(change), model, runtime.cpu(0))


def test_graph_texts_cut_anywhere(model):
    text = json.dumps(graph_of_model())
    for cut in range(1, len(text), 7):
        with pytest.raises(ValueError, match="the graph is damaged"):
            graph_executor.create(text[:cut], model, runtime.cpu(0))
    with pytest.raises(ValueError, match="the graph must be JSON text, but is a dict"):
        graph_executor.create({}, model, runtime.cpu(0))
    with pytest.raises(
        ValueError, match=r"device must be a Device such as cpu\(0\), or a list of them, but 'cpu' was given"
    ):
        graph_executor.create(text, model, "cpu")
    with pytest.raises(ValueError, match=r"the graph was compiled for the CPU; create it with cpu\(0\), not cuda\(0\)"):
        graph_executor.create(text, model, runtime.cuda(0))


def test_executor_input_errors(model):
    set_input = model["default"](runtime.cpu(0))["set_input"]
    with pytest.raises(ValueError, match="the model has no input named `y`; its inputs are: `x`"):
        set_input("y", np.ones(4, "float32"))
    with pytest.raises(IndexError, match=r"input index 3 is out of range: the model has 1 \(`x`\)"):
        set_input(3, np.ones(4, "float32"))
    with pytest.raises(ValueError, match=r"input `x` must have shape \(4,\), got \(2, 2\)"):
        set_input("x", np.ones((2, 2), "float32"))
    with pytest.raises(TypeError, match=r"input `x` must have dtype float32, got float64; convert it first"):
        set_input("x", np.ones(4))
    with pytest.raises(TypeError, match="input `x` must be a tensor"):
        set_input("x", 3)
    with pytest.raises(ValueError, match="must be aligned to 64 bytes"):
        off = np.from_dlpack(runtime.empty((8,)))[1:5]
        model["default"](runtime.cpu(0))["set_input_zero_copy"]("x", off)
    with pytest.raises(ValueError, match=r"was compiled for the CPU; create it with cpu\(0\), not cuda\(0\)"):
        model["default"](runtime.cuda(0))


def with_metadata(jit, **changes):
    constants = runtime.array(np.zeros(4, "float32"))
    metadata = json.dumps({**native.METADATA, **changes})
    return runtime.Module.from_aot(jit.symbols, metadata, constants, keep_alive=jit)["default"](runtime.cpu(0))


def test_library_for_another_cpu(jit):
    from llvmlite.binding import get_host_cpu_features

    missing = next(f for f in ("fma4", "sse4a", "avxifma", "amx-fp16") if not get_host_cpu_features().get(f))
    target = {"cpu": "other", "features": ["+sse4.2", f"+{missing}"]}
    with pytest.raises(
        RuntimeError, match=f"compiled for CPU `other`, but this machine lacks the features: {missing};"
    ):
        with_metadata(jit, target=target)
    with pytest.raises(RuntimeError, match="was compiled for sparc-unknown-linux, but this process runs on"):
        with_metadata(jit, target={"triple": "sparc-unknown-linux", "cpu": "v9", "features": []})


def test_library_on_a_lesser_cpu(tmp_path, monkeypatch):
    """Exported code of any kind says what it lacks when it is loaded, before any of it runs."""
    from tests.runtime.test_thread_pool import Doubled

    message = (
        "was compiled for CPU `x86-64-v3`, but this machine lacks the features: avx2, fma; compile the model again"
    )
    target = "llvm -mcpu=x86-64-v3"
    module = tvm.build(Doubled, target=target)
    path = str(tmp_path / "doubled.so")
    module.export_library(path)
    x = tvm.relay.var("x", shape=(4, 8))
    relay_path, machine_path = str(tmp_path / "relay.so"), str(tmp_path / "machine.so")
    mod = tvm.IRModule.from_expr(tvm.relay.Function([x], tvm.relay.exp(x)))
    tvm.relay.build(mod, target).export_library(relay_path)
    tvm.relay.vm.compile(mod, target).mod.export_library(machine_path)
    runtime.load_module(path)
    monkeypatch.setenv("TILEWRIGHT_CPU_WITHOUT", "fma,avx3")
    with pytest.raises(
        ValueError, match="is `fma,avx3`, and `avx3` is not a feature that is checked on this architecture"
    ):
        runtime.load_module(path)
    monkeypatch.setenv("TILEWRIGHT_CPU_WITHOUT", "fma,avx2")
    with pytest.raises(RuntimeError, match=message):
        runtime.load_module(path)
    for library in (relay_path, machine_path):
        with pytest.raises(RuntimeError, match=message):
            runtime.load_module(library)["default"](runtime.cpu(0))
    with pytest.raises(
        AttributeError,
        match="function `main` cannot be called here: it was compiled for CPU `x86-64-v3`, but this machine lacks the features: avx2, fma;",
    ):
        tvm.build(Doubled, target=target)["main"]


def test_module_for_another_architecture():
    from tests.runtime.test_thread_pool import Doubled

    module = tvm.build(Doubled, target="llvm -mtriple=aarch64-unknown-linux-gnu")
    with pytest.raises(
        AttributeError, match="cannot be called here: it was compiled for aarch64-unknown-linux-gnu; export"
    ):
        module["main"]
    with pytest.raises(
        AttributeError, match="the module cannot be called here: it was compiled for aarch64-unknown-linux-gnu; export"
    ):
        module()


def test_cpu_features_agree_with_llvm():
    from llvmlite.binding import get_host_cpu_features

    host = get_host_cpu_features()
    missing = runtime.get_global_func("runtime.MissingCPUFeatures")(*host)
    assert [f for f in missing if host[f]] == []


def test_damaged_metadata(jit):
    constants = runtime.array(np.zeros(4, "float32"))
    text = json.dumps(native.METADATA)
    for cut in range(1, len(text), 5):
        module = runtime.Module.from_aot(jit.symbols, text[:cut], constants, keep_alive=jit)
        with pytest.raises(ValueError, match="metadata is damaged"):
            module["default"](runtime.cpu(0))
    with pytest.raises(ValueError, match="the constants hold 16 bytes, but the model needs 99"):
        with_metadata(jit, constants_bytes=99)


def test_executors_in_threads(model):
    failures = []

    def work(seed):
        values = np.full(4, seed, "float32")
        graph = graph_executor.GraphModule(model["default"](runtime.cpu(0)))
        for _ in range(200):
            graph.run(x=values)
            if not np.array_equal(graph.get_output(0).numpy(), values * [1, 2, 3, 4] + 1):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


# ---- the pool


def test_parallel_regions(model):
    parallel = model["parallel"]
    for tasks in (1, 2, 3, 100, 100000):
        assert parallel(tasks) == tasks * (tasks + 1) // 2
    with pytest.raises(ValueError, match="task failed"):
        model["parallel_failing"]()
    assert parallel(4) == 10


def test_pool_is_shared_by_callers(model):
    # `sum` is one variable of the library, so each caller checks only that its call returns.
    threads = [threading.Thread(target=lambda: [model["parallel"](8) for _ in range(500)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)


# ---- libraries


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    data = native.compile_object(native.ADD_ONE)
    theirs = next(Path(tvm_ffi.__file__).parent.glob("lib/libtvm_ffi.so"))
    return native.link(folder, "unlinked", data), native.link(folder, "linked", data, libraries=(theirs,))


CROSS = """
import sys
order, path = sys.argv[1:]
if order == "first":
    import tvm_ffi
import numpy as np
from tilewright import runtime
module = runtime.load_module(path)
x, y = runtime.array(np.arange(4, dtype="float32")), runtime.empty((4,))
module["add_one"](x, y)
assert y.numpy().tolist() == [1, 2, 3, 4]
try:
    module["add_one"](1, 2)
except ValueError as error:
    assert str(error) == "Expects a Tensor input"
else:
    raise SystemExit("no error")
import torch
t = torch.zeros(4)
module["add_one"](t, t)
assert t.tolist() == [1] * 4
if order != "never":
    import tvm_ffi
    theirs = tvm_ffi.load_module(path)
    theirs.add_one(t, t)
    assert t.tolist() == [2] * 4
    theirs.add_one(y, y)
    assert y.numpy().tolist() == [2, 3, 4, 5]
print("fine")
"""


@pytest.mark.parametrize("linked", [0, 1])
@pytest.mark.parametrize("order", ["first", "after"])
def test_library_made_for_tvm_ffi(libraries, order, linked):
    done = subprocess.run([sys.executable, "-c", CROSS, order, libraries[linked]], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_library_made_for_tvm_ffi_where_it_is_not_installed(libraries):
    # The linked one has no path to libtvm_ffi.so, so it is ours that stands in.
    done = subprocess.run([sys.executable, "-c", CROSS, "never", libraries[1]], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_export_and_load_in_tvm_ffi(tmp_path):
    text = native.ADD_ONE.replace(
        "declare void @TVMFFIErrorSetRaisedFromCStr", "declare extern_weak void @TVMFFIErrorSetRaisedFromCStr"
    )
    jit = native.Jit(
        native.ADD_ONE.replace("call void @TVMFFIErrorSetRaisedFromCStr(ptr @kind, ptr @text)", ""),
        ["__tvm_ffi_add_one"],
    )
    source = runtime.ModuleSource([native.compile_object(text)], {"ll": lambda: native.ADD_ONE})
    module = runtime.Module.from_symbols(jit.symbols, jit, source)
    assert module.type_key == "llvm" and "define i32" in module.get_source("ll")
    for name in ("lib.so", "lib.tar", "lib.o"):
        module.export_library(tmp_path / name)
        loaded = runtime.load_module(tmp_path / name)
        out = runtime.empty((2,))
        loaded["add_one"](runtime.array(np.zeros(2, "float32")), out)
        np.testing.assert_array_equal(out.numpy(), [1, 1])
    t = torch.zeros(5)
    tvm_ffi.load_module(str(tmp_path / "lib.so")).add_one(t, t)
    assert t.tolist() == [1] * 5
    with pytest.raises(ValueError, match="no source in format `cuda`; available: ll"):
        module.get_source("cuda")
    with pytest.raises(ValueError, match="holds no objects to export"):
        loaded.export_library(tmp_path / "again.so")
    with pytest.raises(TVMError, match="there is no directory"):
        module.export_library(tmp_path / "none" / "lib.so")


def test_bad_library_files(tmp_path):
    with pytest.raises(ValueError, match="cannot find the library file"):
        runtime.load_module(tmp_path / "missing.so")
    for name, data in (("empty.so", b""), ("text.so", b"no library" * 20), ("cut.so", b"\x7fELF" + bytes(200))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises((ValueError, RuntimeError), match=name):
            runtime.load_module(tmp_path / name)


def test_near_names_of_functions(model):
    for module, name, near in (
        (model, "defualt", "; did you mean `default`?"),
        (model["default"](tvm.cpu()), "set_imput", "; did you mean `set_input`?"),
        (model["default"](tvm.cpu()), "get_inputt", "; did you mean `get_input`?"),
        (model["default"](tvm.cpu()), "quite_another", ""),
    ):
        with pytest.raises(AttributeError) as caught:
            module[name]
        assert str(caught.value) == f"the module has no function `{name}`{near}"


def test_imports_and_lookup(model, libraries):
    other = runtime.load_module(libraries[1])
    with pytest.raises(AttributeError, match="the module has no function `add_one`"):
        model["add_one"]
    model.import_module(other)
    assert model.imported_modules[0].same_as(other)
    assert model.get_function("add_one", query_imports=True) is not None
    assert model.implements_function("add_one", True) and not model.implements_function("add_one")
    with pytest.raises(ValueError, match="cycle of imports"):
        other.import_module(model)


def test_code_lives_as_long_as_its_functions(jit):
    held = native.Jit(native.MODEL, native.MODEL_SYMBOLS)
    function = runtime.Module.from_symbols(held.symbols, held)["parallel"]
    del held
    assert function(3) == 6


def test_a_library_that_was_written_over(tmp_path, monkeypatch):
    """The system would answer its path with what it has loaded before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    loaded = []
    for factor in (2.0, 3.0, 4.0):
        a = te.placeholder((4,), name="a")
        func = te.create_prim_func([a, te.compute((4,), lambda i, a=a, k=factor: a[i] * k, name="b")])
        tvm.build(func, target="llvm").export_library("scaled.so")
        loaded += [
            (factor, runtime.load_module(str(tmp_path / "scaled.so"))),
            (factor, runtime.load_module("scaled.so")),
        ]
    for factor, module in loaded:
        out = runtime.empty((4,))
        module(runtime.array(np.ones(4, "float32")), out)
        assert out.numpy()[0] == factor
    assert [p.name for p in tmp_path.iterdir()] == ["scaled.so"]


def test_files_of_a_format_of_ones_own(tmp_path):
    path = tmp_path / "numbers.scale"
    path.write_text("3")
    seen = []

    @tvm.register_func("runtime.module.loadfile_scale", override=True)
    def load(name, fmt):
        seen.append((name, fmt))
        factor, a = float(Path(name).read_text()), te.placeholder((4,), name="a")
        scaled = te.compute((4,), lambda i: a[i] * factor)
        return tvm.build(te.create_prim_func([a, scaled]), target="llvm", name="scale")

    tvm.register_func("runtime.module.loadfile_half", lambda name, fmt: None, override=True)
    out = tvm.nd.empty((4,))
    runtime.load_module(path)["scale"](tvm.nd.array(np.float32([1, 2, 3, 4])), out)
    np.testing.assert_array_equal(out.numpy(), [3, 6, 9, 12])
    assert runtime.load_module(str(path), "scale").implements_function("scale")
    assert seen == [(str(path), "scale")] * 2
    with pytest.raises(TypeError, match="`runtime.module.loadfile_half` must return a module"):
        runtime.load_module(path, "half")


def test_library_is_small():
    from importlib.util import find_spec

    spec = find_spec("tilewright.runtime._ffi")
    library = Path(spec.origin).parent / "libtilewright_runtime.so"
    assert library.stat().st_size <= 600_000


FOREIGN = """
import sys, numpy, tvm_ffi
twice = tvm_ffi.load_module(sys.argv[1])["twice"]
x, y = numpy.arange(4, dtype="float32"), numpy.zeros(4, "float32")
twice(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y))
print(y.tolist())
try:
    twice(tvm_ffi.from_dlpack(x[:3].copy()), tvm_ffi.from_dlpack(y))
except ValueError as error:
    print(error)
"""
ALONE = """
import ctypes, sys
print(ctypes.CDLL(sys.argv[1]).__tvm_ffi_twice(None, None, 0, ctypes.create_string_buffer(16)))
"""


def test_libraries_in_processes_without_our_runtime(tmp_path: Path) -> None:
    """tvm-ffi's own loader knows nothing of ours, and must find an error where a call failed; a host without either has the code."""
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] * 2, name="b")
    library = str(tmp_path / "twice.so")
    tvm.build(te.create_prim_func([a, b]), target="llvm", name="twice").export_library(library)
    wrong = "twice: argument 0 (a): dimension 0 must be 4, but is 3"
    for program, told in ((FOREIGN, f"[0.0, 2.0, 4.0, 6.0]\n{wrong}"), (ALONE, "-1")):
        done = subprocess.run([sys.executable, "-c", program, library], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, told), done.stderr
