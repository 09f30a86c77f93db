"""Models in their full size, compiled for NVIDIA's GPUs and by NVRTC (`make test-cuda-models`): kernels fit, and keep nothing in memory."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from benchmarks import models
from tests.scheduling.gpu.models import unet
from tilewright import relay
from tilewright.relay.backend.kernel_reports import model_kernel_reports

NAMES = ("resnet50", "mobilenetv2", "bert_base", "vit_b16", "gpt2_decode", "unet")


def model(name: str) -> tuple[tvm.IRModule, Any]:
    """A model and its weights; unet: a block of a diffusion network on latent images of 64 x 64."""
    if name == "unet":
        return unet(320, 64, 77, 8), None
    shapes = {key: value.shape for key, value in models.inputs(name).items()}
    found: tuple[tvm.IRModule, Any] = relay.frontend.from_onnx(models.make(name), shape=shapes)
    return found


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_models(name: str, precision: str, arch: str) -> None:
    config = {} if precision == "float32" else {"relay.build.precision": precision}
    mod, params = model(name)
    with tvm.transform.PassContext(opt_level=3, config=config):
        kernels = model_kernel_reports(relay.build(mod, f"cuda -arch={arch}", params=params))
    reports = [report for kernel in kernels for report in kernel.reports]
    assert reports and not [k for k in kernels if k.refused]
    assert not [r.name for r in reports if r.resources is None or r.resources.spill_stores or r.resources.stack]
    assert all([report.occupancy.blocks >= 1 for report in reports])
