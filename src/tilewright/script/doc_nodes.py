"""Python text as nodes under their classic names (`tvm.script.printer.doc`), and `to_python_script`, which prints them.

`to_python_script(CallDoc(IdDoc("f"), LiteralDoc(1)))` gives "f(1)". Operands are put in parentheses where Python's precedence needs them.
`source_paths` of a node are the paths (ObjectPath) of what it prints; those that are to be underlined are named by their paths.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from tilewright.node import ObjectPath
from tilewright.script import doc as D
from tilewright.script.underline import numbered, underline_all

Parts = list[str | D.Expr]


class OperationKind(enum.IntEnum):
    """The operators of an OperationDoc, in groups by the number of their operands."""

    _UnaryStart, USub, Invert, Not, _UnaryEnd = range(5)
    _BinaryStart, Add, Sub, Mult, Div, FloorDiv, Mod, Pow, LShift, RShift, BitAnd, BitOr, BitXor = range(5, 18)
    Lt, LtE, Eq, NotEq, Gt, GtE, And, Or, _BinaryEnd = range(18, 27)
    _SpecialStart, IfThenElse, _SpecialEnd = range(27, 30)


_K = OperationKind
_UNARY = {_K.USub: ("-", D.UNARY), _K.Invert: ("~", D.UNARY), _K.Not: ("not ", D.NOT)}
_BINARY = {
    _K.Add: ("+", D.SUM), _K.Sub: ("-", D.SUM), _K.Mult: ("*", D.PRODUCT), _K.Div: ("/", D.PRODUCT), _K.FloorDiv: ("//", D.PRODUCT),
    _K.Mod: ("%", D.PRODUCT), _K.LShift: ("<<", D.SHIFT), _K.RShift: (">>", D.SHIFT), _K.BitAnd: ("&", D.BITAND),
    _K.BitOr: ("|", D.BITOR), _K.BitXor: ("^", D.BITXOR), _K.Lt: ("<", D.COMPARE), _K.LtE: ("<=", D.COMPARE),
    _K.Eq: ("==", D.COMPARE), _K.NotEq: ("!=", D.COMPARE), _K.Gt: (">", D.COMPARE), _K.GtE: (">=", D.COMPARE),
    _K.And: ("and", D.AND), _K.Or: ("or", D.OR),
}  # fmt: skip


@dataclass(eq=False)
class Doc:
    """A piece of Python text."""

    source_paths: list[ObjectPath] = field(default_factory=list, init=False)


@dataclass(eq=False)
class ExprDoc(Doc):
    """An expression."""

    def document(self) -> D.Expr:
        """What prints it."""
        found = self._document()
        return found.of(self) if self.source_paths else found

    def _document(self) -> D.Expr:
        raise NotImplementedError(f"{type(self).__name__} is a base of kinds of expressions, such as IdDoc")

    def attr(self, name: str) -> AttrAccessDoc:
        """`self.name`."""
        return AttrAccessDoc(self, name)

    def call(self, *args: ExprDoc, **kwargs: ExprDoc) -> CallDoc:
        """`self(args)`."""
        return CallDoc(self, *args, **kwargs)

    def __getitem__(self, indices: Any) -> IndexDoc:
        listed = indices if isinstance(indices, tuple) else (indices,)
        return IndexDoc(self, [SliceDoc(i.start, i.stop, i.step) if isinstance(i, slice) else i for i in listed])

    __iter__ = None


@dataclass(eq=False)
class LiteralDoc(ExprDoc):
    """A number, a string, a bool or None."""

    value: str | float | bool | None
    path: InitVar[ObjectPath | None] = None

    def __post_init__(self, path: ObjectPath | None) -> None:
        if self.value is not None and not isinstance(self.value, (str, int, float)):
            raise TypeError(
                f"LiteralDoc holds a string, a number, a bool or None, but was given {type(self.value).__name__}"
            )
        self.source_paths += [] if path is None else [path]

    def _document(self) -> D.Expr:
        return D.literal(self.value)


@dataclass(eq=False)
class IdDoc(ExprDoc):
    """A name."""

    name: str

    def _document(self) -> D.Expr:
        return D.text(self.name)


@dataclass(eq=False)
class AttrAccessDoc(ExprDoc):
    """`value.name`."""

    value: ExprDoc
    name: str

    def _document(self) -> D.Expr:
        return self.value.document().attr(self.name)


@dataclass(eq=False)
class IndexDoc(ExprDoc):
    """`value[indices]`."""

    value: ExprDoc
    indices: Sequence[ExprDoc | SliceDoc]

    def _document(self) -> D.Expr:
        return self.value.document().index([i.document() for i in self.indices])


class CallDoc(ExprDoc):
    """`callee(args, key=value)`."""

    def __init__(self, callee: ExprDoc, *args: ExprDoc, **kwargs: ExprDoc) -> None:
        super().__init__()
        self.callee, self.args = callee, list(args)
        self.kwargs_keys, self.kwargs_values = list(kwargs), list(kwargs.values())

    def _document(self) -> D.Expr:
        named = zip(self.kwargs_keys, self.kwargs_values, strict=True)
        return self.callee.document().call(*_documents(self.args), **{k: v.document() for k, v in named})


@dataclass(eq=False)
class OperationDoc(ExprDoc):
    """An operator applied to its operands; OperationKind.IfThenElse takes the condition first."""

    kind: OperationKind
    operands: Sequence[ExprDoc]

    def __post_init__(self) -> None:
        self.kind = OperationKind(self.kind)
        count = 1 if self.kind in _UNARY else 3 if self.kind == _K.IfThenElse else 2
        if len(self.operands) != count:
            raise ValueError(
                f"OperationDoc: {self.kind.name} takes {count} operands, but was given {len(self.operands)}"
            )

    def _document(self) -> D.Expr:
        operands = _documents(self.operands)
        if self.kind in _UNARY:
            return D.unary(*_UNARY[self.kind], operands[0])
        if self.kind in _BINARY:
            return D.binary(*_BINARY[self.kind], *operands)
        if self.kind == _K.Pow:
            return D.Expr((operands[0].at(D.ATOM), " ** ", operands[1].at(D.UNARY)), D.POWER)
        if self.kind == _K.IfThenElse:
            condition, then, otherwise = operands
            inner = D.TERNARY + 1
            return D.Expr((then.at(inner), " if ", condition.at(inner), " else ", otherwise.at(D.TERNARY)), D.TERNARY)
        raise ValueError(f"OperationDoc: {self.kind.name} is no operator")


@dataclass(eq=False)
class LambdaDoc(ExprDoc):
    """`lambda args: body`."""

    args: Sequence[IdDoc]
    body: ExprDoc

    def _document(self) -> D.Expr:
        return D.lambda_([a.name for a in self.args], self.body.document())


@dataclass(eq=False)
class TupleDoc(ExprDoc):
    """`(a, b)`."""

    elements: Sequence[ExprDoc]

    def _document(self) -> D.Expr:
        return D.tuple_(_documents(self.elements))


@dataclass(eq=False)
class ListDoc(ExprDoc):
    """`[a, b]`."""

    elements: Sequence[ExprDoc]

    def _document(self) -> D.Expr:
        return D.list_(_documents(self.elements))


@dataclass(eq=False)
class DictDoc(ExprDoc):
    """`{key: value}`."""

    content: InitVar[Mapping[ExprDoc, ExprDoc]]

    def __post_init__(self, content: Mapping[ExprDoc, ExprDoc]) -> None:
        self.keys, self.values = list(content), list(content.values())

    def _document(self) -> D.Expr:
        return D.dict_(list(zip(_documents(self.keys), _documents(self.values), strict=True)))


@dataclass(eq=False)
class SliceDoc(Doc):
    """`start:stop:step` among indices."""

    start: ExprDoc | None = None
    stop: ExprDoc | None = None
    step: ExprDoc | None = None

    def document(self) -> D.Expr:
        """What prints it."""
        start, stop = [D.text("") if d is None else d.document() for d in (self.start, self.stop)]
        return D.slice_(start, stop, None if self.step is None else self.step.document())


@dataclass(eq=False)
class StmtDoc(Doc):
    """A statement, with a comment: at the end of its line, or above it if it has a body or the comment has several lines."""

    comment: str | None = field(default=None, init=False)

    def documents(self) -> list[D.Stmt]:
        """What prints it, its comment included."""
        node = self if self.source_paths else None
        found = self._statements(node)
        if self.comment is None or isinstance(self, (FunctionDoc, ClassDoc)):
            # Those have it as their documentation string.
            return found
        only = found[0]
        if len(found) == 1 and isinstance(only, D.Line) and "\n" not in self.comment:
            return [D.Line(only.expr, f"  # {self.comment}", node=node)]
        return [D.Comment(self.comment), *found]

    def _statements(self, node: object) -> list[D.Stmt]:
        raise NotImplementedError(f"{type(self).__name__} is a base of kinds of statements, such as ExprStmtDoc")


@dataclass(eq=False)
class StmtBlockDoc(StmtDoc):
    """Statements one after the other."""

    stmts: Sequence[StmtDoc]

    def _statements(self, node: object) -> list[D.Stmt]:
        return _suite(self.stmts)


@dataclass(eq=False)
class AssignDoc(StmtDoc):
    """`lhs: annotation = rhs`, without what is None."""

    lhs: ExprDoc
    rhs: ExprDoc | None = None
    annotation: ExprDoc | None = None

    def __post_init__(self) -> None:
        if self.rhs is None and self.annotation is None:
            raise ValueError("AssignDoc takes a value, an annotation or both")

    def parts(self) -> Parts:
        """The text of the assignment, and of a parameter with its default."""
        note: Parts = [] if self.annotation is None else [": ", self.annotation.document()]
        value: Parts = [] if self.rhs is None else [" = ", _bare(self.rhs)]
        return [_bare(self.lhs), *note, *value]

    def _statements(self, node: object) -> list[D.Stmt]:
        return [D.Line(*self.parts(), node=node)]


@dataclass(eq=False)
class IfDoc(StmtDoc):
    """`if predicate:` and `else:`."""

    predicate: ExprDoc
    then_branch: Sequence[StmtDoc]
    else_branch: Sequence[StmtDoc] | None = None

    def _statements(self, node: object) -> list[D.Stmt]:
        found: list[D.Stmt] = [D.Suite(["if ", self.predicate.document()], _suite(self.then_branch), node)]
        return [*found, *([D.Suite(["else"], _suite(self.else_branch))] if self.else_branch else [])]


@dataclass(eq=False)
class WhileDoc(StmtDoc):
    """`while predicate:`."""

    predicate: ExprDoc
    body: Sequence[StmtDoc]

    def _statements(self, node: object) -> list[D.Stmt]:
        return [D.Suite(["while ", self.predicate.document()], _suite(self.body), node)]


@dataclass(eq=False)
class ForDoc(StmtDoc):
    """`for lhs in rhs:`."""

    lhs: ExprDoc
    rhs: ExprDoc
    body: Sequence[StmtDoc]

    def _statements(self, node: object) -> list[D.Stmt]:
        return [D.Suite(["for ", _bare(self.lhs), " in ", self.rhs.document()], _suite(self.body), node)]


@dataclass(eq=False)
class ScopeDoc(StmtDoc):
    """`with rhs as lhs:`."""

    lhs: ExprDoc | None
    rhs: ExprDoc
    body: Sequence[StmtDoc]

    def _statements(self, node: object) -> list[D.Stmt]:
        name: Parts = [] if self.lhs is None else [" as ", self.lhs.document()]
        return [D.Suite(["with ", self.rhs.document(), *name], _suite(self.body), node)]


@dataclass(eq=False)
class ExprStmtDoc(StmtDoc):
    """An expression as a statement."""

    expr: ExprDoc

    def _statements(self, node: object) -> list[D.Stmt]:
        return [D.Line(self.expr.document(), node=node)]


@dataclass(eq=False)
class AssertDoc(StmtDoc):
    """`assert test, msg`."""

    test: ExprDoc
    msg: ExprDoc | None = None

    def _statements(self, node: object) -> list[D.Stmt]:
        said: Parts = [] if self.msg is None else [", ", self.msg.document()]
        return [D.Line("assert ", self.test.document(), *said, node=node)]


@dataclass(eq=False)
class ReturnDoc(StmtDoc):
    """`return value`."""

    value: ExprDoc

    def _statements(self, node: object) -> list[D.Stmt]:
        return [D.Line("return ", self.value.document(), node=node)]


@dataclass(eq=False)
class FunctionDoc(StmtDoc):
    """`def name(args) -> return_type:` below its decorators."""

    name: IdDoc
    args: Sequence[AssignDoc]
    decorators: Sequence[ExprDoc]
    return_type: ExprDoc | None
    body: Sequence[StmtDoc]

    def _statements(self, node: object) -> list[D.Stmt]:
        head: Parts = [f"def {self.name.name}("]
        for k, arg in enumerate(self.args):
            head += [*([", "] if k else []), *arg.parts()]
        head += [")"] if self.return_type is None else [") -> ", self.return_type.document()]
        return [_decorated(head, self.body, node, self.decorators, self.comment)]


@dataclass(eq=False)
class ClassDoc(StmtDoc):
    """`class name:` below its decorators."""

    name: IdDoc
    decorators: Sequence[ExprDoc]
    body: Sequence[StmtDoc]

    def _statements(self, node: object) -> list[D.Stmt]:
        return [_decorated([f"class {self.name.name}"], self.body, node, self.decorators, self.comment)]


class CommentDoc(StmtDoc):
    """Lines of a comment."""

    def __init__(self, comment: str) -> None:
        super().__init__()
        self.comment = comment

    def documents(self) -> list[D.Stmt]:
        """What prints it."""
        return [D.Comment(self.comment or "", self if self.source_paths else None)]


@dataclass(eq=False)
class DocStringDoc(StmtDoc):
    """A documentation string."""

    docs: str

    def _statements(self, node: object) -> list[D.Stmt]:
        return _doc_string(self.docs)


def _documents(docs: Sequence[ExprDoc]) -> list[D.Expr]:
    return [d.document() for d in docs]


def _suite(stmts: Sequence[StmtDoc]) -> list[D.Stmt]:
    return [document for s in stmts for document in s.documents()]


def _bare(doc: ExprDoc) -> D.Expr:
    """A tuple without its parentheses, which it needs neither as a target nor as a value."""
    if isinstance(doc, TupleDoc) and len(doc.elements) > 1 and not doc.source_paths:
        return D.bare_tuple(_documents(doc.elements))
    return doc.document()


def _doc_string(text: str) -> list[D.Stmt]:
    lines = ['"""', *text.split("\n"), '"""'] if text else []
    return [D.Line(line) if line else D.Blank() for line in lines]


def _decorated(
    head: Sequence[str | D.Expr],
    body: Sequence[StmtDoc],
    node: object,
    decorators: Sequence[ExprDoc],
    comment: str | None,
) -> D.Suite:
    inside = [*_doc_string(comment or ""), *_suite(body)]
    return D.Suite(head, inside, node, [f"@{d.document()}" for d in decorators])


def to_python_script(
    doc: Doc,
    indent_spaces: int = 4,
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
    path_to_underline: Sequence[ObjectPath] | None = None,
) -> str:
    """The text of a node. path_to_underline: nodes with these among their source_paths have carets below them; then only
    num_context_lines lines (all if None) are kept around these."""
    writer = D.Writer(indent_spaces)
    if isinstance(doc, StmtDoc):
        for statement in doc.documents():
            writer.stmt(statement)
    elif isinstance(doc, (ExprDoc, SliceDoc)):
        writer.expr(doc.document())
    else:
        raise TypeError(f"to_python_script takes an ExprDoc or a StmtDoc, but was given {type(doc).__name__}")
    text = "".join(writer.pieces).rstrip("\n")
    paths = path_to_underline or ()
    marked = [n for n in writer.nodes if isinstance(n, Doc) and any([p == q for p in n.source_paths for q in paths])]
    marks = {span for node in marked for span in writer.spans[id(node)]}
    if marks:
        text = underline_all(text, [(span, "") for span in marks], num_context_lines)
    return numbered(text) if print_line_numbers else text


__all__ = ["OperationKind", "to_python_script"]
__all__ += sorted([name for name, held in globals().items() if isinstance(held, type) and issubclass(held, Doc)])
