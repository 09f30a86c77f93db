"""`import tilewright as tvm`: the classic names are there, and importing stays quick."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tilewright as tvm

CLASSIC = """
tvm.te.compute tvm.te.create_prim_func tvm.tir.PrimFunc tvm.tir.Schedule tvm.tir.schedule.Trace tvm.tir.transform.Simplify
tvm.tir.analysis.verify_ssa tvm.tir.stmt_functor.substitute tvm.tir.ir_builder.create tvm.relay.build tvm.relay.frontend.from_onnx
tvm.relay.nn.conv2d tvm.relay.transform.FuseOps tvm.topi.nn.dense tvm.arith.Analyzer tvm.ir.structural_equal tvm.ir.save_json
tvm.ir.transform.PassContext tvm.ir.instrument.PassTimingInstrument tvm.IRModule tvm.DataType tvm.transform.PassContext
tvm.transform.Sequential tvm.transform.module_pass tvm.instrument.PassTimingInstrument tvm.target.Target tvm.runtime.load_module
tvm.runtime.Module tvm.runtime.enabled tvm.nd.array tvm.nd.empty tvm.nd.NDArray tvm.cpu tvm.cuda tvm.device tvm.build tvm.lower
tvm.register_func tvm.get_global_func tvm.TVMError tvm.error.OpNotImplemented tvm.contrib tvm.script.show
tvm.testing.assert_allclose tvm.__version__
""".split()


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_name(name: str) -> None:
    value = tvm
    for part in name.split(".")[1:]:
        value = getattr(value, part)


def test_all_is_there() -> None:
    assert all(hasattr(tvm, name) for name in tvm.__all__)
    assert set(tvm.__all__) <= set(dir(tvm))


def test_names_of_upper_rooms_without_the_upper_rooms_import() -> None:
    assert fresh("from tilewright import tir; print(tir.Schedule.__name__, tir.transform.__name__)").split() == [
        "Schedule",
        "tilewright.tir.transform",
    ]


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'tilewright' has no attribute 'relax'"):
        tvm.relax  # noqa: B018


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'llvmlite', 'onnx', 'rich', 'torch', 'ml_dtypes', 'pathlib', 'tempfile', 'urllib.parse'}"
    # The interpreter itself, and how the package is installed, may have loaded some.
    code = f"import sys; before = set(sys.modules); import tilewright; print({heavy} & (set(sys.modules) - before))"
    assert fresh(code).strip() == "set()"
    loaded = fresh(
        "import sys, tilewright as tvm; tvm.relay.build; tvm.te; print({'onnx', 'torch', 'rich.table'} & set(sys.modules))"
    )
    assert loaded.strip() == "set()"


def test_one_version() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == tvm.__version__


def test_a_function_stays_where_a_module_has_its_name() -> None:
    """Although the module is imported before the package is first used."""
    code = "import tilewright.topi.nn.batch_matmul, tilewright as tvm; print(callable(tvm.topi.nn.batch_matmul))"
    assert fresh(code) == "True\n"
