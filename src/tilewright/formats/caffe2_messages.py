"""Caffe2's messages, as far as networks need them, and the tensors in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.formats.protobuf import message_class

PACKAGE = "tilewright.caffe2"
Message = Any
"""A message of Caffe2's format: a network, an operator or an argument."""
MESSAGES: dict[str, str] = {
    "NetDef": "name 1 string; op 2 *OperatorDef; type 3 string; arg 6 *Argument; external_input 7 *string; external_output 8 *string",
    "OperatorDef": "input 1 *string; output 2 *string; name 3 string; type 4 string; arg 5 *Argument; engine 7 string",
    "Argument": "name 1 string; f 2 ?float; i 3 ?int64; s 4 ?bytes; floats 5 *float; ints 6 *int64; strings 7 *bytes; n 8 NetDef;"
    " nets 9 *NetDef",
}
"""Fields of each message, as `formats.protobuf` takes them."""
TYPES = {
    1: "float32", 2: "int32", 3: "uint8", 5: "bool", 6: "uint8", 7: "int8", 8: "uint16", 9: "int16", 10: "int64", 12: "float16",
    13: "float64",
}  # fmt: skip
"""Element types by their numbers in TensorProto.DataType."""


def message(name: str) -> Any:
    """The class of a message: message("NetDef")()."""
    return message_class(PACKAGE, name, MESSAGES)


def arguments(op: Message) -> dict[str, Any]:
    """The arguments of an operator by name: numbers, bytes, lists, networks."""
    found: dict[str, Any] = {}
    for a in op.arg:
        single = next((getattr(a, key) for key in ("f", "i", "s", "n") if a.HasField(key)), None)
        several = next(
            (list(getattr(a, key)) for key in ("floats", "ints", "strings", "nets") if len(getattr(a, key))), []
        )
        found[a.name] = several if single is None else single
    return found


FILLS: dict[str, Any] = {
    "GivenTensorFill": "float32", "GivenTensorDoubleFill": "float64", "GivenTensorIntFill": "int32", "GivenTensorInt64Fill": "int64",
    "GivenTensorInt16Fill": "int16", "GivenTensorBoolFill": "bool", "GivenTensorByteStringToUInt8Fill": "uint8",
}  # fmt: skip
"""Operators that give a tensor its values, with its element type."""


def filled(op: Message) -> np.ndarray | None:
    """The tensor that an operator makes of nothing; None if it is no such operator. Raises ValueError for values that do not fit."""
    given = arguments(op)
    shape = [int(d) for d in given.get("shape") or []]
    if op.type in FILLS:
        values = given.get("values", [])
        if op.type == "GivenTensorByteStringToUInt8Fill":
            text = values[0] if isinstance(values, list) else values
            return np.frombuffer(text, np.uint8).reshape(shape)
        kind = (
            TYPES.get(int(given["dtype"]), FILLS[op.type])
            if "dtype" in given and op.type == "GivenTensorFill"
            else FILLS[op.type]
        )
        return np.array(values, kind).reshape(shape)
    if op.type == "ConstantFill" and not len(op.input):
        kind = TYPES.get(int(given.get("dtype", 1)), "")
        if not kind:
            raise ValueError(
                f"its element type has the number {given['dtype']}, which Caffe2's tensors of numbers do not have"
            )
        return np.full(shape, given.get("value", 0), kind)
    return None
