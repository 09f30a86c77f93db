"""Strings that a model contains are known in every process that loads its library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay.backend.model_cache import FEWEST_CALLS
from tilewright.relay.frontend import encode_strings
from tilewright.runtime.host_functions.strings import StringTable, string_table

LABELS = ["cat", "dog", "", "b\udcfcrd"]
LOADING = """
import sys
import numpy as np
import tilewright as tvm
from tilewright.runtime.host_functions.strings import decode_strings

kind, path = sys.argv[1:]
library = tvm.runtime.load_module(path)
x = np.array([3, 1, 0, 2])
if kind == "vm":
    found = tvm.runtime.vm.VirtualMachine(library, tvm.cpu()).invoke("main", x)
else:
    run = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
    run.set_input("x", x)
    run.run()
    found = run.get_output(0)
print(ascii(decode_strings(found).tolist()))
"""


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("kind", ["aot", "graph", "vm"])
def test_labels(kind: str, scalar: bool, tmp_path: Path) -> None:
    x = relay.var("x", shape=(4,), dtype="int64")
    numbers = encode_strings(LABELS)
    found: Any = relay.take(relay.const(numbers), x)
    if scalar:
        # In the midst of a kernel.
        found = relay.const(numbers[2])
        for k in (0, 1, 3):
            found = relay.where(relay.equal(x, relay.const(k, "int64")), relay.const(numbers[k]), found)
    mod = tvm.IRModule.from_expr(relay.Function([x], found))
    path = str(tmp_path / "model.so")
    if kind == "vm":
        relay.vm.compile(mod, "llvm").mod.export_library(path)
    else:
        relay.build(mod, "llvm", executor=relay.backend.Executor(kind)).export_library(path)
    command = [sys.executable, "-c", LOADING, kind, path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == f"{ascii([LABELS[3], LABELS[1], LABELS[0], LABELS[2]])}\n", done.stderr


def test_which_strings_are_known() -> None:
    table = StringTable()
    assert table.known(np.array([0, 5])) == set()
    numbers = table.encode(["a", "", "b"], keep=True)
    assert table.known(np.append(numbers, [1, 2])) == {"a", "b"}
    with table.run():
        assert table.known(table.encode(["c"])) == set()
    assert string_table.known(encode_strings(["labels of a model"])) == {"labels of a model"}


def test_a_cached_model_has_the_strings_that_are_known_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was kept when its numbers were mere numbers came back without strings."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    word = "a word that only this test knows"
    found: Any = relay.var("x", shape=(4,), dtype="int64")
    for _ in range(FEWEST_CALLS):
        found = relay.sort(relay.maximum(found, relay.const(StringTable().number(word), "int64")))
    mod = tvm.IRModule.from_expr(found)
    assert "strings" not in relay.build(mod, "llvm").metadata
    encode_strings([word])
    assert relay.build(mod, "llvm").metadata["strings"] == [word]
