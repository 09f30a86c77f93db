"""from_mxnet: the entry of the importer of MXNet's symbols."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.files import readable
from tilewright.formats.mxnet_arrays import load_arrays
from tilewright.ir import IRModule
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.listed import ListedImporter
from tilewright.relay.frontend.common.names import checked_shapes
from tilewright.relay.frontend.mxnet.node import SymbolNode, converters
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError

LABELS = (
    "SoftmaxOutput",
    "LinearRegressionOutput",
    "LogisticRegressionOutput",
    "MAERegressionOutput",
    "SVMOutput",
    "Softmax",
)
"""Operators whose last input, the label, belongs to training."""
Arrays = Mapping[str, Any] | str | os.PathLike[str]


@paused_collection()
def from_mxnet(
    symbol: Any,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    arg_params: Arrays | None = None,
    aux_params: Arrays | None = None,
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """A module with `main`, and its parameters, from a symbol of MXNet.

    symbol: a Symbol, a HybridBlock of Gluon (with its own parameters), or the path of a `-symbol.json` file or its text, for which MXNet
    need not be installed. shape: extents by input name; -1 or None: symbolic. dtype: of all inputs, or by input name. arg_params,
    aux_params: the weights and the states by name, as arrays of MXNet or NumPy, or the path of a `.params` file, which has both.

    Parameters of main are the inputs, then the weights, whose values the dictionary holds. Raises ModelError and OpNotImplemented,
    which lists all unsupported operators.
    """
    text, title, own = opened(symbol)
    with guarded(title, "Copy or save it again"):
        graph = json.loads(text)
        weights = {**own, **arrays(arg_params), **arrays(aux_params)}
        return MXNetImporter(title, converters).run(graph, checked_shapes(title, "shape", shape), dtype, weights)


def opened(symbol: Any) -> tuple[str, str, dict[str, np.ndarray]]:
    """(the graph as JSON, its name in messages, a block's own parameters). Raises ModelError for what is no symbol."""
    if hasattr(symbol, "tojson"):
        return symbol.tojson(), getattr(symbol, "name", None) or "the symbol", {}
    if hasattr(symbol, "collect_params") and callable(symbol):
        mxnet = importlib.import_module("mxnet")  # a block comes from it

        traced = symbol(mxnet.sym.Variable("data"))
        traced = mxnet.sym.Group(list(traced)) if isinstance(traced, (list, tuple)) else traced
        own = {name: p.data() for name, p in symbol.collect_params().items()}
        return traced.tojson(), getattr(symbol, "name", None) or "the block", arrays(own)
    if isinstance(symbol, str) and symbol.lstrip().startswith("{"):
        return symbol, "the symbol", {}
    if isinstance(symbol, (str, os.PathLike)):
        try:
            with readable(symbol) as file:
                return file.read_text(), os.fspath(symbol), {}
        except UnicodeDecodeError:
            raise ModelError(f"{os.fspath(symbol)}: this is no file of a symbol (JSON)") from None
    raise ModelError(
        f"symbol is a {type(symbol).__name__}; it must be a Symbol or a HybridBlock of MXNet, or the path of a -symbol.json file"
    )


def arrays(given: Arrays | None) -> dict[str, np.ndarray]:
    """Arrays by plain names, without the prefixes `arg:` and `aux:` of files."""
    if given is None:
        return {}
    found = load_arrays(given) if isinstance(given, (str, os.PathLike)) else given
    return {
        name.removeprefix("arg:").removeprefix("aux:"): np.asarray(a.asnumpy() if hasattr(a, "asnumpy") else a)
        for name, a in found.items()
    }


class MXNetImporter(ListedImporter):
    """One import of a symbol."""

    def run(
        self,
        graph: Any,
        shapes: Mapping[str, Sequence[Any]],
        dtype: str | Mapping[str, str],
        weights: Mapping[str, np.ndarray],
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Imports the graph of a symbol."""
        if not isinstance(graph, Mapping) or not isinstance(graph.get("nodes"), list):
            raise ModelError(f"{self.title}: it has no list of nodes; this is no symbol of MXNet")
        nodes = graph["nodes"]
        uses: dict[str, list[str]] = {}
        for node in nodes:
            if node["op"] != "null":
                uses.setdefault(node["op"], []).append(node["name"])
        self.check_supported(uses)
        labels = self.labels(nodes)
        variables = [n["name"] for k, n in enumerate(nodes) if n["op"] == "null" and k not in labels]
        self.check_names(shapes, variables)
        for k, node in enumerate(nodes):
            name, attrs = node["name"], node.get("attrs") or node.get("attr") or node.get("param") or {}
            if node["op"] != "null":
                inputs = [self.read(key(*source[:2]), name) for source in node["inputs"] if source[0] not in labels]
                known = [key(k, j) for j in range(MOST_RESULTS)]
                self.convert(SymbolNode(node["op"], name, attrs, self), inputs, known)
            elif name in weights:
                self.values[key(k, 0)] = self.weight(name, weights[name])
            elif k not in labels:
                kind = dtype if isinstance(dtype, str) else dtype.get(name, "float32")
                declared = attrs.get("__shape__")
                extents = _declared(declared) if declared and name not in shapes else None
                self.values[key(k, 0)] = self.input(name, extents, shapes.get(name), kind)
        self.finish()
        heads = [tuple(h[:2]) for h in graph.get("heads") or [[len(nodes) - 1, 0]]]
        names = [nodes[k]["name"] + ("_output" if j == 0 else f"_output{j}") for k, j in heads]
        return self.module([self.read(key(k, j), "the output") for k, j in heads], names), dict(self.params)

    @staticmethod
    def labels(nodes: Sequence[Any]) -> set[int]:
        """The numbers of variables that are only labels."""
        found: set[int] = set()
        read: set[int] = set()
        for node in nodes:
            sources = [s[0] for s in node["inputs"]]
            labelled = node["op"] in LABELS and len(sources) > 1 and nodes[sources[-1]]["op"] == "null"
            found.update(sources[-1:] if labelled else ())
            read.update(sources[:-1] if labelled else sources)
        return found - read


MOST_RESULTS = 256
"""The largest number of results of a node."""


def key(node: int, result: int) -> str:
    """The name of a node's result."""
    return f"{node}:{result}"


def _declared(text: str) -> list[Any]:
    import ast

    # MXNet writes 0 or -1 for what it does not know.
    return [None if d <= 0 else d for d in ast.literal_eval(text)]
