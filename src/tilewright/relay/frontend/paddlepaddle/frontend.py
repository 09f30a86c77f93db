"""from_paddle: the entry of the importer of PaddlePaddle's programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.formats.files import readable
from tilewright.formats.paddle_messages import TENSOR, Message, load_tensors, message, type_name
from tilewright.ir import IRModule
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.listed import ListedImporter
from tilewright.relay.frontend.common.names import checked_shapes
from tilewright.relay.frontend.common.value import as_values
from tilewright.relay.frontend.paddlepaddle.node import ProgramOp, converters
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError, OpNotImplemented

REMEDY = "Copy or save it again"
ENDS = ("feed", "fetch")
"""Operators at the inputs and outputs of a program."""


@paused_collection()
def from_paddle(
    program_or_layer: Any, shape_dict: Mapping[str, Sequence[Any]] | None = None, scope: Any = None
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """A module with `main`, and its parameters, from a program of PaddlePaddle.

    program_or_layer: a layer that `paddle.jit.load` gives, a `paddle.static.Program` (its parameters are in `scope`, by default the global
    scope), or the path of a `.pdmodel` file, with its `.pdiparams` beside it, for which PaddlePaddle need not be installed. shape_dict:
    extents by input name; -1 or None, and what the program does not say: symbolic.

    Parameters of main are the inputs, then the weights, whose values the dictionary holds. Raises ModelError and OpNotImplemented,
    which lists all unsupported operators.
    """
    program, weights, title = opened(program_or_layer, scope)
    with guarded(title, REMEDY):
        if len(program.blocks) != 1:
            raise OpNotImplemented(
                f"{title}: it has branches or loops ({len(program.blocks)} blocks); programs of one block are supported"
            )
        return PaddleImporter(title, converters).run(
            program.blocks[0], weights, checked_shapes(title, "shape_dict", shape_dict)
        )


def opened(given: Any, scope: Any) -> tuple[Message, dict[str, np.ndarray], str]:
    """(the program, its weights by name, its name in messages). Raises ModelError for what is none."""
    if isinstance(given, (str, os.PathLike)):
        title = os.fspath(given)
        path = Path(title if title.endswith(".pdmodel") else f"{title}.pdmodel")
        with readable(path):
            data = path.read_bytes()
        program = parsed(data, title)
        names = sorted([v.name for b in program.blocks for v in b.vars if v.persistable and v.type.type == TENSOR])
        beside = path.with_suffix(".pdiparams")
        return program, load_tensors(beside, names) if names else {}, title
    if hasattr(given, "program") and hasattr(given, "parameters"):
        tensors = [*given.parameters(), *given.buffers()]
        return (
            parsed(described(given.program()), "the layer"),
            {t.name: np.asarray(t.numpy()) for t in tensors},
            "the layer",
        )
    if hasattr(given, "desc"):
        program = parsed(described(given), "the program")
        names = [v.name for b in program.blocks for v in b.vars if v.persistable and v.type.type == TENSOR]
        held = scope if scope is not None else __import__("paddle").static.global_scope()
        return program, {n: np.asarray(held.find_var(n).get_tensor()) for n in names}, "the program"
    raise ModelError(
        f"program_or_layer is a {type(given).__name__}; it must be a layer of paddle.jit.load, a Program, or the path of a .pdmodel file"
    )


def described(program: Any) -> bytes:
    """A live program as bytes."""
    made: bytes = program.desc.serialize_to_string()
    return made


def parsed(data: bytes, title: str) -> Message:
    """A program's message. Raises ModelError."""
    found = message("ProgramDesc")()
    try:
        found.ParseFromString(data)
    except Exception as error:  # protobuf's own exception is none of Python's
        raise ModelError(f"{title}: it is no program of PaddlePaddle, or it is damaged ({error}). {REMEDY}") from error
    if not len(found.blocks):
        raise ModelError(f"{title}: it is no program of PaddlePaddle: it has no block")
    return found


class PaddleImporter(ListedImporter):
    """One import of a program."""

    noun = "operator"

    def run(
        self, block: Message, weights: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[Any]]
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Imports a block."""
        variables = {v.name: v for v in block.vars}
        body = [op for op in block.ops if op.type not in ENDS]
        uses: dict[str, list[str]] = {}
        for op in body:
            uses.setdefault(op.type, []).append(name_of(op))
        self.check_supported(uses)
        inputs = [n for op in block.ops if op.type == "feed" for v in op.outputs for n in v.arguments]
        outputs = [n for op in block.ops if op.type == "fetch" for v in op.inputs for n in v.arguments]
        self.check_names(shapes, inputs)
        for name in inputs:
            tensor = variables[name].type.lod_tensor.tensor
            self.input(name, [int(d) for d in tensor.dims], shapes.get(name), type_name(tensor.data_type))
        read = {n for op in body for v in op.inputs for n in v.arguments}
        for name, array in weights.items():
            if name in read:
                self.values[name] = self.weight(name, array)
        for op in body:
            self.op(op)
        self.finish()
        return self.module([self.read(n, "the output") for n in outputs], outputs), dict(self.params)

    def op(self, op: Message) -> None:
        """Converts an operator; its outputs have names of their own."""
        name = name_of(op)
        given = {v.parameter: [self.read(n, name) for n in v.arguments] for v in op.inputs}
        node = ProgramOp(op, name, self, given)
        wanted = {v.parameter: list(v.arguments) for v in op.outputs if len(v.arguments)}
        broken = any([v is None for values in given.values() for v in values])
        found = None if broken else self.attempt(node, [])
        if found is None:
            self.values.update(dict.fromkeys([n for names in wanted.values() for n in names]))
            return
        first = next((k for k in ("Out", "Y", "Output") if k in wanted), next(iter(wanted), ""))
        for key, value in (found if isinstance(found, Mapping) else {first: found}).items():
            self.values.update(zip(wanted.get(key, []), as_values(value), strict=False))


def name_of(op: Message) -> str:
    """An operator's name in messages: that of its first output."""
    return next((n for v in op.outputs for n in v.arguments), str(op.type))
