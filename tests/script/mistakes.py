"""How a mistake in the body of a program is shown: the whole text of the error, places included."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright.support.errors import DiagnosticError

HEAD = """@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), h: T.handle, n: T.int32, F: T.Buffer((8,), "float32")):
"""


def check_mistake(body: str, expected: str) -> None:
    """The error that a program of this body gives; the place of each is in the file that the program stands in."""
    text = HEAD + "".join([f"    {line}\n" for line in body.split("\n")])
    with pytest.raises(DiagnosticError) as error:
        tvm.script.from_source(text)
    assert str(error.value) == expected
