import importlib

import tvm

WITHOUT = ["tvm.relax", "tvm.contrib.ethosu.cascader", "tvm.relay.op.contrib.tensorrt", "tvm.topi.hexagon"]
for name in WITHOUT:
    try:
        importlib.import_module(name)
    except ImportError as error:
        assert "there is no" in str(error) and len(str(error)) > 60, error
    else:
        raise AssertionError(name)
try:
    from tvm.relay.op.contrib import ethosn
except ImportError as error:
    assert "hardware" in str(error), error
else:
    raise AssertionError(ethosn)
try:
    importlib.import_module("tvm.contrib.no_such_module")
except ModuleNotFoundError as error:
    assert error.name == "tvm.contrib.no_such_module"
assert tvm.relay.op.contrib.dnnl.pattern_table()
