"""The parameters of kernels, as records of meta_schedule hold them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.tir import PrimFunc
from tilewright.tuning.inputs import signature_of


class ArgInfo(ABC):
    """A parameter of a kernel."""

    @abstractmethod
    def as_json(self) -> list[Any]:
        """The parameter as a record holds it."""

    @staticmethod
    def from_json(json_obj: Any) -> ArgInfo:
        """The parameter that `as_json` wrote. Raises TVMError for anything else."""
        match json_obj:
            case ["TENSOR", str(dtype), [*shape]] if all([isinstance(n, int) for n in shape]):
                return TensorInfo(dtype, shape)
        raise TVMError(f'a parameter of a kernel is ["TENSOR", dtype, shape], but {json_obj!r} was given')

    @staticmethod
    def from_prim_func(func: PrimFunc) -> list[ArgInfo]:
        """The parameters of a function. Raises TVMError for those that are no buffers of static shapes."""
        signature = signature_of(IRModule.from_expr(func))
        return [TensorInfo(argument.dtype, argument.shape) for argument in signature.arguments]

    @staticmethod
    def from_entry_func(mod: IRModule, remove_preproc: bool = True) -> list[ArgInfo]:
        """The parameters of the function that is tuned: the only one, or that named "main". remove_preproc: no effect:
        libraries that are measured take weights in new layouts as arrays of the first shape (`tuning.weight_layouts`). Raises TVMError
        where there is no such function."""
        functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        func = next(iter(functions.values())) if len(functions) == 1 else functions.get("main")
        if func is None:
            raise TVMError(f'a tuned module has a single PrimFunc, or one named "main", but has {sorted(functions)}')
        return ArgInfo.from_prim_func(func)


class TensorInfo(ArgInfo):
    """A buffer of static shape."""

    def __init__(self, dtype: Any, shape: Sequence[int]) -> None:
        self.dtype, self.shape = str(dtype), tuple([int(n) for n in shape])

    def as_json(self) -> list[Any]:
        return ["TENSOR", self.dtype, list(self.shape)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorInfo) and (self.dtype, self.shape) == (other.dtype, other.shape)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    def __repr__(self) -> str:
        return f'TensorInfo("{self.dtype}", {list(self.shape)})'
