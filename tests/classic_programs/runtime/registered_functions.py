import tvm
import tvm.arith._ffi_api
import tvm.relay._ffi_api
import tvm.relay.backend.contrib.uma.api.utils
import tvm.tir._ffi_api
from tvm.runtime import _ffi_api
from tvm.runtime._ffi_api import SystemLib

# Functions of the registry by the modules of their prefix.
assert _ffi_api.SystemLib().type_key and isinstance(SystemLib, tvm.runtime.PackedFunc)


@tvm.register_func("relay.classic_demo")
def demo(x):
    return x + 1


assert tvm.relay._ffi_api.classic_demo(3) == 4
assert tvm.ir._ffi_api.Range is tvm.ir.Range
try:
    missing = tvm.tir._ffi_api.no_such_function
except AttributeError as error:
    assert "tir.no_such_function" in str(error)
else:
    raise AssertionError("a function that nobody registered was found")


# A program's own functions as names of its module.
@tvm.register_func("classic_demo.api.twice")
def twice(x):
    return 2 * x


tvm._ffi._init_api("classic_demo.api", __name__)
assert twice(4) == 8 and isinstance(twice, tvm.runtime.PackedFunc)
assert tvm.relay.backend.contrib.uma.api.utils.PassPhase
