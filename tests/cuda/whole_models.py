"""Whole models compiled for CUDA, on the driver without a GPU: a run is launches alone, within limits of a device, and can be captured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tilewright as tvm
from tests.cuda import Fake
from tests.scheduling.gpu.models import MODELS, inputs
from tilewright import nd, relay
from tilewright.codegen.source.cuda import nvrtc
from tilewright.contrib.cuda_graph import cuda_graph_executor

DEV = tvm.cuda(0)
FAKE = Fake()
BESIDE = {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxGetCurrent", "cuTensorMapEncodeTiled"}
"""What a run calls beside launches: nothing that waits, copies or takes memory."""


@pytest.fixture(scope="module", autouse=True)
def _source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels stay source, which the NVRTC of this folder reads when they are loaded; it wants to see the headers."""
    headers = tmp_path_factory.mktemp("headers")
    for name in ("cuda_fp16.h", "cuda_bf16.h", "mma.h", "cooperative_groups.h"):
        (headers / name).touch()
    known = tvm.get_global_func("runtime.cuda.nvrtc")
    tvm.register_func("runtime.cuda.nvrtc", lambda: ["", f"--include-path={headers}"], override=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc, "nvrtc", lambda: None)
        patch.setattr(nvrtc, "identity", lambda: "")
        yield
    tvm.register_func("runtime.cuda.nvrtc", known, override=True)


@pytest.fixture(name="device")
def _device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The driver's devices have the limits of an architecture, the name of which the test gets."""
    arch = str(request.param)
    gpu = tvm.target.Target(f"cuda -arch={arch}").gpu
    FAKE.set(
        major=int(arch[3:].rstrip("a")) // 10,
        minor=int(arch[3:].rstrip("a")) % 10,
        shared=gpu.shared_memory_per_block_optin,
        room=512,
    )
    yield arch
    FAKE.set(major=8, minor=0, shared=96 << 10, room=64)


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("device", ["sm_80", "sm_90a"], indirect=True)
@pytest.mark.parametrize("name", MODELS)
def test_a_run_is_launches_alone(name: str, device: str, precision: str) -> None:
    mod = MODELS[name]()
    config: Any = {} if precision == "float32" else {"relay.build.precision": precision}
    with tvm.transform.PassContext(opt_level=3, config=config):
        built = relay.build(mod, f"cuda -arch={device}")
    plain = tvm.contrib.graph_executor.GraphModule(built["default"](DEV))
    for key, value in inputs(mod).items():
        plain.set_input(key, nd.array(value, DEV))
    plain.run()
    FAKE.calls()
    plain.run()
    calls = [call.split()[0] for call in FAKE.calls()]
    launches = calls.count("cuLaunchKernel") + calls.count("cuLaunchCooperativeKernel")
    assert launches > 10 and set(calls) - BESIDE <= {"cuLaunchKernel", "cuLaunchCooperativeKernel"}, set(calls)
    module = cuda_graph_executor.GraphModuleCudaGraph(built["default"](DEV))
    for key, value in inputs(mod).items():
        module.set_input_zero_copy(key, nd.array(value, DEV))
    module.run()
    FAKE.calls()
    module.run()
    assert FAKE.calls("cuGraphLaunch", "cuLaunchKernel", "cuStreamSynchronize") == ["cuGraphLaunch"]
