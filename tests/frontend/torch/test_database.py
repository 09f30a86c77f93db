"""The score over PyTorch's database of operators: its report, and that a wrong answer is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.frontend.onnx.conformance import Outcome
from tests.frontend.torch.database.__main__ import load, report
from tests.frontend.torch.database.samples import NotExported, check, spread


class Sample:
    def __init__(self, value: Tensor, *args: Any, **kwargs: Any) -> None:
        self.input, self.args, self.kwargs = value, args, kwargs


class Operator:
    """As the database describes an operator."""

    def __init__(self, name: str, f: Any, *samples: Sample) -> None:
        self.name, self.f, self.samples = name, f, samples

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*args, **kwargs)

    def sample_inputs(self, device: str, dtype: torch.dtype, requires_grad: bool) -> Any:
        return iter(self.samples)


def test_check() -> None:
    numbers = Sample(torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5]), alpha=2)
    check(Operator("add", torch.add, numbers), torch.float32)
    check(Operator("mul", torch.mul, Sample(torch.tensor([1 + 2j, 3j]), torch.tensor([2 - 1j, 1j]))), torch.complex64)
    check(Operator("rand_like", torch.rand_like, Sample(torch.ones(3))), torch.float32)


def test_wrong_answers_are_found() -> None:
    def wrong(mod: Any, params: Any, inputs: Any) -> list[Any]:
        return [np.array([7.0, -1.5], np.float32)]

    op = Operator("add", torch.add, Sample(torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5])))
    text = r"1 of 1 samples: AssertionError: 1 of 2 elements differ: 7.0, but PyTorch makes 4.0 in float32\[2\], float32\[2\]"
    with pytest.raises(AssertionError, match=text):
        check(op, torch.float32, run=wrong)


def test_operators_that_are_not_exported() -> None:
    with pytest.raises(NotExported, match="no samples of dense tensors"):
        check(Operator("add", torch.add), torch.float32)


def test_spread() -> None:
    assert spread([0, 1, 2, 3, 4], 3) == [0, 2, 4]
    assert spread([0, 1], 3) == [0, 1]


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [
        Outcome("tensors", "cat[float32]", "", 0.1),
        Outcome("tensors", "roll[float32]", "AssertionError: 1 of 2 samples: it differs", 0.1),
        Outcome("nn.functional", "nn.functional.rrelu[float32]", "AssertionError: it is not supported", 0.1),
        Outcome("linalg", "linalg.some[float32]", "NotExported: no", 0.1),
    ]
    assert report(outcomes, {"cat[float32]"}) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "nn.functional  nn.functional.rrelu[float32]: [in training it draws its slopes] AssertionError" in lines[0]
    assert lines[2] == "1 are not exported by PyTorch, or have no samples of dense tensors"
    assert lines[3:] == ["tensors: 1 of 2", "nn.functional: 0 of 1", "of the core: 1 of 1", "all: 1 of 3"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["add", "cat", "sum", "nn.functional.conv2d", "softmax", "linalg.inv"])
def test_database(name: str) -> None:
    tests, _ = load(["float32"], 4)
    (test,) = [t for (_, title), t in tests.items() if title == f"{name}[float32]"]
    test.debug()
