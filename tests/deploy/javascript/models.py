"""Writes the package and the models that the tests in JavaScript load: python -m tests.deploy.javascript.models FOLDER"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from tests.examples.pages import run_page
from tilewright import relay, te
from tilewright.deploy.machines import machine_of
from tilewright.deploy.native_build import build_runtime
from tilewright.script import tir as T

ROOT = Path(__file__).resolve().parents[3]
TARGET = "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128"
TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool")


def dense() -> tuple[tvm.IRModule, dict[str, Any]]:
    """relu(x . w) + softmax of x, two outputs; the weights are parameters."""
    x, w = relay.var("x", shape=(2, 16)), relay.var("w", shape=(8, 16))
    body = relay.Tuple([relay.nn.relu(relay.nn.dense(x, w)), relay.nn.softmax(x)])
    weights = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    return tvm.IRModule.from_expr(relay.Function([x, w], body)), {"w": weights}


def wide() -> tvm.IRModule:
    """A network whose loops are shared among threads."""
    x = relay.var("x", shape=(1, 16, 64, 64))
    rng = np.random.default_rng(1)
    y: Any = x
    for _ in range(3):
        w = relay.const(rng.standard_normal((16, 16, 3, 3)).astype("float32") / 12)
        y = relay.nn.relu(relay.nn.conv2d(y, w, padding=(1, 1)))
    return tvm.IRModule.from_expr(relay.Function([x], y))


def loop() -> tvm.IRModule:
    """The sum of the rows of a matrix whose number is dynamic, by recursion; and the pair of a tensor and its double."""
    mod = tvm.IRModule()
    rows, i, total = relay.var("rows", shape=(relay.Any(), 4)), relay.var("i", "int32"), relay.var("total", shape=(4,))
    again = relay.GlobalVar("again")
    count = relay.take(relay.shape_of(rows), relay.const(0))
    row = relay.take(rows, i, axis=0)
    body = relay.If(
        relay.less(relay.cast(i, "int64"), relay.cast(count, "int64")),
        again(rows, i + relay.const(1), total + row),
        total,
    )
    mod[again] = relay.Function([rows, i, total], body, relay.TensorType((4,)))
    m = relay.var("m", shape=(relay.Any(), 4))
    zero = relay.const(np.zeros(4, "float32"))
    mod["main"] = relay.Function([m], again(m, relay.const(0), zero))
    p = relay.var("p", shape=(3,))
    mod["pair"] = relay.Function([p], relay.Tuple([p, p * relay.const(2.0)]))
    return mod


def functions() -> dict[str, Any]:
    """x + x for every type; a function that calls one of JavaScript; one that checks its argument."""
    made: dict[str, Any] = {}
    for dtype in TYPES:
        x = te.placeholder((5,), dtype, "x")
        y = te.compute((5,), lambda i, x=x: x[i] if x.dtype == "bool" else x[i] + x[i], name="y")
        made[f"twice_{dtype}"] = te.create_prim_func([x, y]).with_attr("global_symbol", f"twice_{dtype}")

    @T.prim_func
    def asks(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (4,), "float32")
        B = T.match_buffer(b, (4,), "float32")
        T.evaluate(T.call_packed("test.fill", A.data, 4, 2.5, "words"))
        for i in range(4):
            B[i] = A[i] + T.float32(1)

    made["asks"] = asks.with_attr("global_symbol", "asks")
    return made


def write(folder: Path) -> None:
    """Models, their inputs and what they must answer."""
    models = folder / "models"
    models.mkdir(parents=True, exist_ok=True)
    mod, params = dense()
    x = np.random.default_rng(2).standard_normal((2, 16)).astype("float32")
    scores = np.exp(x - x.max(1, keepdims=True))
    expected = {
        "x": x.ravel().tolist(),
        "relu": np.maximum(x @ params["w"].T, 0).ravel().tolist(),
        "softmax": (scores / scores.sum(1, keepdims=True)).ravel().tolist(),
    }
    picture = np.random.default_rng(3).standard_normal((1, 16, 64, 64)).astype("float32")
    here = relay.build(wide(), "llvm")
    runner = tvm.contrib.graph_executor.GraphModule(here["default"](tvm.cpu()))
    runner.set_input(0, picture)
    runner.run()
    expected["picture"] = picture.ravel()[:64].tolist()
    (models / "picture.bin").write_bytes(picture.tobytes())
    (models / "wide.bin").write_bytes(runner.get_output(0).numpy().tobytes())
    for suffix, attrs in (("", ""), ("_threads", ",+atomics")):
        target = TARGET + attrs
        relay.build(mod, target, params=params).export_library(models / f"dense{suffix}.wasm")
        relay.build(wide(), target).export_library(models / f"wide{suffix}.wasm")
    executor = relay.backend.Executor("graph")
    graph = relay.build(mod, TARGET, params=params, executor=executor)
    graph.export_library(models / "graph.wasm")
    (models / "graph.json").write_text(graph.get_graph_json())
    (models / "graph.params").write_bytes(relay.save_param_dict(graph.get_params()))
    relay.vm.compile(loop(), TARGET).export_library(models / "loop.wasm")
    tvm.build(tvm.IRModule(functions()), target=TARGET).export_library(models / "functions.wasm")
    (models / "expected.json").write_text(json.dumps(expected))


def picture_of_six(path: Path) -> None:
    """A digit that scikit-learn brings, as a picture of 64 x 64."""
    from skimage.io import imsave
    from sklearn.datasets import load_digits

    digits = load_digits()
    six = digits.images[int(np.flatnonzero(digits.target == 6)[0])]
    imsave(path, np.kron(six / 16 * 255, np.ones((8, 8))).astype("uint8"), check_contrast=False)


def main() -> None:
    folder = Path(sys.argv[1])
    build_runtime(machine_of("wasm32"), folder / "node_modules" / "tilewright")
    for name, source in (("tilewright", folder / "node_modules" / "tilewright"), ("tests", Path(__file__).parent)):
        shutil.copytree(source, folder / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    sys.path.insert(0, str(ROOT / "examples" / "browser"))
    import make_site

    make_site.write_site(folder / "site")
    picture_of_six(folder / "digit.png")
    write(folder)
    page = folder / "page"
    shutil.copytree(folder / "tilewright", page / "tilewright", dirs_exist_ok=True)
    with contextlib.chdir(page):
        run_page(ROOT / "docs" / "browser.md")


if __name__ == "__main__":
    main()
