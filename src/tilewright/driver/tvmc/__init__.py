"""tvmc, the driver of classic TVM: models are loaded, compiled and run, in Python and on the command line (`tvmc`).

model = tvmc.load("resnet50.onnx")
package = tvmc.compile(model, target="llvm")
result = tvmc.run(package, device="cpu")
print(result)
"""

from tilewright.driver.tvmc.main import REGISTERED_PARSER  # isort: skip
from tilewright.driver.tvmc import autotuner, compiler, micro, project, result_utils, runner
from tilewright.driver.tvmc.autotuner import tune_model as tune
from tilewright.driver.tvmc.compiler import compile_model as compile
from tilewright.driver.tvmc.errors import TVMCException, TVMCImportError
from tilewright.driver.tvmc.frontends import load_model as load
from tilewright.driver.tvmc.model import TVMCModel, TVMCPackage, TVMCResult
from tilewright.driver.tvmc.runner import run_module as run

__all__ = [
    "REGISTERED_PARSER",
    "TVMCException",
    "TVMCImportError",
    "TVMCModel",
    "TVMCPackage",
    "TVMCResult",
    "autotuner",
    "compile",
    "compiler",
    "load",
    "micro",
    "project",
    "result_utils",
    "run",
    "runner",
    "tune",
]
