"""Exported models as modules of PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tilewright import autotvm, relay  # noqa: E402
from tilewright.contrib.torch import PyTorchTVMModule, TraceTvmModule, VMModule, compile  # noqa: E402
from tilewright.contrib.torch.pytorch_tvm import TVM_ASSETS, get_tuning_opt, tune_tasks  # noqa: E402
from tilewright.ir import IRModule  # noqa: E402
from tilewright.runtime import cpu  # noqa: E402

SHAPE = (2, 3, 8, 8)


class Net(torch.nn.Module):  # type: ignore[misc]
    """A convolution, and the sum of its activation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.conv(x))


@pytest.fixture(scope="module")
def traced() -> Any:
    torch.manual_seed(0)
    return torch.jit.trace(Net().eval(), torch.zeros(SHAPE))


@pytest.fixture
def compiled(traced: Any, tmp_path: Path) -> Any:
    option = {
        "input_infos": [("x", SHAPE)],
        "export_dir": str(tmp_path / "model"),
        "tuning_n_trials": 0,
        "target": "llvm",
        "device": cpu(0),
    }
    return compile(traced, option)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_compile(traced: Any, compiled: Any) -> None:
    x, y = torch.randn(SHAPE), torch.randn(SHAPE)
    first = compiled([x])
    compiled([y])  # does not write to what the first run gave
    assert len(first) == 1
    same(first[0], traced(x))
    assert compiled.device == "cpu"
    with pytest.raises(ValueError, match="takes tensors of shapes"):
        compiled([torch.zeros(1, 3, 8, 8)])


def test_scripted_and_traced(traced: Any, compiled: Any) -> None:
    """Recordings run the model on what they are given, not on what they were made of."""
    x = torch.randn(SHAPE)
    for module in (compiled, torch.jit.script(compiled)):
        wrapped = TraceTvmModule(module)
        same(wrapped(x), traced(x))
        recorded = torch.jit.trace(wrapped, torch.zeros(SHAPE))
        same(recorded(x), traced(x))


def test_load(traced: Any, compiled: Any, tmp_path: Path) -> None:
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == sorted(TVM_ASSETS)
    again = PyTorchTVMModule("llvm", cpu(0))
    executor = again.load_tvm(str(tmp_path / "model"))
    x = torch.randn(SHAPE)
    executor.run(x=x.numpy())
    np.testing.assert_allclose(executor.get_output(0).numpy(), traced(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    same(again.build_pytorch_module(1, 1, [("x", SHAPE)])([x])[0], traced(x))
    with pytest.raises(ValueError, match="has 1 inputs, not 2"):
        again.build_pytorch_module(2, 1, [("x", SHAPE)])
    with pytest.raises(ValueError, match="no model yet"):
        PyTorchTVMModule("llvm", cpu(0)).build_pytorch_module(1, 1)


def test_debug_executor(traced: Any, tmp_path: Path) -> None:
    made = PyTorchTVMModule("llvm", cpu(0))
    made.from_pytorch(traced, [("x", SHAPE)])
    executor = made.build_tvm(str(tmp_path), debug_runtime=True)
    assert hasattr(executor, "debug_datum")


def test_tuned(traced: Any, tmp_path: Path) -> None:
    """The best records go to the file, and builds read it."""
    log = str(tmp_path / "tuning.log")
    made = PyTorchTVMModule("llvm", cpu(0))
    made.from_pytorch(traced, [("x", SHAPE)])
    tasks = autotvm.task.extract_from_program(made.mod["main"], target="llvm", params=made.params)
    measure = autotvm.measure_option(
        autotvm.LocalBuilder(timeout=60), autotvm.LocalRunner(number=1, repeat=1, min_repeat_ms=0)
    )
    tune_tasks(tasks[:1], measure, "random", n_trial=2, log_filename=log)
    assert len(list(autotvm.record.load_from_file(log))) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["tuning.log"]
    made.log_file = log
    x = torch.randn(SHAPE)
    executor = made.build_tvm(str(tmp_path / "model"))
    executor.run(x=x.numpy())
    np.testing.assert_allclose(executor.get_output(0).numpy(), traced(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["xgb", "xgb_knob", "xgb_rank", "xgb_rank_curve", "xgb_rank_binary_itervar", "ga", "gridsearch"]
)
def test_tuners_by_name(name: str, tmp_path: Path) -> None:
    tune_tasks([], get_tuning_opt()["measure_option"], name, log_filename=str(tmp_path / "log"))
    assert (tmp_path / "log").read_text() == ""


def test_unknown_tuner(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Invalid tuner: xgb_best"):
        tune_tasks([None], None, "xgb_best", log_filename=str(tmp_path / "log"))


def test_virtual_machine(tmp_path: Path) -> None:
    x, y = relay.var("x", shape=(3, 4)), relay.var("y", shape=(4,))
    made = relay.vm.compile(IRModule.from_expr(relay.Function([x, y], relay.Tuple([x + y, relay.sum(x)]))), "llvm")
    code, library = made.save()
    (tmp_path / "code").write_bytes(code)
    library.export_library(str(tmp_path / "lib.so"))
    module = VMModule(2, 2)
    with pytest.raises(RuntimeError, match="call init first"):
        module([torch.zeros(3, 4), torch.zeros(4)])
    module.init([(3, 4), (4,)], str(tmp_path / "lib.so"), str(tmp_path / "code"))
    a, b = torch.randn(3, 4), torch.randn(4)
    total, summed = module([a, b])
    same(total, a + b)
    same(summed, a.sum())
    assert module.shape_repr([(3, 4), (4,)]) == "3x4,4"
    traced = torch.jit.trace(TraceTvmModule(module), (torch.zeros(3, 4), torch.zeros(4)))
    same(traced(a, b)[0], a + b)
    with pytest.raises(ValueError, match="has 2 inputs, but 1"):
        module.init([(3, 4)], str(tmp_path / "lib.so"), str(tmp_path / "code"))
