"""Whether a relay module comes back from its text, metadata included, and from the text that shares its metadata."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from tilewright.ir import GlobalVar, IRModule
from tilewright.node import assert_structural_equal, first_mismatch
from tilewright.relay import Call, Constant, Function
from tilewright.relay.adt import Constructor
from tilewright.relay.functor import free_vars, post_order
from tilewright.relay.op.card import OpCard, required_arguments
from tilewright.relay.parser.lexer import Source
from tilewright.relay.parser.parser import parse_module_text
from tilewright.relay.printer import text_and_metadata


def relay_closed(mod: IRModule) -> bool:
    """Whether a module names only variables, functions and types of its own, and its calls have arguments; a half-made one may not."""
    for f in mod.functions.values():
        if not isinstance(f, Function) or free_vars(f):
            return False
        for e in post_order(f):
            if isinstance(e, GlobalVar) and e not in mod.functions:
                return False
            if isinstance(e, Constant) and in_a_file(e.data):
                return False
            if isinstance(e, Call) and isinstance(e.attrs, OpCard) and len(e.args) < required_arguments(type(e.attrs)):
                return False
            if isinstance(e, Constructor) and e.belong_to not in mod.type_definitions:
                return False
    return True


def in_a_file(array: Any) -> bool:
    """Whether an array's memory is mapped from a file, which the test may have changed by now."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return isinstance(array, (mmap.mmap, memoryview))


def assert_relay_roundtrip(mod: IRModule) -> None:
    """AssertionError with both texts where a module differs from what its text says."""
    text, meta = text_and_metadata(mod)
    # Without inference, which would add types that the module does not have (yet).
    back = parse_module_text(Source("roundtrip", text), None, meta)
    where = first_mismatch(mod, back)
    assert where is None, f"{where}\n{text}\n----- comes back as\n{text_and_metadata(back)[0]}"
    size = sum([v.data.nbytes if hasattr(v, "data") else 0 for values in meta.values() for v in values])
    if size < 1 << 16:
        assert_structural_equal(mod, parse_module_text(Source("roundtrip", mod.astext()), None, None))
