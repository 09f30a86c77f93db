"""Look-up tables (hash tables). Their contents are read from the operators that fill them before a model runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.formats.tensorflow_messages import Message
from tilewright.relay.frontend.common.value import StringTensor, Value
from tilewright.relay.frontend.tensorflow.assignments import called
from tilewright.relay.frontend.tensorflow.execution_conditions import split_ref
from tilewright.relay.frontend.tensorflow.tensors import tensor_array
from tilewright.relay.frontend.tensorflow.value import Handle, NodeCall, Result, string_op, tf_op
from tilewright.runtime.host_functions.strings import string_table
from tilewright.support.errors import ModelError, OpNotImplemented, said

TABLES = (
    "HashTable",
    "HashTableV2",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
)
FILLING = ("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2")
FROM_FILE = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
DEPTH = 8
WHOLE_LINE, LINE_NUMBER = -2, -1
Given = Mapping[str, Any]


class Contents:
    """Table name -> (keys, values), from the model's own operators."""

    def __init__(
        self, nodes: Mapping[str, Message], functions: Mapping[str, Message], assets: Mapping[str, Path], saved: Any
    ) -> None:
        self.functions, self.assets, self.saved = functions, assets, saved
        self.found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._follow(nodes, {}, 0)

    def _follow(self, nodes: Mapping[str, Message], given: Given, depth: int) -> None:
        for node in nodes.values():
            if node.op in (*FILLING, *FROM_FILE) and len(node.input) > 1:
                table = self._static(nodes, given, node.input[0])
                parts = [self._static(nodes, given, r) for r in node.input[1:3] if not r.startswith("^")]
                # Only files in the model's own folder are read.
                wanted = Path if node.op in FROM_FILE else np.ndarray
                if isinstance(table, str) and all([isinstance(p, wanted) for p in parts]):
                    pair = self._lines(node, parts[0]) if node.op in FROM_FILE else (parts[0], parts[1])
                    self.found.setdefault(table, pair)
            names = [*called(node), node.op] if depth < DEPTH else []
            for body in [self.functions[n] for n in names if n in self.functions]:
                values = [self._static(nodes, given, r) for r in node.input if not r.startswith("^")]
                if any([isinstance(v, str) for v in values]):
                    inner = dict(zip([a.name for a in body.signature.input_arg], values, strict=False))
                    self._follow({n.name: n for n in body.node_def}, inner, depth + 1)

    def _static(self, nodes: Mapping[str, Message], given: Given, ref: str) -> Any:
        """A table's name, a file, or an array; None for a computed value."""
        for _ in range(16):
            name = split_ref(ref)[0]
            if name in given:
                return given[name]
            node = nodes.get(name)
            if node is None:
                return None
            if node.op in TABLES:
                return table_name(node)
            if name in self.assets:
                return self.assets[name]
            if node.op == "Const":
                return tensor_array(node.attr["value"].tensor, name)
            if node.op == "VarHandleOp":
                # Variables pass the paths of files on.
                given_to = [
                    n.input[1]
                    for n in nodes.values()
                    if n.op == "AssignVariableOp" and split_ref(n.input[0])[0] == name
                ]
                if len(given_to) != 1:
                    return None
                ref = given_to[0]
                continue
            if node.op in ("RestoreV2", "Restore"):
                return self._restored(nodes, node, ref)
            if not node.input:
                return None
            ref = node.input[0]
        return None

    def _restored(self, nodes: Mapping[str, Message], node: Message, ref: str) -> Any:
        parts = ref.split(":")
        names = nodes.get(split_ref(node.input[1])[0])
        place = int(parts[-1]) if len(parts) > 1 else 0
        if names is None or names.op != "Const":
            return None
        keys = tensor_array(names.attr["value"].tensor, names.name).reshape(-1)
        return self.saved(keys[place].decode(errors="replace")) if place < len(keys) else None

    def _lines(self, node: Message, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """(keys, values) of a file with one entry per line."""
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise ModelError(
                f"{path}: the file that a table of the model is read from cannot be opened ({said(error)})"
            ) from None
        begin, size = int(node.attr["offset"].i), int(node.attr["vocab_size"].i) if "vocab_size" in node.attr else -1
        lines = lines[begin : begin + size] if size > 0 else lines[begin:]
        by = node.attr["delimiter"].s or b"\t"

        def column(index: int) -> np.ndarray:
            if index == LINE_NUMBER:
                return np.arange(len(lines), dtype=np.int64)
            made = np.empty(len(lines), object)
            made[:] = lines if index == WHOLE_LINE else [line.split(by)[index] for line in lines]
            return made

        return column(int(node.attr["key_index"].i)), column(int(node.attr["value_index"].i))


def table_name(node: Message) -> str:
    """The name of a table, which is the same in all functions."""
    return str(node.attr["shared_name"].s.decode(errors="replace") or node.name)


@tf_op(*TABLES)
def _table(c: NodeCall, *rest: object) -> Handle:
    return Handle("table", table_name(c.node), (c.attr("key_dtype"), c.attr("value_dtype")))


def held(c: NodeCall, handle: Result) -> tuple[np.ndarray, np.ndarray]:
    """(sorted keys, their values) of a table, with numbers for strings. Raises OpNotImplemented."""
    if not isinstance(handle, Handle) or handle.what != "table":
        raise OpNotImplemented("it looks up in a value that is not a table of the model")
    found = c.home.tables.found.get(handle.name)
    if found is None:
        raise OpNotImplemented(
            f"nothing in the model fills the table {handle.name!r}; save the model with the function that initialises it"
        )
    keys, values = [np.asarray(v).reshape(-1) for v in found]
    wanted = [np.dtype("int64") if d == "string" else np.dtype(d or "int64") for d in handle.details]
    keys, values = [
        string_table.encode(v, keep=True) if v.dtype == object and t == "string" else v
        for v, t in zip((keys, values), handle.details, strict=True)
    ]
    keys, values = [np.array([w.type(x) for x in v.tolist()], w) for v, w in zip((keys, values), wanted, strict=True)]
    order = np.argsort(keys, kind="stable")
    return keys[order], values[order]


def _typed(c: NodeCall, x: Value, kind: str) -> Value:
    return StringTensor(x._expr, x.array) if kind == "string" else x


@string_op("LookupTableFind", "LookupTableFindV2")
def _find(c: NodeCall, handle: Any, wanted: Value, default: Value) -> Value:
    keys, values = held(c, handle)
    kind = handle.details[1] or "int64"
    wanted = Value(wanted._expr, wanted.array)
    default = Value(default._expr, default.array)
    if not len(keys):
        return _typed(c, c.call("add", c.call("zeros_like", c.cast(wanted, values.dtype.name)), default), kind)
    table = Value(array=keys)
    places = c.call("searchsorted", table, wanted, right=False, dtype="int32")
    places = c.call("minimum", places, len(keys) - 1)
    hit = c.call("equal", c.call("take", table, places, axis=0), wanted)
    return _typed(c, c.call("where", hit, c.call("take", Value(array=values), places, axis=0), default), kind)


@tf_op("LookupTableSize", "LookupTableSizeV2")
def _size(c: NodeCall, handle: Result) -> Value:
    return Value(array=np.array(len(held(c, handle)[0]), np.int64))


@tf_op("LookupTableExport", "LookupTableExportV2")
def _export(c: NodeCall, handle: Any) -> list[Value]:
    keys, values = held(c, handle)
    return [_typed(c, Value(array=keys), handle.details[0]), _typed(c, Value(array=values), handle.details[1])]
