"""Compiled programs as modules of PyTorch."""

from __future__ import annotations

import base64
import io
import tarfile

import pytest

torch = pytest.importorskip("torch")

from tilewright.contrib.torch import as_torch, optimize_torch  # noqa: E402
from tilewright.contrib.torch.optimize_torch import save_to_base64  # noqa: E402
from tilewright.script import tir as T  # noqa: E402


@as_torch
@T.prim_func
def doubled(x: T.Buffer((4, 5), "float32"), y: T.Buffer((4, 5), "float32")) -> None:
    for i, j in T.grid(4, 5):
        with T.block("double"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32(2)


def test_a_program_writes_into_tensors() -> None:
    x, y = torch.rand(4, 5), torch.zeros(4, 5)
    doubled(x, y)
    torch.testing.assert_close(y, 2 * x)
    assert isinstance(doubled, torch.nn.Module) and "T.Buffer((4, 5)" in doubled.script()


def test_a_program_by_parameters() -> None:
    @as_torch
    def scaled(n: int) -> object:
        @T.prim_func
        def main(x: T.Buffer((n,), "float32"), y: T.Buffer((n,), "float32")) -> None:
            for i in T.serial(n):
                y[i] = x[i] + T.float32(1)

        return main

    module = scaled(7)
    module.build("llvm")
    x, y = torch.arange(7, dtype=torch.float32), torch.zeros(7)
    module(x, y)
    assert y.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(
        ValueError, match="as_torch takes an IRModule, a PrimFunc, or a function that makes one, but was given int"
    ):
        as_torch(3)


def test_functions_of_pytorch() -> None:
    weight = torch.rand(3, 4)

    def layer(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x @ weight.T) + y, x.sum(1)

    x, y = torch.rand(2, 4), torch.rand(2, 3)
    compiled = optimize_torch(layer, (x, y))
    first = compiled(x, y)
    for found, wanted in zip(first, layer(x, y), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    kept = first[0].clone()
    compiled(2 * x, y)
    torch.testing.assert_close(first[0], kept)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(save_to_base64(compiled.inner_module)))) as archive:
        assert archive.getnames()


def test_searched_schedules() -> None:
    @as_torch
    @T.prim_func
    def product(
        x: T.Buffer((16, 16), "float32"), y: T.Buffer((16, 16), "float32"), z: T.Buffer((16, 16), "float32")
    ) -> None:
        for i, j, k in T.grid(16, 16, 16):
            with T.block("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    z[vi, vj] = T.float32(0)
                z[vi, vj] = z[vi, vj] + x[vi, vk] * y[vk, vj]

    product.tune("cpu", 2, num_trials_per_iter=2, cost_model="random", num_tuning_cores=1, seed=0)
    x, y, z = torch.rand(16, 16), torch.rand(16, 16), torch.zeros(16, 16)
    product(x, y, z)
    torch.testing.assert_close(z, x @ y, rtol=1e-4, atol=1e-4)
    compiled = optimize_torch(lambda a: torch.relu(a @ y), (x,), 2, num_trials_per_iter=2, cost_model="random", seed=0)
    torch.testing.assert_close(compiled(x), torch.relu(x @ y), rtol=1e-4, atol=1e-4)
