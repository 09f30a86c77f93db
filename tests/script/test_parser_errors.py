"""Errors of programs: each is located in the text, with its line underlined; the whole text is tested."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import tilewright as tvm
from tilewright.support.errors import DiagnosticError

HEAD = """@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), h: T.handle, n: T.int32):
"""

# name of the case: the body of the program, and the error
CASES: dict[str, tuple[str, str]] = {
    "unknown name": (
        """    for i in range(8):
        AA[i, 0] = T.float32(1)
""",
        """\
error: the name AA is not defined
 --> <string>:4:9
  |
4 |         AA[i, 0] = T.float32(1)
  |         ^^
  = did you mean A?""",
    ),
    "unknown word": (
        """    A[0, 0] = T.flot32(1)
""",
        """\
error: T has no attribute flot32
 --> <string>:3:15
  |
3 |     A[0, 0] = T.flot32(1)
  |               ^^^^^^^^
  = did you mean float32 or float64 or float16?""",
    ),
    "unknown intr": (
        """    A[0, 0] = T.expp(A[0, 1])
""",
        """\
error: T has no attribute expp
 --> <string>:3:15
  |
3 |     A[0, 0] = T.expp(A[0, 1])
  |               ^^^^^^
  = did you mean exp or exp2 or ldexp?""",
    ),
    "arity index": (
        """    A[0] = T.float32(1)
""",
        """\
error: buffer A has 2 dimensions, but is indexed with 1: [0]
 --> <string>:3:5
  |
3 |     A[0] = T.float32(1)
  |     ^^^^""",
    ),
    "arity load": (
        """    A[0, 0] = A[0, 1, 2]
""",
        """\
error: buffer A has 2 dimensions, but is indexed with 3: [0, 1, 2]
 --> <string>:3:15
  |
3 |     A[0, 0] = A[0, 1, 2]
  |               ^^^^^^^^^^""",
    ),
    "arity call": (
        """    T.block_attr(1, 2)
""",
        """\
error: T.block_attr: too many positional arguments
 --> <string>:3:5
  |
3 |     T.block_attr(1, 2)
  |     ^^^^^^^^^^^^^^^^^^
  = it is called as T.block_attr(attrs)""",
    ),
    "type op": (
        """    A[0, 0] = A[0, 0] + h
""",
        """\
error: no arithmetic on handles: A[0, 0] (float32), h (handle)
 --> <string>:3:15
  |
3 |     A[0, 0] = A[0, 0] + h
  |               ^^^^^^^^^^^""",
    ),
    "int div": (
        """    A[n / 2, 0] = T.float32(1)
""",
        """\
error: / on integers is ambiguous (n / 2): use // or tir.floordiv to round down, tir.truncdiv to round towards zero
 --> <string>:3:7
  |
3 |     A[n / 2, 0] = T.float32(1)
  |       ^^^^^""",
    ),
    "undefined var": (
        """    m = T.int32()
    A[m, 0] = T.float32(1)
""",
        """\
error: the variable m is used, but nothing gives it a value
 --> <string>:3:5
  |
3 |     m = T.int32()
  |     ^^^^^^^^^^^^^
  = let it be a dimension of a buffer of T.match_buffer, or make it a parameter""",
    ),
    "axis outside": (
        """    vi = T.axis.spatial(8, n)
""",
        """\
error: T.axis.spatial stands directly in a block, but this is in the function f
 --> <string>:3:10
  |
3 |     vi = T.axis.spatial(8, n)
  |          ^^^^^^^^^^^^^^^^^^^^""",
    ),
    "reads in loop": (
        """    with T.block("b"):
        for i in range(8):
            T.reads(A[i, 0])
            A[i, 0] = 1.0
""",
        """\
error: T.reads stands directly in a block, but this is in a loop
 --> <string>:5:13
  |
5 |             T.reads(A[i, 0])
  |             ^^^^^^^^^^^^^^^^""",
    ),
    "remap": (
        """    for i in range(8):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i])
""",
        """\
error: T.axis.remap has 2 kinds 'SS', but 1 loops
 --> <string>:5:22
  |
