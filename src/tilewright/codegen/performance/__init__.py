"""What kernels for GPUs use and cost, computed from their lowered programs without a device: `kernel_report` analyses a kernel, `limits`
refuses what no block can run."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
