"""A client of a server in JavaScript: python -m tests.deploy.javascript.rpc_client PORT KEY MODELS

The server offers the functions of rpc_functions.mjs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import rpc
from tilewright.contrib import graph_executor


def check_model(remote: rpc.RPCSession, models: Path) -> None:
    """A model is uploaded, run and measured; its file comes back."""
    expected = json.loads((models / "expected.json").read_text())
    x = np.array(expected["x"], "float32").reshape(2, 16)
    for name, key in (("dense.wasm", "default"), ("graph.wasm", "default")):
        remote.upload(models / name)
        model = graph_executor.GraphModule(remote.load_module(name)[key](remote.cpu(0)))
        if name == "graph.wasm":
            model.load_params((models / "graph.params").read_bytes())
        model.set_input("x", x)
        model.run()
        for i, output in enumerate(("relu", "softmax")):
            np.testing.assert_allclose(model.get_output(i).numpy().ravel(), expected[output], rtol=1e-4, atol=1e-6)
        times = model.module.time_evaluator("run", remote.cpu(0), number=2, repeat=3, min_repeat_ms=20)()
        assert len(times.results) == 3
        assert 0 < times.min <= times.mean < 1
        print(f"{name}: {1e6 * times.mean:.1f} us a run")
    assert remote.download("dense.wasm") == (models / "dense.wasm").read_bytes()
    assert remote.listdir(".") == ["dense.wasm", "graph.wasm"]
    remote.remove("graph.wasm")
    assert remote.listdir(".") == ["dense.wasm"]


def check_functions(remote: rpc.RPCSession, models: Path) -> None:
    """Arrays, compiled functions, those of JavaScript, and callbacks."""
    dev = remote.cpu(0)
    assert dev.exist
    assert not remote.cuda(0).exist
    data = np.random.default_rng(0).integers(0, 255, 3_000_001, np.uint8)
    array = tvm.nd.array(data, dev)
    assert (array.numpy() == data).all()
    assert (array.copyto(dev).numpy() == data).all()
    remote.upload(models / "functions.wasm", "folder/functions.wasm")
    library = remote.load_module("folder/functions.wasm")
    for dtype in ("float32", "float64", "float16", "int8", "uint8", "int32", "int64"):
        values, out = np.arange(5).astype(dtype), tvm.nd.empty((5,), dtype, dev)
        library[f"twice_{dtype}"](tvm.nd.array(values, dev), out)
        assert (out.numpy() == 2 * values).all()
    out = tvm.nd.empty((4,), "float32", dev)
    library["asks"](tvm.nd.empty((4,), "float32", dev), out)
    assert list(out.numpy()) == [3.5, 3.5, 3.5, 3.5]
    values = [1, -2.5, 2**60, True, None, "ä", b"\0\1", [1, ["x"]], "float32"]
    assert list(remote.get_function("page.back")(*values)) == values
    assert remote.get_function("page.sum")(tvm.nd.array(np.arange(4, dtype="float32"), dev)) == 6
    assert remote.get_function("page.array")().numpy().tolist() == [[1, 2], [3, 4]]
    assert remote.get_function("page.add")(1)(2) == 3
    # The client's function runs while the server waits for it, and asks the server for the array.
    assert remote.get_function("page.later")(lambda x, a: x + a.numpy()[0], 20) == 80
    assert remote.get_function("page.at_once")(lambda x: x + 1) == 2
    assert "page.sum" in remote.get_function("ffi.FunctionListGlobalNames")()


def check_errors(remote: rpc.RPCSession, models: Path) -> None:
    dev, library = remote.cpu(0), remote.load_module("dense.wasm")
    damaged = bytearray((models / "dense.wasm").read_bytes())
    damaged[2000] ^= 1
    remote.upload(damaged, "damaged.wasm")

    def refuses(words: str, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:
            assert re.search(words, str(error)), error
        else:
            raise AssertionError(f"nothing says {words!r}")

    refuses("ValueError: the model is damaged: its checksum", lambda: remote.load_module("damaged.wasm"))
    refuses(
        "FileNotFoundError: there is no 'no.wasm' .* uploaded are: damaged.wasm, dense",
        lambda: remote.load_module("no.wasm"),
    )
    refuses("'x.tar' is not linked", lambda: (remote.upload(b"", "x.tar"), remote.load_module("x.tar")))
    refuses("leads out of the session's folder", lambda: remote.upload(b"x", "../x"))
    refuses("no function `nothing`", lambda: library["nothing"])
    refuses("no function `page.summ`; did you mean `page.sum`", lambda: remote.get_function("page.summ"))
    refuses("has no device device.2, 0.: it has cpu", lambda: tvm.nd.empty((2,), "float32", remote.cuda(0)))
    refuses("MemoryError: cannot allocate", lambda: tvm.nd.empty((2**29,), "float64", dev))
    refuses("ZeroDivisionError", lambda: remote.get_function("page.later")(lambda x, a: 1 / 0, 1))
    refuses("cache_flush_bytes must be 0", lambda: library.time_evaluator("default", dev, cache_flush_bytes=8)(dev))
    refuses("number must be at least 1", lambda: library.time_evaluator("default", dev, number=0)(dev))


def main() -> None:
    port, key, models = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    # Two sessions: the server comes again. The page of the proxy has only what every server has.
    for checks in ((check_model, check_errors), (check_functions,)) if key != "example" else ((check_model,),):
        remote = rpc.connect("127.0.0.1", port, key, session_timeout=60)
        for check in checks:
            check(remote, models)
        del remote
    print("all answers are right")


if __name__ == "__main__":
    main()
