"""What tests of tensor programs use: comparisons, parameters and cached fixtures, targets, marks, tests of passes.

A test suite that uses parameters or targets loads the plugin in its conftest.py:

    pytest_plugins = ["tilewright.testing.plugin"]
"""

from tilewright.testing.features import (
    Feature,
    device_enabled,
    enabled_targets,
    requires_32bit,
    requires_aarch64,
    requires_arm,
    requires_cross,
    requires_cuda,
    requires_gpu,
    requires_llvm,
    requires_metal,
    requires_nvptx,
    requires_opencl,
    requires_package,
    requires_rocm,
    requires_vulkan,
    requires_x86,
    slow,
    uses_gpu,
)
from tilewright.testing.numeric import (
    assert_allclose,
    assert_prim_expr_equal,
    check_bool_expr_is_true,
    check_numerical_grads,
    get_dtype_range,
)
from tilewright.testing.parameters import (
    exclude_targets,
    fixture,
    known_failing_targets,
    parameter,
    parameters,
    parametrize_targets,
    skip_parameterizations,
    xfail_parameterizations,
)
from tilewright.testing.passes import CompareBeforeAfter
from tilewright.testing.run import main

__all__ = [name for name in dir() if not name.startswith("_")]
