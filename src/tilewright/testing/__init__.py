"""Tools for tests of tensor programs: comparisons, parameters and cached fixtures, targets, marks, tests of passes.

A test suite that uses parameters or targets loads the plugin in its conftest.py:

    pytest_plugins = ["tilewright.testing.plugin"]
"""

from tilewright.support import lazy
from tilewright.support.environment import strtobool
from tilewright.testing.features import (
    DEFAULT_TEST_TARGETS,
    IS_IN_CI,
    SKIP_SLOW_TESTS,
    Feature,
    device_enabled,
    enabled_targets,
    is_ampere_or_newer,
    requires_32bit,
    requires_aarch64,
    requires_aarch64_sme,
    requires_aarch64_sve,
    requires_aot_executor,
    requires_aprofile_aem_fvp,
    requires_arm,
    requires_arm_dot,
    requires_arm_fp16,
    requires_cmsisnn,
    requires_corstone300,
    requires_cross,
    requires_cublas,
    requires_cuda,
    requires_cuda_compute_version,
    requires_cudagraph,
    requires_cudnn,
    requires_cutlass,
    requires_ethosn,
    requires_ethosu,
    requires_gpu,
    requires_hexagon,
    requires_hipblas,
    requires_libtorch,
    requires_llvm,
    requires_llvm_minimum_version,
    requires_matrixcore,
    requires_metal,
    requires_micro,
    requires_mrvl,
    requires_multi_gpu,
    requires_nccl,
    requires_nnapi,
    requires_nvcc_version,
    requires_nvptx,
    requires_opencl,
    requires_openclml,
    requires_package,
    requires_rocm,
    requires_rpc,
    requires_tensorcore,
    requires_tflite_runtime,
    requires_vitis_ai,
    requires_vta,
    requires_vulkan,
    requires_x86,
    requires_x86_amx,
    requires_x86_avx512,
    requires_x86_vnni,
    skip_if_32bit,
    skip_if_no_reference_system,
    skip_if_wheel_test,
    slow,
    strtobool_env,
    uses_gpu,
    uses_multi_gpu,
)
from tilewright.testing.functions import echo, identity_after, identity_cpp, nop, terminate_self
from tilewright.testing.numeric import (
    assert_allclose,
    assert_prim_expr_equal,
    check_bool_expr_is_true,
    check_int_constraints_trans_consistency,
    check_numerical_grads,
    get_dtype_range,
)
from tilewright.testing.parameters import (
    exclude_targets,
    fixture,
    known_failing_targets,
    parameter,
    parameters,
    parametrize,
    parametrize_targets,
    skip_parameterizations,
    xfail_parameterizations,
)
from tilewright.testing.passes import CompareBeforeAfter
from tilewright.testing.popen_pool import (
    after_initializer,
    call_cpp_ffi,
    call_cpp_py_ffi,
    call_py_ffi,
    fast_summation,
    initializer,
    register_ffi,
    slow_summation,
    timeout_job,
)
from tilewright.testing.run import main

# These need the compiler's drivers, or importers.
lazy.declare_modules(__name__)
_OF_MODELS = ("disable_span_filling", "enable_span_filling", "fetch_model_from_url", "install_request_hook")
lazy.declare(
    __name__,
    {name: f"tilewright.testing.runner:{name}" for name in ("local_run", "rpc_run")}
    | {name: f"tilewright.testing.models:{name}" for name in _OF_MODELS},
)

__all__ = [name for name in dir() if not name.startswith("_")]

lazy.faces(__name__, {"utils": [*__all__, *_OF_MODELS]})
__getattr__, __dir__ = lazy.late(__name__)
