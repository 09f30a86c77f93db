"""Traces: what was asked of a schedule, instruction by instruction, to replay, print and store.

The `primitive` decorator does all recording. A primitive is a plain function `f(s, ...)` whose first
parameter is the schedule; which of its arguments are handles (inputs) and which are plain (attributes)
is read off its signature once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from tilewright.ir import IntImm
from tilewright.node import Node, load_json, save_json
from tilewright.tir import Var
from tilewright.tir.schedule.errors import Violation, render

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule

P = ParamSpec("P")
R = TypeVar("R")


class BlockRV:
    """A handle of a block."""

    __slots__ = ("__weakref__",)


class LoopRV:
    """A handle of a loop."""

    __slots__ = ("__weakref__",)


ExprRV = Var
"""A handle of an integer that a sampling instruction chose."""

_PREFIX: dict[type, str] = {BlockRV: "b", LoopRV: "l", Var: "v"}


class InstructionKind:
    """A primitive as instructions know it: its name and the roles of its parameters."""

    registry: dict[str, InstructionKind] = {}

    def __init__(self, function: Callable[..., Any], is_sampling: bool) -> None:
        self.function, self.is_sampling = function, is_sampling
        self.method = function.__name__
        self.name = "".join([part.capitalize() for part in self.method.split("_")])
        params = list(inspect.signature(function).parameters.values())[1:]
        self.params = params
        self.names = [p.name for p in params]
        self.variadic = next((i for i, p in enumerate(params) if p.kind is p.VAR_POSITIONAL), None)
        texts = [str(p.annotation) for p in params]
        self.is_input = [("BlockRV" in t or "LoopRV" in t or "ExprRV" in t) for t in texts]
        self.is_list = [
            t.startswith(("list[", "Sequence[")) or p.kind is p.VAR_POSITIONAL
            for t, p in zip(texts, params, strict=True)
        ]
        self.takes_block_name = ["BlockRV" in t and "str" in t for t in texts]
        InstructionKind.registry[self.name] = self

    @staticmethod
    def get(name: str) -> InstructionKind:
        if name not in InstructionKind.registry:
            raise ValueError(f"unknown instruction {name!r}; known are {sorted(InstructionKind.registry)}")
        return InstructionKind.registry[name]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters, defaults filled in; a variadic one is a list."""
        values: list[Any] = []
        if self.variadic is not None:
            values = [*args[: self.variadic], list(args[self.variadic :])]
        else:
            values = list(args)
        if len(values) > len(self.names):
            raise TypeError(f"{self.method} takes {len(self.names)} arguments, but was given {len(values)}")
        for p in self.params[len(values) :]:
            if p.name in kwargs:
                values.append(kwargs.pop(p.name))
            elif p.default is not p.empty:
                values.append(p.default)
            else:
                raise TypeError(f"{self.method} needs the argument {p.name!r}")
        if kwargs:
            unknown = sorted(kwargs)
            raise TypeError(f"{self.method} has no argument {unknown[0]!r}; it takes {self.names}")
        return values

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


class Instruction:
    """One step of a trace: the primitive, its handles and plain arguments, and the handles it gave."""

    __slots__ = ("kind", "outputs", "values")

    def __init__(self, kind: InstructionKind, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.kind, self.values, self.outputs = kind, list(values), list(outputs)

    @property
    def inputs(self) -> list[Any]:
        """Handles (and integers given in their place), lists flattened."""
        out: list[Any] = []
        for value, is_input in zip(self.values, self.kind.is_input, strict=True):
            if is_input:
                out.extend(value if isinstance(value, (list, tuple)) else (value,))
        return out

    @property
    def attrs(self) -> list[Any]:
        return [v for v, is_input in zip(self.values, self.kind.is_input, strict=True) if not is_input]

    def as_python(self, names: dict[Any, str], decision: Any = None) -> str:
        kind = self.kind
        args = []
        for name, value, param in zip(kind.names, self.values, kind.params, strict=True):
            if param.kind is param.VAR_POSITIONAL:
                args += [_show(v, names) for v in value]
            elif name == "decision":
                if decision is not None:
                    args.append(f"decision={_show(decision, names)}")
            else:
                args.append(f"{name}={_show(value, names)}")
        call = f"sch.{kind.method}({', '.join(args)})"
        if not self.outputs:
            return call
        return f"{', '.join([_name(o, names) for o in self.outputs])} = {call}"


def _name(rv: Any, names: dict[Any, str]) -> str:
    if rv not in names:
        names[rv] = f"{_PREFIX[type(rv)]}{len(names)}"
    return names[rv]


def _show(value: Any, names: dict[Any, str]) -> str:
    if isinstance(value, (BlockRV, LoopRV, Var)):
        return names.get(value, "_")
    if isinstance(value, (list, tuple)):
        items = ", ".join([_show(v, names) for v in value])
        return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, IntImm):
        return str(value.value)
    as_python = getattr(value, "as_python", None)
    return as_python() if as_python is not None else repr(value)


