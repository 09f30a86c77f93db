"""Types that are not all known yet: what is noted on expressions, holes and the rules that wait for them."""

from __future__ import annotations

from typing import Any

from tilewright.ir import GlobalVar, IncompleteType, IRModule, TensorType, Type
from tilewright.relay.expr import Expr, Var
from tilewright.relay.functor import post_order
from tilewright.relay.texts import type_text
from tilewright.relay.typing.findings import MAX_FINDINGS, Findings
from tilewright.relay.typing.kinds import check_kind
from tilewright.relay.typing.unify import Unifier
from tilewright.support.errors import TVMError


def type_of(expr: Expr) -> Type | None:
    """The type found so far, or None."""
    return getattr(expr, "_checked_type", None)


def set_type(expr: Expr, t: Type) -> Type:
    """Note the type of an expression (only inference, and passes that know it for certain, do so)."""
    object.__setattr__(expr, "_checked_type", t)
    return t


def forget_types(scope: Expr) -> None:
    """Drop what is known of a scope in which a variable got another type."""
    for e in post_order(scope):
        if type(e) is not GlobalVar and type(e) is not Var and type_of(e) is not None:
            object.__delattr__(e, "_checked_type")


class OpenTypes(Findings):
    """The types that are found so far. A hole stands for what only the uses of an expression say."""

    def __init__(self, mod: IRModule | None) -> None:
        super().__init__(mod)
        self.failed: set[Expr] = set()
        self.unifier = Unifier(self.wake)
        self.open: dict[Expr, Type] = {}
        """Types with holes in them, which are not noted on their expressions yet."""
        self.origins: dict[IncompleteType, tuple[Expr, str]] = {}
        """Why a hole is there: the expression and, for the finding that it was never solved, the text."""
        self.waiting: dict[IncompleteType, list[tuple[Expr, IncompleteType]]] = {}
        self.ready: list[tuple[Expr, IncompleteType]] = []

    def known(self, e: Expr) -> bool:
        """Whether there is nothing (more) to do for `e`."""
        return type_of(e) is not None or e in self.open or e in self.failed

    def found(self, e: Expr) -> Any:
        """The type of `e` as far as it is known; None when it was found wrong."""
        t = type_of(e)
        if t is None:
            t = self.open.get(e)
            if t is None:
                return self.global_var(e) if type(e) is GlobalVar else None
            t = self.unifier.resolve(t)
        return t

    def global_var(self, g: GlobalVar) -> Type | None:
        """The type of a function of the module."""
        raise NotImplementedError

    def retry(self, e: Expr) -> Type | None:
        """The type of an expression whose rule waited for a hole."""
        raise NotImplementedError

    def note(self, e: Expr, t: Type) -> Type:
        """The type of `e`, kept on it once nothing in it is open."""
        if type(t) is TensorType:
            return set_type(e, t)
        t = self.unifier.resolve(t)
        if self.origins and self.unifier.hole(t) is not None:
            self.open[e] = t
            return t
        return set_type(e, t)

    def hole(self, e: Expr, why: str = "") -> IncompleteType:
        new = IncompleteType()
        self.origins[new] = (e, why)
        return new

    def opened(self, t: Type | None, e: Expr, why: str = "") -> Type:
        """An annotation with a hole of its own for everything that it leaves open."""
        if t is None:
            return self.hole(e, why)
        if type(t) is not TensorType:
            self.need_kind(t, e)
        if type(t) is IncompleteType:
            # One annotation may stand in several places, all of the same type.
            self.origins.setdefault(t, (e, why))
            return t
        if type(t) is not TensorType:
            for h in self.unifier.holes(t):
                self.origins.setdefault(h, (e, why))
        return t

    def need_kind(self, t: Type, e: Expr) -> None:
        """Refuse an annotation that is not a type of values, such as an algebraic type without its arguments."""
        try:
            check_kind(t, self.mod)
        except TVMError as error:
            self.report(e, str(error))

    def wake(self, hole: IncompleteType) -> None:
        self.ready += self.waiting.pop(hole, ())

    def run_ready(self) -> None:
        """Give the rules that waited for a hole another try."""
        while self.ready:
            e, result = self.ready.pop()
            found = self.retry(e)
            if found is None:
                self.failed.add(e)
            elif found is not result and self.unifier.unify(result, found) is None:
                want = type_text(self.unifier.resolve(result))
                self.report(e, f"its uses need {want}, but this expression is {type_text(found)}")

    def wait(self, e: Expr, hole: IncompleteType) -> IncompleteType:
        """The open type of `e`, whose rule runs again when `hole` is solved."""
        known = self.open.get(e)
        result = known if type(known) is IncompleteType else self.hole(e)
        self.waiting.setdefault(hole, []).append((e, result))
        return result

    def finish(self) -> None:
        """Note the types that had been open; raise what was found."""
        self.run_ready()
        if not self.findings:
            for e, t in self.open.items():
                set_type(e, self.unifier.resolve(t))
            self.report_holes()
        if self.findings:
            for e in self.open:
                if type_of(e) is not None:
                    object.__delattr__(e, "_checked_type")
            raise self.error()

    def report_holes(self) -> None:
        unsolved = [h for h in self.origins if self.unifier.prune(h) is h]
        told: set[str] = set()
        for h in unsolved:
            e, why = self.origins[h]
            if why and why not in told and len(told) < MAX_FINDINGS - 1:
                told.add(why)
                self.report(e, why)
        if unsolved and not told:
            e = self.origins[unsolved[0]][0]
            self.report(e, "the type of this expression is not known; annotate the variable that it is bound to")

    def set_variable(self, v: Var, t: Type, scope: Expr | None) -> None:
        """The type of a bound variable; what was inferred in `scope` with another one is forgotten."""
        before = type_of(v)
        if before is not None and scope is not None and before is not t and before != t:
            forget_types(scope)
        if before is not None:
            object.__delattr__(v, "_checked_type")
        self.note(v, t)
