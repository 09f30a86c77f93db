"""Which functions of a module call which."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import GlobalVar, IRModule
from tilewright.relay.expr import Expr, Function
from tilewright.relay.functor import children, post_order
from tilewright.support.errors import TVMError


class CallGraph:
    """The global functions of a module and how often each names each. Functions are given by GlobalVar or name."""

    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._calls: dict[GlobalVar, dict[GlobalVar, int]] = {}
        for gvar, func in module.functions.items():
            found: dict[GlobalVar, int] = {}
            for e in post_order(func) if isinstance(func, Function) else ():
                for used in _named(e):
                    found[used] = found.get(used, 0) + 1
            self._calls[gvar] = found

    @property
    def module(self) -> IRModule:
        """The module that was asked about."""
        return self._module

    def _find(self, var: GlobalVar | str) -> GlobalVar:
        gvar = GlobalVar(var) if isinstance(var, str) else var
        if gvar not in self._calls:
            names = ", ".join([g.name_hint for g in self._calls])
            raise TVMError(f"the call graph has no function {gvar.name_hint!r}; it has {names}")
        return gvar

    def __contains__(self, var: GlobalVar | str) -> bool:
        return (GlobalVar(var) if isinstance(var, str) else var) in self._calls

    def __len__(self) -> int:
        return len(self._calls)

    def callees(self, var: GlobalVar | str) -> dict[GlobalVar, int]:
        """The functions that one names, and how often."""
        return dict(self._calls[self._find(var)])

    def global_call_count(self, var: GlobalVar | str) -> int:
        """How often a function names others."""
        return sum(self._calls[self._find(var)].values())

    def ref_count(self, var: GlobalVar | str) -> int:
        """How often a function is named; an entry of the module counts one more."""
        gvar = self._find(var)
        named = sum([calls.get(gvar, 0) for calls in self._calls.values()])
        return named + (1 if self._is_entry(gvar) else 0)

    def _is_entry(self, gvar: GlobalVar) -> bool:
        return not any([gvar in calls for caller, calls in self._calls.items() if caller is not gvar])

    def is_recursive(self, var: GlobalVar | str) -> bool:
        """Whether a function names itself."""
        gvar = self._find(var)
        return gvar in self._calls[gvar]

    def print_var(self, var: GlobalVar | str) -> str:
        """The functions that a function calls, as text."""
        gvar = self._find(var)
        lines = [f"call graph node: {gvar.name_hint}, referred to {self.ref_count(gvar)} times"]
        return "\n".join([*lines, *[f"  calls {g.name_hint}, {n} times" for g, n in self._calls[gvar].items()]])

    def __str__(self) -> str:
        return "\n".join([self.print_var(g) for g in self._calls])


def _named(e: Expr) -> list[GlobalVar]:
    """The global functions among the operands of an expression (a name used by two expressions counts twice)."""
    if isinstance(e, GlobalVar):
        return []
    return [c for c in children(e) if isinstance(c, GlobalVar)]


def called_functions(mod: IRModule, roots: Sequence[str] = ("main",)) -> list[GlobalVar]:
    """The functions that can be reached from `roots`, in the order in which they are found."""
    pending: list[Expr] = [mod.get_global_var(r) for r in roots]
    found: dict[GlobalVar, None] = {}
    while pending:
        g = pending.pop(0)
        if g in found or g not in mod.functions or not isinstance(g, GlobalVar):
            continue
        found[g] = None
        f = mod.functions[g]
        if isinstance(f, Function):
            pending += [e for e in post_order(f) if isinstance(e, GlobalVar)]
    return list(found)