5 |             vi, vj = T.axis.remap("SS", [i])
  |                      ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "remap var": (
        """    with T.block("b"):
        vi = T.axis.remap("S", [n])
""",
        """\
error: T.axis.remap takes variables of loops, but was given n; use T.axis.spatial or reduce
 --> <string>:4:14
  |
4 |         vi = T.axis.remap("S", [n])
  |              ^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "block no with": (
        """    T.block("b")
""",
        """\
error: a block holds statements: write `with` before it and indent them below it
 --> <string>:3:5
  |
3 |     T.block("b")
  |     ^^^^^^^^^^^^""",
    ),
    "unpack": (
        """    for i in range(8):
        with T.block("b"):
            vi, vj = T.axis.remap("S", [i]), 1, 2
""",
        """\
error: 3 values are assigned to 2 names
 --> <string>:5:13
  |
5 |             vi, vj = T.axis.remap("S", [i]), 1, 2
  |             ^^^^^^""",
    ),
    "grid vars": (
        """    for i, j in T.grid(8, 8, 8):
        A[i, j] = 1.0
""",
        """\
error: there are 3 loops, but 2 variables
 --> <string>:3:9
  |
3 |     for i, j in T.grid(8, 8, 8):
  |         ^^^^""",
    ),
    "loop over": (
        """    for i in [1, 2]:
        A[i, 0] = 1.0
""",
        """\
error: a loop runs over range(...), T.grid(...), T.serial(...) and their like, not over list
 --> <string>:3:14
  |
3 |     for i in [1, 2]:
  |              ^^^^^^""",
    ),
    "rebind": (
        """    x = 1
    for i in range(8):
        x = x + i
    A[x, 0] = 1.0
""",
        """\
error: x stands for one value, given outside of this suite, and cannot be changed in it
 --> <string>:5:9
  |
5 |         x = x + i
  |         ^
  = keep a value that changes in a buffer: x = T.alloc_buffer((1,), dtype)""",
    ),
    "cond": (
        """    if n:
        A[0, 0] = 1.0
""",
        """\
error: the condition of an if must be a bool, but is int32
 --> <string>:3:8
  |
3 |     if n:
  |        ^
  = compare it with a number""",
    ),
    "load var": (
        """    A[0, 0] = h[0]
""",
        """\
error: h is a variable, and only buffers have elements; declare one with T.Buffer(shape, dtype, data=h)
 --> <string>:3:15
  |
3 |     A[0, 0] = h[0]
  |               ^^^^""",
    ),
    "try": (
        """    try:
        A[0, 0] = 1.0
    finally:
        pass
""",
        """\
error: a program has no statement of the kind try
 --> <string>:3:5
  |
3 |     try:
  |     ^^^^
  = there are assignments, calls, for, while, if, with, assert and pass""",
    ),
    "match twice": (
        """    B = T.match_buffer(h, (4,))
    C = T.match_buffer(h, (4,))
""",
        """\
error: the parameter h is matched to a buffer twice
 --> <string>:4:9
  |
4 |     C = T.match_buffer(h, (4,))
  |         ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "syntax": (
        """    A[0, 0] = = 1
""",
        """\
error: this is not Python: invalid syntax
 --> <string>:3:15
  |
3 |     A[0, 0] = = 1
  |               ^""",
    ),
    "step": (
        """    for i in range(0, 8, 2):
        A[i, 0] = 1.0
""",
        """\
error: a loop of a program counts in ones: write range(begin, end) and scale the variable
 --> <string>:3:14
  |
3 |     for i in range(0, 8, 2):
  |              ^^^^^^^^^^^^^^""",
    ),
    "kw": (
        """    B = T.alloc_buffer((4,), scop="local")
""",
        """\
error: T.alloc_buffer takes no argument scop
 --> <string>:3:30
  |
3 |     B = T.alloc_buffer((4,), scop="local")
  |                              ^^^^^^^^^^^^
  = did you mean scope?""",
    ),
    "slice": (
        """    A[0, 0:n] = 1.0
""",
        """\
error: a slice of buffer A that is loaded or stored needs a constant, positive length and step, but has length n and step 1
 --> <string>:3:5
  |
3 |     A[0, 0:n] = 1.0
  |     ^^^^^^^^^""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_error(case: str) -> None:
    body, expected = CASES[case]
    with pytest.raises(DiagnosticError) as error:
        tvm.script.from_source(HEAD + body)
    assert str(error.value) == expected
    assert isinstance(error.value, tvm.TVMError)


WHOLE: dict[str, tuple[str, str]] = {
    "parameter without a type": (
        """@T.prim_func
def f(A, n: T.int32):
    pass
""",
        """\
error: the parameter A has no type
 --> <string>:2:7
  |
2 | def f(A, n: T.int32):
  |       ^
  = write A: T.handle, A: T.int32 or A: T.Buffer(shape, dtype)""",
    ),
    "parameter of no type": (
        """@T.prim_func
def f(A: 3):
    pass
""",
        """\
error: 3 is not a type, but int
 --> <string>:2:10
  |
2 | def f(A: 3):
  |          ^
  = types are T.int32, T.handle, T.Buffer(shape, dtype) and their like""",
    ),
    "no decorator": (
        """def f():
    pass
""",
        """\
error: the function f has no decorator
 --> <string>:1:1
  |
1 | def f():
  | ^^^^^^^^
  = write @T.prim_func above it""",
    ),
    "function of the module": (
        """@I.ir_module
class M:
    @T.prim_func
    def f(n: T.int32):
        cls.g(n)

    @T.prim_func
    def gg(n: T.int32):
        T.evaluate(n)
""",
        """\
error: cls (ModuleName) has no attribute g
 --> <string>:5:9
  |
5 |         cls.g(n)
  |         ^^^^^
  = did you mean gg?""",
    ),
    "option of the decorator": (
        """@T.prim_func(privat=True)
def f(n: T.int32):
    pass
""",
        """\
error: T.prim_func takes private and check_well_formed, but was given privat
 --> <string>:1:2
  |
1 | @T.prim_func(privat=True)
  |  ^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "in a macro": (
        """@T.macro
def m(A):
    A[0] = 1.0


@T.prim_func
def f(A: T.Buffer((8, 8))):
    m(A)
""",
        """\
error: buffer A has 2 dimensions, but is indexed with 1: [0]
 --> <string>:3:5
  |
3 |     A[0] = 1.0
  |     ^^^^
in a macro that is used here
 --> <string>:8:5
  |
8 |     m(A)
  |     ^^^^""",
    ),
    "text beyond ASCII": (
        """@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    A[0] = T.float32(1); größe = B
""",
        """\
error: the name B is not defined
 --> <string>:3:34
  |
3 |     A[0] = T.float32(1); größe = B
  |                                  ^
  = the program has A""",
    ),
    "empty text": (
        """n = T.int32()
""",
        """\
error: the text holds neither a function nor a module
 --> <string>:1:1
  |
1 | n = T.int32()
  | ^^^^^^^^^^^^^""",
    ),
}


@pytest.mark.parametrize("case", WHOLE)
def test_error_of_a_whole_text(case: str) -> None:
    text, expected = WHOLE[case]
    with pytest.raises(DiagnosticError) as error:
        tvm.script.from_source(text)
    assert str(error.value) == expected


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_errors_point_into_the_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "user_program.py"
    path.write_text("""from tilewright.script import tir as T


def make(n):
    # A comment at the margin of the program.
    @T.prim_func
    def f(A: T.Buffer((n, 4), "float32")):
        for i in range(n):
# a comment at the margin of the file
            for j in range(4):
                A[i, j] = (
                    A[i, j] +
                    B[i, j]
                )

    return f


make(3)
""")
    with pytest.raises(DiagnosticError) as error:
        load(path)
    assert (
        str(error.value)
        == f"""\
error: the name B is not defined
  --> {path}:13:21
   |
13 |                     B[i, j]
   |                     ^
   = the program has A, i, j"""
    )


def test_the_same_file_under_the_name_tvm(tmp_path: Path) -> None:
    path = tmp_path / "classic_program.py"
    path.write_text("""import tilewright.as_tvm

tilewright.as_tvm.install()
import tvm
from tvm.script import ir as I, tir as T
from tvm.script.parser import tir as other


@tvm.script.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle):
        A = T.match_buffer(a, (8,), "float32")
        for i in T.serial(8):
            A[i] = T.float32(i)


@other.prim_func
def f(A: T.Buffer((8,), "float32")):
    A[0] = T.float32(1)


tilewright.as_tvm.uninstall()
""")
    module = load(path)
    assert isinstance(module.Module, tvm.IRModule)
    assert module.f.attrs == {"global_symbol": "f"}
