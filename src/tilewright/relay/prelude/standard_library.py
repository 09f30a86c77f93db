"""The prelude: lists, options and trees, and the functions on them, written in relay text (prelude.rly)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.ir import GlobalTypeVar, GlobalVar, IRModule
from tilewright.relay.adt import Constructor, TypeData
from tilewright.relay.parser.lexer import Source
from tilewright.relay.parser.parser import parse_module_text
from tilewright.relay.prelude.tensor_array import Shape, StaticTensorArrayOps, TensorArrayOps
from tilewright.relay.source_map import remember
from tilewright.tir import Any as AnyDim

STANDARD = Path(__file__).parent
TENSOR_ARRAYS = ("float32", "float16", "float64", "int32", "uint8", "int8", "int16", "uint16", "int64")
"""The dtypes whose tensor arrays classic TVM has in each prelude."""


@cache
def standard_module(name: str) -> IRModule:
    """A module of the standard library (`prelude.rly`), parsed once. Raises ValueError for an unknown name."""
    path = STANDARD / name
    if not path.is_file():
        known = sorted([p.name for p in STANDARD.glob("*.rly")])
        raise ValueError(f"the standard library has no file {name!r}; it has {', '.join(known)}")
    text = path.read_text(encoding="utf-8")
    remember(name, text)
    return parse_module_text(Source(name, text), None, None)


class Prelude:
    """Adds the prelude to a module, which is changed, and returns its names: `p.map`, `p.types["List"]`.

    Types and functions that the module has already under these names stay as they are."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod if mod is not None else IRModule()
        source = standard_module("prelude.rly")
        taken = {h.name_hint for h in self.mod.type_definitions}
        for header, data in source.type_definitions.items():
            if header.name_hint not in taken:
                self.mod[header] = data
        for gvar, f in source.functions.items():
            if gvar not in self.mod.functions:
                self.mod[gvar] = f

    # Names of types, constructors and functions that are there for each dtype, or for each dtype and shape.

    def get_name(self, canonical: str, dtype: str) -> str:
        """The name of `canonical` ("tensor_t", "tensor1", "tensor_array_read", ...) for a dtype."""
        return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"

    def get_name_static(
        self,
        canonical: str,
        dtype: str,
        shape: Shape,
        batch_dim: int | None = None,
        extra_shapes: Mapping[str, Shape] | None = None,
    ) -> str:
        """The same for tensors of a shape."""
        dims = "_".join(["any" if isinstance(d, AnyDim) else str(int(d)) for d in shape])
        for name, more in (extra_shapes or {}).items():
            dims += f"_{name}_" + "_".join(map(str, more))
        dims = dims or "scalar"
        if canonical == "tensor_t":
            return f"static_tensor_{dtype}_{dims}_t"
        if batch_dim is None or canonical in ("tensor_constructor", "tensor_nil"):
            return f"{canonical}_{dtype}_{dims}"
        return f"{canonical}_{dtype}_batch{batch_dim}_{dims}"

    def get_type(self, canonical: str, dtype: str | None = None) -> Any:
        """The name of a type, then its constructors; with a dtype the name of the type of tensors ("tensor_t") alone."""
        if dtype is None:
            of_tensors = re.fullmatch("tensor_([a-z]+[0-9]+)_t", canonical)
            if of_tensors is not None:
                TensorArrayOps(self, of_tensors[1]).register()
            return self.mod.get_type(canonical)
        TensorArrayOps(self, dtype).register()
        return self.mod.get_global_type_var(self.get_name(canonical, dtype))

    def get_type_static(self, canonical: str, dtype: str, shape: Shape) -> GlobalTypeVar:
        """The name of the type of tensors of a dtype and shape."""
        name = self.get_name_static(canonical, dtype, shape)
        if name not in {h.name_hint for h in self.mod.type_definitions}:
            StaticTensorArrayOps(self, dtype, shape).register()
        return self.mod.get_global_type_var(name)

    def get_global_var(self, canonical: str, dtype: str) -> GlobalVar:
        """A function on tensor arrays of a dtype; Raises ValueError when there is none."""
        TensorArrayOps(self, dtype).register()
        return self.mod.get_global_var(self.get_name(canonical, dtype))

    def get_global_var_static(
        self, canonical: str, dtype: str, shape: Shape, batch_dim: int | None = None
    ) -> GlobalVar:
        """A function on tensor arrays of a dtype and shape. Raises ValueError when there is none."""
        StaticTensorArrayOps(self, dtype, shape, batch_dim).register()
        return self.mod.get_global_var(self.get_name_static(canonical, dtype, shape, batch_dim))

    def get_ctor(self, ty_name: str, canonical: str, dtype: str | None = None) -> Constructor:
        """A constructor by the name of its type and its own, which with a dtype are those of tensor arrays ("tensor_t",
        "tensor1"). Raises ValueError when there is none."""
        if dtype is not None:
            return self.get_tensor_ctor(canonical, dtype)
        return _one_of(ty_name, self.get_type(ty_name)[1:], canonical)

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """A constructor of the tensors of a dtype: "tensor_nil", or "tensor0" to "tensor6"."""
        TensorArrayOps(self, dtype).register()
        name = self.get_name("tensor_t", dtype)
        return _one_of(name, self.mod.get_type(name)[1:], self.get_name(canonical, dtype))

    def get_ctor_static(self, ty_name: str, name: str, dtype: str, shape: Shape) -> Constructor:
        """A constructor of the tensors of a dtype and shape: "tensor_constructor" or "tensor_nil"."""
        self.get_type_static(ty_name, dtype, shape)
        full = self.get_name_static(ty_name, dtype, shape)
        return _one_of(full, self.mod.get_type(full)[1:], self.get_name_static(name, dtype, shape))

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Shape) -> Constructor:
        """The same, of "tensor_t"."""
        return self.get_ctor_static("tensor_t", name, dtype, shape)

    def load_prelude(self) -> None:
        """Defines the tensor arrays of all dtypes in the module, which are there when they are asked for otherwise; the rest of the
        prelude is there from the start."""
        for dtype in TENSOR_ARRAYS:
            TensorArrayOps(self, dtype).register()

    @property
    def types(self) -> dict[str, TypeData]:
        """The definitions of the prelude's types by name."""
        return {h.name_hint: data for h, data in self.mod.type_definitions.items()}

    def __getattr__(self, name: str) -> GlobalVar:
        if name.startswith("__") or name == "mod":
            raise AttributeError(name)
        try:
            return self.mod.get_global_var(name)
        except ValueError:
            raise AttributeError(f"the prelude has no function {name!r}") from None


def _one_of(type_name: str, constructors: tuple[Constructor, ...], name: str) -> Constructor:
    for c in constructors:
        if c.name_hint == name:
            return c
    known = ", ".join([c.name_hint for c in constructors])
    raise ValueError(f"{type_name} has no constructor {name!r}; it has {known}")


def import_from_std(mod: IRModule, name: str) -> None:
    """Add a module of the standard library to `mod`."""
    mod.update(standard_module(name))


def import_file(mod: IRModule, path: str) -> None:
    """Add the module in a file of relay text to `mod`. Raises OSError where there is no such file."""
    text = Path(path).read_text(encoding="utf-8")
    remember(path, text)
    mod.update(parse_module_text(Source(path, text), mod, None))
