"""Whether a relay module comes back from its text, metadata included, and from the text that shares its metadata."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.node import assert_structural_equal, first_mismatch
from tilewright.relay import Call, Constant
from tilewright.relay.adt import Constructor
from tilewright.relay.analysis import well_formed
from tilewright.relay.cards.card import OpCard, argument_names, cards, required_arguments
from tilewright.relay.functor import post_order
from tilewright.relay.parser.lexer import Source
from tilewright.relay.parser.parser import parse_module_text
from tilewright.relay.printer import text_and_metadata


def no_program(mod: IRModule) -> str | None:
    """Why a module is none that a text could say: half-made or damaged ones are not; None for a program."""
    if not well_formed(mod):
        return "not well formed"
    for f in mod.functions.values():
        for e in post_order(f):
            if isinstance(e, GlobalVar) and e not in mod.functions:
                return "a function that is not there"
            if isinstance(e, Constant) and in_a_file(e.data):
                return "arrays in files"
            if isinstance(e, Call) and not has_its_arguments(e):
                return "a call without its arguments, or with attributes of something else"
            if isinstance(e, Constructor) and e.belong_to not in mod.type_definitions:
                return "a type that is not there"
    return None


def has_its_arguments(call: Call) -> bool:
    """Whether a call of an operator has as many arguments as it takes, and its attributes, and another call has none."""
    if type(call.op) is not Op:
        return call.attrs is None
    card = type(call.attrs)
    if card is not cards().get(call.op.name) or not issubclass(card, OpCard):
        return False
    names, variadic = argument_names(card)
    return required_arguments(card) <= len(call.args) and (variadic or len(call.args) <= len(names))


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
