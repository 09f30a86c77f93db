import tvm


@tvm.register_func("classic_programs.add_up")
def add_up(*args):
    return sum(args)


f = tvm.get_global_func("classic_programs.add_up")
assert isinstance(f, tvm.runtime.PackedFunc)
assert f(1, 2, 3) == 6 and f(1.5, 2) == 3.5
assert tvm.get_global_func("classic_programs.no_such", allow_missing=True) is None
try:
    tvm.get_global_func("classic_programs.no_such")
except ValueError as error:
    assert "classic_programs.no_such" in str(error)
else:
    raise AssertionError
assert "classic_programs.add_up" in tvm._ffi.registry.list_global_func_names()
g = tvm.runtime.convert(lambda x, cb: cb(x) * 2)
assert g(5, lambda v: v + 1) == 12
try:
    tvm.register_func("classic_programs.add_up", lambda: 0)
except ValueError:
    pass
else:
    raise AssertionError("registered twice")
tvm.register_func("classic_programs.add_up", lambda *a: 7, override=True)
assert tvm.get_global_func("classic_programs.add_up")() == 7


def fails():
    raise KeyError("inside")


tvm.register_func("classic_programs.fails", fails)
try:
    tvm.get_global_func("classic_programs.fails")()
except Exception as error:
    assert "inside" in str(error)
else:
    raise AssertionError
tvm._ffi.registry.remove_global_func("classic_programs.fails")
assert tvm.get_global_func("classic_programs.fails", allow_missing=True) is None
