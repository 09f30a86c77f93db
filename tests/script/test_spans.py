"""Where the nodes of a parsed program come from: spans, and errors of later steps that show the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.codegen import interp
from tilewright.ir import IntImm
from tilewright.node import first_mismatch, structural_hash
from tilewright.script import from_source
from tilewright.script.underline import excerpt, located, span_of
from tilewright.tir.stmt_functor import post_order_visit

TEXT = """\
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), h: T.handle, n: T.int32):
    B = T.match_buffer(h, (8,))
    for i, j in T.grid(8, 8):
        with T.block("x"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.S(8, j)
            A[vi, vj] = (A[vi, vj] +
                T.exp(B[vi]))
    if n > 3:
        x = n + 1
        B[x] = -B[x]
    while B[0] < 1.0:
        B[0] = T.sqrt(B[0] * 2.0)
    with T.decl_buffer((4,)) as ä:
        ä[T.min(n, 3)] = 1.0; ä[0] = B[1]
"""


def marked(node: Any) -> str:
    """The text under the carets of a node's place."""
    _, _, line, carets = excerpt(node.span).split("\n")
    start = carets.index("^")
    return line[start : start + carets.count("^")]


def test_nodes_know_the_text_that_they_come_from() -> None:
    found: dict[str, list[str]] = {}

    def look(node: Any) -> None:
        if getattr(node, "span", None) is not None:
            found.setdefault(type(node).__name__, []).append(marked(node))

    f = from_source(TEXT)
    post_order_visit(f, look)
    assert {k: v for k, v in found.items() if k not in ("Var", "BufferLoad", "Buffer")} == {
        "IterVar": ["vi = T.axis.spatial(8, i)", "vj = T.axis.S(8, j)"],
        "Call": ["T.exp(B[vi])", "T.sqrt(B[0] * 2.0)"],
        "Add": ["A[vi, vj] +", "n + 1"],
        "BufferStore": ["A[vi, vj] = (A[vi, vj] +", "B[x] = -B[x]", "B[0] = T.sqrt(B[0] * 2.0)"]
        + ["ä[T.min(n, 3)] = 1.0", "ä[0] = B[1]"],
        "Block": ['with T.block("x")', "def f"],
        "BlockRealize": ['with T.block("x")', "def f"],
        "For": ["for i, j in T.grid(8, 8)"] * 2,
        "GT": ["n > 3"],
        "LetStmt": ["x = n + 1"],
        "IfThenElse": ["if n > 3"],
        "LT": ["B[0] < 1.0"],
        "Mul": ["-B[x]", "B[0] * 2.0"],
        "While": ["while B[0] < 1.0"],
        "Min": ["T.min(n, 3)"],
        "DeclBuffer": ["with T.decl_buffer((4,))"],
        "Allocate": ["with T.decl_buffer((4,))"],
        "SeqStmt": ["ä[T.min(n, 3)] = 1.0; ä[0] = B[1]", "for i, j in T.grid(8, 8):"],
        "PrimFunc": ["def f"],
    }
    assert [marked(v) for v in f.params] == ['A: T.Buffer((8, 8), "float32")', "h: T.handle", "n: T.int32"]
    span = f.body.block.body[3].body.body[1].span
    assert (span.line, span.column, span.end_line, span.end_column) == (16, 31, 16, 42)


def test_every_statement_and_operation_has_a_place() -> None:
    without: list[Any] = []

    def look(node: Any) -> None:
        # Constants are shared, and the axes' ranges are no pieces of the text.
        own = isinstance(node, (tir.Stmt, tir.PrimExpr)) and not isinstance(node, (IntImm, tir.FloatImm))
        if own and node.span is None:
            without.append(node)

    post_order_visit(from_source(TEXT), look)
    assert without == []


def test_places_are_no_part_of_a_program() -> None:
    one, two = from_source(TEXT), from_source("\n\n" + TEXT)
    assert first_mismatch(one, two) is None and structural_hash(one) == structural_hash(two)
    assert two.span.line == one.span.line + 2


def test_a_macro_gives_its_own_lines() -> None:
    text = """\
@T.macro
def put(A, i):
    A[i] = 1.0

@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    put(A, 2)
"""
    assert marked(from_source(text).body) == "A[i] = 1.0"


def test_located() -> None:
    f = from_source(TEXT)
    loop = f.body.block.body[0]
    fresh = tir.For(tir.Var("k"), 0, 4, 0, loop.body)
    assert (
        located("no.", fresh, loop)
        == """\
no.
 --> <string>:4:5
  |
4 |     for i, j in T.grid(8, 8):
  |     ^^^^^^^^^^^^^^^^^^^^^^^^"""
    )
    assert located("no.", tir.Evaluate(0)) == "no." and span_of(tir.Var("x")) is None


@tvm.script.tir.prim_func
def user(a: tvm.script.tir.handle):  # type: ignore[no-untyped-def]
    A = tvm.script.tir.match_buffer(a, (8,))
    A[0] = 1.0


def test_lines_of_files_are_those_of_the_file() -> None:
    name = user.span.source_name.name
    assert name == __file__ and marked(user.body) == "A[0] = 1.0"


def test_passes_keep_places() -> None:
    f = from_source(TEXT)
    (lowered,) = tvm.lower(f).functions.values()
    stores: list[Any] = []
    post_order_visit(lowered.body, lambda n: stores.append(n) if isinstance(n, tir.BufferStore) else None)
    assert [span_of(s) is not None for s in stores] == [True] * len(stores)


PROGRAM = """\
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            B[v] = A[v + 1]
"""
LINE = """\
 --> <string>:6:{column}
  |
6 |             B[v] = A[v + 1]
  |             {carets}"""


def test_errors_of_schedules_show_the_line() -> None:
    sch = tvm.tir.Schedule(from_source(PROGRAM))
    (loop,) = sch.get_loops("b")
    outer, _ = sch.split(loop, [2, 4])
    with pytest.raises(tvm.tir.ScheduleError) as error:
        sch.fuse(outer, outer)
    place = """\
 --> <string>:3:5
  |
3 |     for i in range(8):
  |     ^^^^^^^^^^^^^^^^^ loop i_0"""
    assert str(error.value).endswith(place)


def test_errors_of_running_show_the_line() -> None:
    with pytest.raises(tvm.TVMError) as error:
        interp.run(from_source(PROGRAM), [np.zeros(8, "float32"), np.zeros(8, "float32")])
    first = "read out of bounds: buffer A[8], shape (8)\n  in function f, at i=7, v=7\n"
    assert str(error.value) == first + LINE.format(column=13, carets="^" * 15)


def test_errors_of_checked_bounds_show_the_line() -> None:
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        built = tvm.build(from_source(PROGRAM), target="llvm")
    with pytest.raises(AssertionError) as error:
        built(tvm.nd.array(np.zeros(8, "float32")), tvm.nd.array(np.zeros(8, "float32")))
    first = "index out of bounds: dimension 0 of buffer A has 8 elements, index i + 1\n"
    assert str(error.value) == first + LINE.format(column=20, carets="       ^^^^^^^^") + "\n  the index is 8"
    with pytest.raises(ValueError, match=r"(?s)leaves 0\.\.7\n --> <string>:6:20"):
        tvm.tir.analysis.OOBChecker()(tvm.IRModule({"f": from_source(PROGRAM)}))


def test_errors_of_lowering_and_code_generation_show_the_line() -> None:
    text = """\
@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    A[0] = T.undef() + 1.0
"""
    with pytest.raises(tvm.TVMError) as error:
        tvm.tir.transform.RemoveStoreUndef()(tvm.IRModule({"f": from_source(text)}))
    assert str(error.value).endswith("3 |     A[0] = T.undef() + 1.0\n  |            ^^^^^^^^^")
    unknown = from_source(text.replace("T.undef() + 1.0", 'T.call_intrin("float32", "tir.ptx_ldmatrix")'))
    with pytest.raises(tvm.TVMError, match=r"(?s)LLVM code generation .* --> <string>:3:12\n"):
        tvm.build(unknown, target="llvm")


def test_errors_of_two_places_show_both_once() -> None:
    f = from_source(PROGRAM)
    loop = f.body.block.body
    text = located("no.", loop, loop.body, loop, labels={loop: "the loop"})
    assert text.count(" --> ") == 2 and "^^^^^^^^^^^^^^^^^ the loop\n" in text
