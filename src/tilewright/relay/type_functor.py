"""Functions of types by cases: functors, visitors and mutators."""

from __future__ import annotations

from typing import ClassVar, Generic
from typing import TypeVar as Parameter

from tilewright.ir import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from tilewright.relay.adt import Constructor, TypeData
from tilewright.support.errors import TVMError

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]

R = Parameter("R")


class TypeFunctor(Generic[R]):
    """Define visit_tensor_type, visit_func_type and the like, with results of type R; `visit` picks the one for a type."""

    _methods: ClassVar[dict[type, str]] = {
        TypeVar: "visit_type_var",
        IncompleteType: "visit_incomplete_type",
        TensorType: "visit_tensor_type",
        FuncType: "visit_func_type",
        TupleType: "visit_tuple_type",
        TypeRelation: "visit_type_relation",
        RefType: "visit_ref_type",
        GlobalTypeVar: "visit_global_type_var",
        TypeCall: "visit_type_call",
        TypeData: "visit_type_data",
    }

    def visit(self, typ: Type) -> R:
        """The result for a type. Raises TVMError for a kind that this functor defines no method for."""
        name = self._methods.get(type(typ))
        if name is None:
            raise TypeError(f"{type(self).__name__}.visit takes a type of relay, but was given {typ!r}")
        method = getattr(self, name, None)
        if method is None:
            raise TVMError(f"{type(self).__name__} meets a {type(typ).__name__}, but defines no {name}")
        result: R = method(typ)
        return result


class TypeVisitor(TypeFunctor[None]):
    """Visits every type under a type."""

    def visit_type_var(self, tv: TypeVar) -> None:
        pass

    def visit_incomplete_type(self, it: IncompleteType) -> None:
        pass

    def visit_tensor_type(self, tt: TensorType) -> None:
        pass

    def visit_func_type(self, ft: FuncType) -> None:
        for t in (*ft.arg_types, ft.ret_type, *ft.type_params, *ft.type_constraints):
            self.visit(t)

    def visit_tuple_type(self, tt: TupleType) -> None:
        for t in tt.fields:
            self.visit(t)

    def visit_type_relation(self, tr: TypeRelation) -> None:
        for t in tr.args:
            self.visit(t)

    def visit_ref_type(self, rt: RefType) -> None:
        self.visit(rt.value)

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> None:
        pass

    def visit_type_call(self, tc: TypeCall) -> None:
        self.visit(tc.func)
        for t in tc.args:
            self.visit(t)

    def visit_type_data(self, td: TypeData) -> None:
        self.visit(td.header)
        for v in td.type_vars:
            self.visit(v)
        for c in td.constructors:
            for t in c.inputs:
                self.visit(t)


class TypeMutator(TypeFunctor[Type]):
    """Rewrites a type; what does not change comes back as the same object."""

    def _all(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        new = tuple([self.visit(t) for t in types])
        return new if any([a is not b for a, b in zip(new, types, strict=True)]) else types

    def visit_type_var(self, tv: TypeVar) -> Type:
        return tv

    def visit_incomplete_type(self, it: IncompleteType) -> Type:
        return it

    def visit_tensor_type(self, tt: TensorType) -> Type:
        return tt

    def visit_func_type(self, ft: FuncType) -> Type:
        return ft.replace(
            arg_types=self._all(ft.arg_types),
            ret_type=self.visit(ft.ret_type),
            type_params=self._all(ft.type_params),
            type_constraints=self._all(ft.type_constraints),
        )

    def visit_tuple_type(self, tt: TupleType) -> Type:
        return tt.replace(fields=self._all(tt.fields))

    def visit_type_relation(self, tr: TypeRelation) -> Type:
        return tr.replace(args=self._all(tr.args))

    def visit_ref_type(self, rt: RefType) -> Type:
        return rt.replace(value=self.visit(rt.value))

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> Type:
        return gtv

    def visit_type_call(self, tc: TypeCall) -> Type:
        return tc.replace(func=self.visit(tc.func), args=self._all(tc.args))

    def visit_type_data(self, td: TypeData) -> Type:
        constructors = tuple(
            [
                c if (inputs := self._all(c.inputs)) is c.inputs else Constructor(c.name_hint, inputs, c.belong_to)
                for c in td.constructors
            ]
        )
        same = all([a is b for a, b in zip(constructors, td.constructors, strict=True)])
        return td.replace(
            header=self.visit(td.header),
            type_vars=self._all(td.type_vars),
            constructors=td.constructors if same else constructors,
        )