class Trace:
    """Instructions in order, and the decisions that the sampling ones took."""

    def __init__(self, insts: Sequence[Instruction] = (), decisions: dict[Instruction, Any] | None = None) -> None:
        self.insts: list[Instruction] = list(insts)
        self.decisions: dict[Instruction, Any] = dict(decisions or {})

    def append(self, inst: Instruction, decision: Any = None) -> None:
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        if not self.insts:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def get_decision(self, inst: Instruction) -> Any:
        return self.decisions.get(inst)

    def copy(self) -> Trace:
        return Trace(self.insts, self.decisions)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool = True) -> Trace:
        """The trace with another decision for one sampling instruction."""
        insts = self._before_postproc() if remove_postproc else self.insts
        return Trace(insts, {**self.decisions, inst: decision})

    def _before_postproc(self) -> list[Instruction]:
        for i, inst in enumerate(self.insts):
            if inst.kind.name == "EnterPostproc":
                return self.insts[:i]
        return self.insts

    def apply_to_schedule(
        self,
        sch: Schedule,
        remove_postproc: bool = False,
        decision_provider: Callable[[Instruction, list[Any], list[Any], Any], Any] | None = None,
    ) -> None:
        """Replays the instructions on another schedule of the same program.

        decision_provider(inst, inputs, attrs, decision) may give another decision for each sampling instruction.
        """
        env: dict[Any, Any] = {}
        for inst in self._before_postproc() if remove_postproc else self.insts:
            values = [_renamed(v, env) for v in inst.values]
            kind = inst.kind
            if kind.is_sampling:
                decision = self.decisions.get(inst)
                if decision_provider is not None:
                    decision = decision_provider(inst, inst.inputs, inst.attrs, decision)
                values[kind.names.index("decision")] = decision
            outputs = sch._run(kind, values)
            for old, new in zip(inst.outputs, outputs, strict=True):
                env[old] = new

    def simplified(self, remove_postproc: bool = True) -> Trace:
        """Without instructions whose results are not used and that change nothing."""
        used: set[Any] = set()
        kept: list[Instruction] = []
        for inst in reversed(self._before_postproc() if remove_postproc else self.insts):
            pure = inst.kind.is_sampling or inst.kind.method.startswith("get_")
            if pure and not any([o in used for o in inst.outputs]):
                continue
            kept.append(inst)
            for v in inst.inputs:
                if isinstance(v, (BlockRV, LoopRV, Var)):
                    used.add(v)
        kept.reverse()
        return Trace(kept, {i: d for i, d in self.decisions.items() if i in set(kept)})

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """One statement `l1, l2 = sch.split(loop=l0, ...)` per instruction."""
        names: dict[Any, str] = {}
        insts = self._before_postproc() if remove_postproc else self.insts
        return [inst.as_python(names, self.decisions.get(inst)) for inst in insts]

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """[[[kind, inputs, attrs, outputs], ...], [[index, decision], ...]] of plain lists, numbers and strings."""
        names: dict[Any, str] = {}
        rows: list[Any] = []
        decisions: list[Any] = []
        for i, inst in enumerate(self._before_postproc() if remove_postproc else self.insts):
            inputs = [_to_json(v, names) for v in inst.inputs]
            outputs = [_name(o, names) for o in inst.outputs]
            rows.append([inst.kind.name, inputs, [_to_json(a, names) for a in inst.attrs], outputs])
            if inst in self.decisions:
                decisions.append([i, _to_json(self.decisions[inst], names)])
        return [rows, decisions]

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Schedule) -> None:
        """Replays what `as_json` gave on a schedule of the same program."""
        rows, decisions = json_obj
        decided = dict(decisions)
        env: dict[str, Any] = {}
        for i, (name, inputs, attrs, outputs) in enumerate(rows):
            kind = InstructionKind.get(name)
            values = _unflatten(kind, [_from_json(v, env) for v in inputs], [_from_json(a, env) for a in attrs])
            if kind.is_sampling:
                values[kind.names.index("decision")] = decided.get(i)
            for out, rv in zip(outputs, sch._run(kind, values), strict=True):
                env[out] = rv

    def show(self) -> None:
        print(self)

    def __str__(self) -> str:
        lines = ["# from tilewright import tir", "def apply_schedule(sch: tir.Schedule) -> None:"]
        return "\n".join([*lines, *[f"  {line}" for line in self.as_python() or ["pass"]]])

    __repr__ = __str__


