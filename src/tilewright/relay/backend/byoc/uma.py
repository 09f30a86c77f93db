"""Accelerators as classes (classic `relay.backend.contrib.uma`): what they compute, the passes for it, and the C that calls them.

    class Doubler(UMABackend):
        def __init__(self):
            super().__init__()
            self._register_pattern("double", is_op("add")(wildcard(), wildcard()))
            self._register_tir_pass(PassPhase.TIR_PHASE_0, CallsOfTheDriver())
            self._register_codegen(fmt="c", includes=lambda: '#include "doubler.h"')

        @property
        def target_name(self):
            return "doubler"

`register()` makes the name a target and a code generator; `partition(mod, params)` moves what the patterns match into functions for it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from tilewright import runtime
from tilewright.codegen.backend import back_end_of
from tilewright.driver.pipeline import host_pipeline, lower_for
from tilewright.ir import GlobalVar, IRModule
from tilewright.ir.transform import Pass, PassContext, Sequential
from tilewright.relay.backend.te_compiler import lower_to_primfunc
from tilewright.relay.expr import Function
from tilewright.relay.op import strategy as strategies
from tilewright.relay.op.contrib.register import register_pattern_table
from tilewright.relay.parameters import bind
from tilewright.relay.transform import (
    AnnotateTarget,
    InferType,
    InlineComposites,
    MergeCompilerRegions,
    MergeComposite,
    PartitionGraph,
)
from tilewright.runtime.source_module import c_source_module
from tilewright.support.errors import TVMError
from tilewright.target import Target, register_kind
from tilewright.target.kinds import kind_named
from tilewright.tir.expr import Call, StringImm
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt_functor import post_order_visit


class PassPhase(Enum):
    """When a pass runs: around the partitioning, or as one of the four phases of lowering ("tir.add_lower_pass")."""

    PRE_PARTITIONING = 1
    POST_PARTITIONING_0 = 2
    POST_PARTITIONING_1 = 3
    TIR_PHASE_0 = 4
    TIR_PHASE_1 = 5
    TIR_PHASE_2 = 6
    TIR_PHASE_3 = 7


RELAY_PHASES = (PassPhase.PRE_PARTITIONING, PassPhase.POST_PARTITIONING_0, PassPhase.POST_PARTITIONING_1)
"""The others are phases of lowering."""


def uma_available() -> bool:
    """True: it is part of the package."""
    return True


class UMABackend(ABC):
    """An accelerator. Subclasses give its name, and register patterns, passes and code in `__init__`.

    merge_compiler_regions: neighbouring matches go into one function.
    """

    def __init__(self, merge_compiler_regions: bool = True) -> None:
        self._merge_compiler_regions = merge_compiler_regions
        self._target_attrs: dict[str, str | int | bool] = {}
        self._relay_passes: list[tuple[PassPhase, Pass]] = []
        self._patterns: list[tuple[Any, ...]] = []
        self._strategies: list[tuple[str, Any, int]] = []
        self._tir_passes: list[tuple[PassPhase, Any]] = []
        self._includes: Callable[[], str] | None = None

    @property
    @abstractmethod
    def target_name(self) -> str:
        """The name of its target and of its code generator."""

    def _register_target_attr(self, name: str, default: str | int | bool = "") -> None:
        """An option of the target, of the type of its default, which targets without it have."""
        self._target_attrs[name] = default

    def _register_relay_pass(self, phase: PassPhase, relay_pass: Pass) -> None:
        """A pass over the model before or after its partitioning."""
        if phase not in RELAY_PHASES:
            raise ValueError(
                f"{phase} is a phase of lowering; a relay pass is for one of {', '.join(p.name for p in RELAY_PHASES)}"
            )
        self._relay_passes.append((phase, relay_pass))

    def _register_pattern(self, name: str, pattern: Any, predicate: Callable[[Any], bool] | None = None) -> None:
        """What the accelerator computes; `predicate(match)` may refuse a match."""
        self._patterns.append((f"{self.target_name}.{name}", pattern, *([predicate] if predicate is not None else [])))

    def _register_operator_strategy(self, op: str, strategy: Any, plevel: int = 11) -> None:
        """How an operator is computed in functions of the accelerator."""
        self._strategies.append((op, strategy, plevel))

    def _register_tir_pass(self, phase: PassPhase, tir_pass: Any) -> None:
        """A pass over the programs of the accelerator's functions while they are lowered."""
        if phase in RELAY_PHASES:
            raise ValueError(
                f"{phase} is a phase of the model's partitioning; a tir pass is for one of TIR_PHASE_0 to TIR_PHASE_3"
            )
        self._tir_passes.append((phase, tir_pass))

    def _register_codegen(self, fmt: str = "c", includes: Callable[[], str] | None = None) -> None:
        """The language of the code, which is C, and a function that gives the text before it: the headers of its functions."""
        if fmt != "c":
            raise TVMError(f"the code of {self.target_name} can be C (fmt='c'), but not {fmt!r}")
        self._includes = includes

    def register(self) -> None:
        """Makes `target_name` a kind of target, with a pattern table and a code generator. Raises TVMError if it has been registered."""
        if kind_named(self.target_name) is not None:
            raise TVMError(f"there is a target kind {self.target_name!r} already")
        options = {name: type(value) for name, value in self._target_attrs.items()}
        register_kind(self.target_name, options, defaults=self._target_attrs, external=True)
        register_pattern_table(self.target_name, lambda: list(self._patterns))
        for op, strategy, level in self._strategies:
            name = f"{op.rpartition('.')[2]}_strategy"
            getattr(strategies, name).register(strategy, self.target_name, level >= 10)
        runtime.register_func(f"relay.ext.{self.target_name}", self._compiled)

    def partition(self, mod: IRModule, params: Any = None) -> IRModule:
        """The model with the accelerator's parts as functions of their own. params: weights by name, which become constants."""
        if params:
            mod = mod.with_functions({**mod.functions, mod.get_global_var("main"): bind(mod["main"], params)})
        passes = [
            *self._passes(PassPhase.PRE_PARTITIONING),
            InferType(),
            MergeComposite(list(self._patterns)),
            AnnotateTarget([self.target_name]),
            *([MergeCompilerRegions()] if self._merge_compiler_regions else []),
            InferType(),
            PartitionGraph(bind_constants=False),
            *self._passes(PassPhase.POST_PARTITIONING_0),
            InferType(),
            *self._passes(PassPhase.POST_PARTITIONING_1),
        ]
        with PassContext(opt_level=3):
            made: IRModule = Sequential(passes)(mod)
        return made

    def _passes(self, phase: PassPhase) -> Sequence[Pass]:
        return [p for wanted, p in self._relay_passes if wanted is phase]

    def _compiled(self, function: Function) -> runtime.Module:
        """The code of one of the accelerator's functions."""
        symbol = str(function.attrs["global_symbol"])
        bare = Function(function.params, function.body, None, ())
        mod = InlineComposites(self.target_name)(InferType()(IRModule.from_expr(bare)))
        program = lower_to_primfunc(mod["main"], Target("c")).without_attr("target").with_attr("global_symbol", symbol)
        later = [(phase.value - PassPhase.TIR_PHASE_0.value, p) for phase, p in self._tir_passes]
        target = Target("c")
        current = PassContext.current()
        config = {**current.config, "tir.add_lower_pass": [*current.config.get("tir.add_lower_pass", ()), *later]}
        with PassContext(opt_level=current.opt_level, config=config):
            lowered = lower_for(IRModule({GlobalVar(symbol): program}), target)
        text = back_end_of(target).emit(host_pipeline(target)(lowered), target).text
        if self._includes is not None:
            text = f"{self._includes()}\n{_without_declarations(text, _external_names(lowered))}"
        return c_source_module(text, "c", [symbol])


def _external_names(mod: IRModule) -> set[str]:
    """The functions of C that programs call."""
    found: set[str] = set()

    def note(node: Any) -> None:
        if isinstance(node, Call) and getattr(node.op, "name", "").startswith("tir.call_") and node.args:
            name = node.args[0]
            if isinstance(name, StringImm):
                found.add(name.value)

    for function in mod.functions.values():
        if isinstance(function, PrimFunc):
            post_order_visit(function.body, note)
    return found


def _without_declarations(text: str, names: set[str]) -> str:
    """C without the declarations of functions that headers declare."""
    if not names:
        return text
    one = "|".join(map(re.escape, sorted(names)))
    return re.sub(rf"^extern [^;\n]*\b(?:{one})\([^;\n]*\);\n", "", text, flags=re.MULTILINE)
