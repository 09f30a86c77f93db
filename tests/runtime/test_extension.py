"""Python classes for objects of plug-ins; values that are passed by their address."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright.contrib import cc
from tilewright.runtime import libinfo

PLUGIN = """
#include <tvm/runtime/object.h>
#include <tvm/runtime/registry.h>
using namespace tvm::runtime;
class PairNode : public Object {
 public:
  int x, y;
  PairNode(int x, int y) : x(x), y(y) {}
  static constexpr const char* _type_key = "test_extension.Pair";
  TVM_DECLARE_FINAL_OBJECT_INFO(PairNode, Object)
};
TVM_REGISTER_OBJECT_TYPE(PairNode);
TVM_REGISTER_GLOBAL("test_extension.pair").set_body_typed([](int x, int y) { return ObjectRef(make_object<PairNode>(x, y)); });
TVM_REGISTER_GLOBAL("test_extension.sum").set_body_typed([](ObjectRef p) { return p.as<PairNode>()->x + p.as<PairNode>()->y; });
TVM_REGISTER_GLOBAL("test_extension.address").set_body([](TVMArgs args, TVMRetValue* rv) {
  *rv = reinterpret_cast<int64_t>(args[0].operator void*());
});
"""


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("plugin")
    (folder / "plugin.cc").write_text(PLUGIN)
    cc.create_shared(str(folder / "plugin.so"), str(folder / "plugin.cc"), ["-std=c++17", *libinfo.compile_options()])
    return ctypes.CDLL(str(folder / "plugin.so"))


def test_a_class_for_objects_of_a_plugin() -> None:
    @tvm.register_object("test_extension.Pair")
    class Pair(tvm.Object):
        def __init__(self) -> None:
            raise AssertionError("objects come from functions")

        @property
        def sum(self) -> Any:
            return tvm.get_global_func("test_extension.sum")(self)

    made = tvm.get_global_func("test_extension.pair")(3, 4)
    assert isinstance(made, Pair) and made.sum == 7


def test_types_that_no_library_has() -> None:
    class Unknown(tvm.Object):
        pass

    with pytest.raises(TypeError, match="no object type has the key `Unknown`"):
        tvm.register_object(Unknown)
    with pytest.raises(TypeError, match="register_object is for subclasses of tvm.Object, but int is none"):
        tvm.register_object("test_extension.Pair")(int)


def test_values_passed_by_their_address() -> None:
    class View:
        _tvm_tcode = 7

        def __init__(self, array: Any) -> None:
            self.array = array

        @property
        def _tvm_handle(self) -> int:
            return self.array._tvm_handle  # type: ignore[no-any-return]

    class Handle:
        _tvm_tcode = 3
        _tvm_handle = 4096

    assert tvm.register_extension(View) is View
    tvm.register_extension(Handle)
    array = tvm.nd.array(np.float32([1, 2, 3]))
    assert isinstance(array, tvm.nd.NDArrayBase)
    seen: list[Any] = []
    tvm.runtime.convert(lambda x: seen.append(x.numpy()))(View(array))
    np.testing.assert_array_equal(seen[0], [1, 2, 3])
    assert tvm.get_global_func("test_extension.address")(Handle()) == 4096
    with pytest.raises(AttributeError, match="_tvm_tcode"):
        tvm.register_extension(int)
