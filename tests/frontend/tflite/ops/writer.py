"""A writer of TFLite models, over LiteRT's own schema; LiteRT's answer, and the importer's by the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Quant = tuple[Any, Any] | tuple[Any, Any, int]
"""(scale or scales, zero point or zero points, axis)."""
TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "string": 5, "bool": 6, "int16": 7, "complex64": 8, "int8": 9,
    "float64": 10, "uint64": 12, "resource": 13, "uint32": 15, "uint16": 16, "int4": 17, "bfloat16": 18,
}  # fmt: skip
NEWEST = 14


def schema() -> Any:
    """LiteRT's schema."""
    from ai_edge_litert import schema_py_generated

    return schema_py_generated


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join([r.capitalize() for r in rest])


class Graph:
    """A subgraph in the making."""

    def __init__(self, home: Writer, name: str) -> None:
        self.home, self.table = home, schema().SubGraphT()
        self.table.tensors, self.table.operators = [], []
        self.table.inputs, self.table.outputs, self.table.name = [], [], name

    def tensor(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int] = (),
        quant: Quant | None = None,
        data: bytes | None = None,
        signature: Sequence[int] | None = None,
        **more: Any,
    ) -> int:
        """A tensor; its number."""
        s = schema()
        t = s.TensorT()
        t.name, t.type, t.shape, t.hasRank = name, TYPES[dtype], list(shape), True
        t.shapeSignature = None if signature is None else list(signature)
        t.buffer = 0 if data is None else self.home.buffer(data)
        if quant is not None:
            q = s.QuantizationParametersT()
            q.scale = [float(v) for v in np.atleast_1d(quant[0])]
            q.zeroPoint = [int(v) for v in np.atleast_1d(quant[1])]
            q.quantizedDimension = quant[2] if len(quant) > 2 else 0
            t.quantization = q
        for key, value in more.items():
            setattr(t, key, value)
        self.table.tensors.append(t)
        return len(self.table.tensors) - 1

    def input(self, dtype: str, shape: Sequence[int], quant: Quant | None = None, name: str = "", **more: Any) -> int:
        """An input of the graph."""
        made = self.tensor(name or f"x{len(self.table.inputs)}", dtype, shape, quant, **more)
        self.table.inputs.append(made)
        return made

    def constant(self, array: Any, quant: Quant | None = None, dtype: str = "", name: str = "") -> int:
        """A constant."""
        array = np.asarray(array)
        number = len(self.table.tensors)
        return self.tensor(
            name or f"c{number}",
            dtype or array.dtype.name,
            array.shape,
            quant,
            array.tobytes() if not dtype else pack4(array),
        )

    def op(
        self,
        name: str,
        inputs: Sequence[int],
        results: Sequence[tuple[Any, ...]],
        options: Mapping[str, Any] | None = None,
        kind: str = "",
        custom: bytes | None = None,
        version: int | None = None,
        **more: Any,
    ) -> list[int]:
        """An operator; the numbers of its results, given as (dtype, shape, quant)."""
        s = schema()
        o = s.OperatorT()
        o.opcodeIndex = self.home.code(name, version)
        o.inputs = list(inputs)
        o.outputs = [
            self.tensor(f"{name.lower()}{len(self.table.operators)}_{k}", r[0], *r[1:]) for k, r in enumerate(results)
        ]
        if kind:
            table = getattr(s, f"{kind}T")()
            for key, value in (options or {}).items():
                assert hasattr(table, camel(key)), (kind, key)
                setattr(table, camel(key), value)
            place = "builtinOptions2" if hasattr(s.BuiltinOptions2, kind) else "builtinOptions"
            setattr(o, place, table)
            setattr(o, place + "Type", getattr(s.BuiltinOptions2 if place.endswith("2") else s.BuiltinOptions, kind))
        if custom is not None:
            o.customOptions = list(custom)
        for key, value in more.items():
            setattr(o, key, value)
        self.table.operators.append(o)
        return list(o.outputs)


def pack4(array: np.ndarray) -> bytes:
    """Numbers of four bits, two to a byte."""
    flat = array.reshape(-1).astype(np.uint8) & 15
    if len(flat) % 2:
        flat = np.append(flat, np.uint8(0))
    return (flat[::2] | flat[1::2] << 4).astype(np.uint8).tobytes()


class Writer:
    """A model in the making; `main` is its first subgraph."""

    def __init__(self, version: int = 1) -> None:
        self.version = version
        self.model = schema().ModelT()
        self.model.version, self.model.description = 3, "test"
        self.model.operatorCodes, self.model.subgraphs, self.model.buffers = [], [], [schema().BufferT()]
        self.model.signatureDefs = []
        self.graphs: list[Graph] = []
        self.main = self.graph("main")

    def graph(self, name: str) -> Graph:
        """A new subgraph."""
        made = Graph(self, name)
        self.graphs.append(made)
        self.model.subgraphs.append(made.table)
        return made

    def buffer(self, data: bytes) -> int:
        made = schema().BufferT()
        made.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(made)
        return len(self.model.buffers) - 1

    def code(self, name: str, version: int | None) -> int:
        s = schema()
        made = s.OperatorCodeT()
        builtin = getattr(s.BuiltinOperator, name, None)
        made.builtinCode = s.BuiltinOperator.CUSTOM if builtin is None else builtin
        made.deprecatedBuiltinCode = min(made.builtinCode, 127)
        made.customCode = name if builtin is None else None
        made.version = version or self.version
        self.model.operatorCodes.append(made)
        return len(self.model.operatorCodes) - 1

    def signature(self, key: str, graph: int, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """Name the inputs and outputs of a subgraph."""
        s = schema()
        made = s.SignatureDefT()
        made.signatureKey, made.subgraphIndex = key, graph
        for place, named in (("inputs", inputs), ("outputs", outputs)):
            maps = []
            for name, index in named.items():
                m = s.TensorMapT()
                m.name, m.tensorIndex = name, index
                maps.append(m)
            setattr(made, place, maps)
        self.model.signatureDefs.append(made)

    def finish(self, outputs: Sequence[int]) -> bytes:
        """The file, with these outputs of main."""
        import flatbuffers

        self.main.table.outputs = list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def litert(
    data: bytes, inputs: Sequence[np.ndarray], optimised: bool = False, runs: int = 1, delegates: bool = False
) -> list[np.ndarray]:
    """LiteRT's answer: by its reference kernels, or by its other ones, or by XNNPACK where that takes an operator."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if optimised else OpResolverType.BUILTIN_REF
    if delegates:
        kind = OpResolverType.BUILTIN
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind)
    details = interpreter.get_input_details()
    for d, x in zip(details, inputs, strict=True):
        if tuple(d["shape"]) != x.shape:
            interpreter.resize_tensor_input(d["index"], x.shape)
    interpreter.allocate_tensors()
    for d, x in zip(details, inputs, strict=True):
        interpreter.set_tensor(d["index"], x)
    for _ in range(runs):
        interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def ours(data: bytes, inputs: Sequence[np.ndarray], **options: Any) -> list[np.ndarray]:
    """The importer's answer, by the reference interpreter."""
    from tilewright import relay
    from tilewright.relay.evaluation.interpreter import run_function

    mod, params = relay.frontend.from_tflite(data, **options)
    main = mod["main"]
    given = iter(inputs)
    args = [params[p.name_hint] if p.name_hint in params else next(given) for p in main.params]
    found = run_function(main, args, mod)
    return [np.asarray(f) for f in (found if isinstance(found, (list, tuple)) else [found])]
