"""Protobuf messages of other projects' formats, built from tables of field numbers, so that reading a file needs no package of its writer.

A table has for each message its fields: `name number type`, with `;` between them. Types: protobuf's scalars, or the name of a message;
`*` before it: repeated, `?`: with presence, `{V}`: a map from strings to V.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MADE: dict[str, dict[str, Any]] = {}


def message_class(package: str, name: str, table: Mapping[str, str]) -> Any:
    """The class of a message of a table. package: the name under which protobuf keeps the messages of this table."""
    if package not in _MADE:
        _MADE[package] = _classes(package, table)
    return _MADE[package][name]


def _classes(package: str, table: Mapping[str, str]) -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    kinds = {
        "int32": field.TYPE_INT32, "int64": field.TYPE_INT64, "uint32": field.TYPE_UINT32, "uint64": field.TYPE_UINT64,
        "float": field.TYPE_FLOAT, "double": field.TYPE_DOUBLE, "bool": field.TYPE_BOOL, "string": field.TYPE_STRING,
        "bytes": field.TYPE_BYTES, "fixed32": field.TYPE_FIXED32,
    }  # fmt: skip
    # proto2, in which all scalars have presence and strings may be any bytes.
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax="proto2"
    )

    def add(message: Any, name: str, number: int, kind: str) -> None:
        label = field.LABEL_OPTIONAL
        if kind.startswith("*"):
            label, kind = field.LABEL_REPEATED, kind[1:]
        kind = kind.removeprefix("?")
        made = message.field.add(name=name, number=number, label=label)
        if kind in kinds:
            made.type = kinds[kind]
            if label == field.LABEL_REPEATED and kind not in ("string", "bytes"):
                made.options.packed = True
        else:
            made.type, made.type_name = field.TYPE_MESSAGE, f".{package}.{kind}"

    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for entry in fields.split(";") if fields else ():
            key, number, kind = entry.split()
            if kind.startswith("{"):
                # A map is a list of entries with a key and a value.
                title = key.title().replace("_", "") + "Entry"
                nested = message.nested_type.add(name=title)
                nested.options.map_entry = True
                add(nested, "key", 1, "string")
                add(nested, "value", 2, kind[1:-1])
                made = message.field.add(
                    name=key, number=int(number), label=field.LABEL_REPEATED, type=field.TYPE_MESSAGE
                )
                made.type_name = f".{package}.{name}.{title}"
            else:
                add(message, key, int(number), kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{n}")) for n in table}