def _renamed(value: Any, env: dict[Any, Any]) -> Any:
    if isinstance(value, (BlockRV, LoopRV, Var)):
        return env.get(value, value)
    if isinstance(value, (list, tuple)):
        return type(value)([_renamed(v, env) for v in value])
    return value


def _to_json(value: Any, names: dict[Any, str]) -> Any:
    if isinstance(value, (BlockRV, LoopRV, Var)):
        return names[value]
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_to_json(v, names) for v in value]
    if isinstance(value, str):
        return '"' + value + '"'
    if isinstance(value, Node):
        return {"node": save_json(value)}
    if isinstance(value, dict):
        return {"dict": [[k, _to_json(v, names)] for k, v in value.items()]}
    return value


def _from_json(value: Any, env: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return value[1:-1] if value.startswith('"') else env[value]
    if isinstance(value, list):
        return [_from_json(v, env) for v in value]
    if isinstance(value, dict):
        return load_json(value["node"]) if "node" in value else {k: _from_json(v, env) for k, v in value["dict"]}
    return value


def _unflatten(kind: InstructionKind, inputs: list[Any], attrs: list[Any]) -> list[Any]:
    single = sum([i and not many for i, many in zip(kind.is_input, kind.is_list, strict=True)])
    values: list[Any] = []
    ins, rest = iter(inputs), iter(attrs)
    for is_input, is_list in zip(kind.is_input, kind.is_list, strict=True):
        if not is_input:
            values.append(next(rest))
        elif is_list:
            values.append([next(ins) for _ in range(len(inputs) - single)])
        else:
            values.append(next(ins))
    return values


def primitive(
    function: Callable[Concatenate[Any, P], R], is_sampling: bool = False
) -> Callable[Concatenate[Any, P], R]:
    """A method of Schedule from a function: errors get their name and the program, and the call is recorded."""
    kind = InstructionKind(function, is_sampling)

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        values = kind.bind(args, kwargs)
        outputs = self._run(kind, values)
        if self._last_was_list:
            return outputs
        return outputs[0] if outputs else None

    method.kind = kind  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[Any, P], R]", method)


def sampling(function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A primitive that draws a decision: it takes `decision` and returns `(outputs, decision)`."""
    return primitive(function, is_sampling=True)


def run(s: Schedule, kind: InstructionKind, values: list[Any]) -> list[Any]:
    """Executes and records one instruction; its outputs as a list."""
    for i, by_name in enumerate(kind.takes_block_name):
        if by_name:
            if isinstance(values[i], str):
                values[i] = s.get_block(values[i])
            elif isinstance(values[i], (list, tuple)):
                values[i] = [s.get_block(v) if isinstance(v, str) else v for v in values[i]]
    if kind.method == "get_block" and values[1] is None:
        values[1] = s._default_function_name()
    try:
        if kind.variadic is not None:
            v = kind.variadic
            keywords = dict(zip(kind.names[v + 1 :], values[v + 1 :], strict=True))
            result = kind.function(s, *values[:v], *values[v], **keywords)
        else:
            result = kind.function(s, *values)
    except Violation as v:
        raise render(kind.method, v, s._program_of_error(), s.error_render_level) from None
    decision = None
    if kind.is_sampling:
        result, decision = result
    s._last_was_list = isinstance(result, (list, tuple))
    outputs = list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]
    if s._trace is not None:
        s._trace.append(Instruction(kind, values, outputs), decision)
    return outputs
