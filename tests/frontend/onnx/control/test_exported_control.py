"""Loops, branches and lists as PyTorch's exporter of scripts writes them, of dynamic sizes: against ONNX Runtime."""

from __future__ import annotations

import io
from typing import Any, Optional

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tilewright as tvm
from tilewright import relay

torch.manual_seed(0)
R = torch.randn


class CellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 3)

    def forward(self, x):
        out: list[torch.Tensor] = []
        h = torch.zeros(x.size(1), 3)
        c = torch.zeros(x.size(1), 3)
        for i in range(x.size(0)):
            h, c = self.cell(x[i], (h, c))
            out.append(h)
        return torch.stack(out), h


class UntilLarge(nn.Module):
    def forward(self, x):
        i = 0
        while bool(x.sum() < 100.0) and i < 20:
            x = x * 2
            i += 1
        return x, torch.tensor(i)


class Growing(nn.Module):
    def forward(self, x, n: int):
        for _ in range(n):
            x = torch.cat([x, x[-1:] + 1], dim=0)
        return x


class SqueezeThenMatrix(nn.Module):
    """The exporter branches on the extent: only one branch fits what follows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        y = x.squeeze(1)
        return self.layer(y) + self.layer(y + y)


class OtherRank(nn.Module):
    def forward(self, x, deeper: bool):
        if deeper:
            y = x.unsqueeze(0)
        else:
            y = x
        return (y * 2).sum() + y.mean()


class Parts(nn.Module):
    def forward(self, x, n: int):
        found = torch.zeros(x.size(0))
        for part in torch.split(x, n, dim=1):
            found = found + part.sum(1) * float(part.size(1))
        return found


class Unbound(nn.Module):
    def forward(self, x):
        out: list[torch.Tensor] = []
        for part in x.unbind(0):
            out.append(part.cumsum(0))
        return torch.cat(out, dim=0)


class Kept(nn.Module):
    def forward(self, boxes, scores, least: float):
        keep = torch.nonzero(scores > least).squeeze(1)
        b, s = boxes[keep], scores[keep]
        out: list[torch.Tensor] = []
        for i in range(b.size(0)):
            out.append(b[i] * s[i])
        if len(out) > 0:
            found = torch.stack(out)
        else:
            found = torch.zeros(0, 4)
        return found


class TwoRates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fast, self.slow = nn.Conv1d(1, 4, 16, stride=8), nn.Conv1d(1, 4, 8, stride=4)
        self.lstm = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x, h, c, rate: int):
        if rate == 16000:
            y = self.fast(x.unsqueeze(1))
        else:
            y = self.slow(x.unsqueeze(1))
        out, (h, c) = self.lstm(y.transpose(1, 2), (h, c))
        return out.mean(1), h, c


class PaddedLines(nn.Module):
    def forward(self, x, lengths):
        out: list[torch.Tensor] = []
        longest = int(lengths.max())
        for i in range(lengths.size(0)):
            n = int(lengths[i])
            out.append(F.pad(x[i, :n], [0, longest - n]))
        return torch.stack(out)


class Nested(nn.Module):
    def forward(self, x, n: int, m: int):
        t = torch.zeros(1)
        for i in range(n):
            for j in range(m):
                if bool(x[i, j] > 0):
                    t = t + x[i, j]
                else:
                    t = t - 2 * x[i, j]
        return t


class Larger(nn.Module):
    def forward(self, x, n: int):
        for _ in range(n):
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return F.adaptive_avg_pool2d(x, 1)


class FirstOrMore(nn.Module):
    def forward(self, x, n: int):
        last: Optional[torch.Tensor] = None  # noqa: UP045
        for i in range(n):
            y = x * float(i + 1)
            if last is None:
                last = y
            else:
                last = last + y
        assert last is not None
        return last


class EarlyReturn(nn.Module):
    def forward(self, x):
        if x.size(0) > 3:
            return x[:3].sum(0)
        return x.mean(0)


Case = tuple[nn.Module, list[tuple[Any, ...]], dict[str, dict[int, str]]]
CASES: list[Case] = [
    (CellLoop(), [(R(5, 2, 4),), (R(7, 1, 4),)], {"x0": {0: "t", 1: "b"}}),
    (UntilLarge(), [(R(3).abs(),), (R(6).abs(),)], {"x0": {0: "n"}}),
    (Growing(), [(R(2, 3), 3), (R(4, 3), 0)], {"x0": {0: "n"}}),
    (SqueezeThenMatrix(), [(R(2, 1, 4),), (R(5, 1, 4),)], {"x0": {0: "b", 1: "n"}}),
    (OtherRank(), [(R(2, 3), True), (R(4, 3), False)], {"x0": {0: "n"}}),
    (Parts(), [(R(2, 7), 3), (R(3, 9), 2)], {"x0": {0: "b", 1: "n"}}),
    (Unbound(), [(R(3, 4),), (R(5, 2),)], {"x0": {0: "b", 1: "n"}}),
    (Kept(), [(R(6, 4), torch.rand(6), 0.5), (R(3, 4), torch.rand(3), 2.0)], {"x0": {0: "n"}, "x1": {0: "n"}}),
    (
        TwoRates(),
        [(R(2, 64), R(1, 2, 4), R(1, 2, 4), 16000), (R(3, 40), R(1, 3, 4), R(1, 3, 4), 8000)],
        {"x0": {0: "b", 1: "n"}, "x1": {1: "b"}, "x2": {1: "b"}},
    ),
    (
        PaddedLines(),
        [(R(3, 6), torch.tensor([2, 5, 3])), (R(2, 6), torch.tensor([1, 2]))],
        {"x0": {0: "b"}, "x1": {0: "b"}},
    ),
    (Nested(), [(R(4, 5), 3, 4), (R(4, 5), 4, 5)], {"x0": {0: "n"}}),
    (Larger(), [(R(1, 2, 3, 4), 2), (R(1, 2, 5, 4), 1)], {"x0": {2: "h", 3: "w"}}),
    (FirstOrMore(), [(R(3), 2), (R(5), 4)], {"x0": {0: "n"}}),
    (EarlyReturn(), [(R(2, 3),), (R(5, 3),)], {"x0": {0: "n"}}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=[type(c[0]).__name__ for c in CASES])
def test_exported(case: Case) -> None:
    module, inputs, axes = case
    file = io.BytesIO()
    names = [f"x{k}" for k in range(len(inputs[0]))]
    torch.onnx.export(
        torch.jit.script(module), inputs[0], file, input_names=names, dynamic_axes=axes, opset_version=17, dynamo=False
    )
    made = onnx.load_from_string(file.getvalue())
    session = ort.InferenceSession(made.SerializeToString())
    mod, _ = relay.frontend.from_onnx(made)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for values in inputs:
        feeds = {
            n: v.numpy() if isinstance(v, torch.Tensor) else np.array(v) for n, v in zip(names, values, strict=True)
        }
        found = run(*[feeds[p.name_hint] for p in mod["main"].params])
        outputs = [found] if hasattr(found, "numpy") else list(found)
        for got, want in zip(outputs, session.run(None, feeds), strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4, strict=True)


@pytest.mark.filterwarnings("ignore")
def test_a_branch_that_what_follows_cannot_take() -> None:
    """A run that takes it ends with an error, as in ONNX Runtime."""
    module = SqueezeThenMatrix()
    file = io.BytesIO()
    torch.onnx.export(
        module, (R(2, 1, 4),), file, input_names=["x"], dynamic_axes={"x": {0: "b", 1: "n"}}, dynamo=False
    )
    made = onnx.load_from_string(file.getvalue())
    session = ort.InferenceSession(made.SerializeToString())
    mod, _ = relay.frontend.from_onnx(made)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    x = R(6, 1, 4).numpy()
    np.testing.assert_allclose(run(x).numpy(), session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)
    x = R(2, 5, 4).numpy()
    with pytest.raises(Exception, match="Gemm"):
        session.run(None, {"x": x})
    text = (
        "the condition of '/If', since Gemm '/layer/Gemm' takes only what its then branch returns, must be from 1 to 1"
    )
    with pytest.raises(ValueError, match=text):
        run(x)
