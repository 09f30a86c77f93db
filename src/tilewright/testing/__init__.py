"""Tools for tests of tensor programs: comparisons, parameters and cached fixtures, targets, marks, tests of passes.

A test suite that uses parameters or targets loads the plugin in its conftest.py:

    pytest_plugins = ["tilewright.testing.plugin"]
"""

from tilewright.support.environment import strtobool
from tilewright.testing.features import (
    Feature,
    device_enabled,
    enabled_targets,
    requires_32bit,
    requires_aarch64,
    requires_aarch64_sme,
    requires_aarch64_sve,
    requires_aot_executor,
    requires_aprofile_aem_fvp,
    requires_arm,
    requires_arm_dot,
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
    skip_if_wheel_test,
    slow,
    strtobool_env,
    uses_gpu,
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
from tilewright.testing.run import main

__all__ = [name for name in dir() if not name.startswith("_")]
