"""Traces: the recorded instructions of a schedule, which can be replayed, printed and stored.

The `primitive` decorator does all recording. A primitive is a function `f(s, ...)` whose first parameter is the
schedule. Its signature determines once which arguments are handles (inputs) and which are plain values (attributes).
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from tilewright.ir import FloatImm, IntImm
from tilewright.node import Node, load_json, save_json
from tilewright.support.errors import ScheduleError
from tilewright.tir import StringImm, Var
from tilewright.tir.schedule.errors import Violation, refuse, render
from tilewright.tir.schedule.verify import verify

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
"""A handle of an integer that a sampling instruction drew."""

_PREFIX: dict[type, str] = {BlockRV: "b", LoopRV: "l", Var: "v"}
_NAMES = {"rfactor": "RFactor", "reindex": "ReIndex", "unsafe_set_dtype": "UnsafeSetDType"}
"""Instructions whose classic name differs from the CamelCase name of their method."""
_IN_ORDER = frozenset([
    "split", "fuse", "loop_partition", "add_unit_loop", "unroll", "annotate", "unannotate", "annotate_buffer_access",
    "unsafe_hide_buffer_access", "enter_postproc", "reorder_block_iter_var",
])  # fmt: skip
"""Primitives that keep the order in which statements run."""
Handle = (BlockRV, LoopRV, Var)


class InstructionKind:
    """The kind of an instruction: a primitive with its name and the roles of its parameters.

    canonical: converts arguments (functions, buffers) to forms that a trace can record.
    """

    registry: dict[str, InstructionKind] = {}

    def __init__(
        self, function: Callable[..., Any], is_sampling: bool, canonical: Callable[..., None] | None = None
    ) -> None:
        self.function, self.is_sampling, self.canonical = function, is_sampling, canonical
        self.method = function.__name__
        self.name = _NAMES.get(self.method, "".join([part.capitalize() for part in self.method.split("_")]))
        params = list(inspect.signature(function).parameters.values())[1:]
        self.params = params
        self.names = [p.name for p in params]
        self.variadic = next((i for i, p in enumerate(params) if p.kind is p.VAR_POSITIONAL), None)
        texts = [str(p.annotation) for p in params]
        self.is_input = [("BlockRV" in t or "LoopRV" in t or "ExprRV" in t) for t in texts]
        self.is_list = [p.kind is p.VAR_POSITIONAL or p.name == "factors" for p in params]
        self.takes_block_name = ["BlockRV" in t for t in texts]
        self.returns_list = str(inspect.signature(function).return_annotation).startswith("list[")
        InstructionKind.registry[self.name] = self

    @staticmethod
    def get(name: str) -> InstructionKind:
        if name not in InstructionKind.registry:
            raise ValueError(f"unknown instruction {name!r}; known are {sorted(InstructionKind.registry)}")
        return InstructionKind.registry[name]

    @property
    def is_pure(self) -> bool:
        """Whether the instruction does not change the program, so that it can be dropped if its results are not used."""
        return self.is_sampling or self.method.startswith("get_")

    @property
    def keeps_order(self) -> bool:
        """Whether the order in which statements run stays the same."""
        return self.is_pure or self.method in _IN_ORDER

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters, with defaults; a variadic argument is a list."""
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
    """One step of a trace: the primitive, its handles (`inputs`), its plain arguments (`attrs`) and the returned
    handles.
    """

    __slots__ = ("kind", "outputs", "values")

    def __init__(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        self.kind, self.outputs = kind, list(outputs)
        self.values: list[Any] = _unflatten(kind, list(inputs), list(attrs))

    @staticmethod
    def of(kind: InstructionKind, values: Sequence[Any], outputs: Sequence[Any]) -> Instruction:
        """Make an instruction from the arguments in the order of the parameters."""
        new = object.__new__(Instruction)
        new.kind, new.values, new.outputs = kind, list(values), list(outputs)
        return new

    @property
    def inputs(self) -> list[Any]:
        """Handles, or the values given in their place. Lists of loops or factors are flattened."""
        out: list[Any] = []
        for value, is_input, is_list in zip(self.values, self.kind.is_input, self.kind.is_list, strict=True):
            if is_input:
                out.extend(value if is_list else (value,))
        return out

    @property
    def attrs(self) -> list[Any]:
        """Plain arguments. Decisions of sampling instructions are stored in the trace."""
        named = zip(self.kind.names, self.values, self.kind.is_input, strict=True)
        return [v for name, v, is_input in named if not is_input and name != "decision"]

    def __repr__(self) -> str:
        return self.as_python({})

    def as_python(self, names: dict[Any, str], decision: Any = None) -> str:
        kind = self.kind
        args = []
        for name, value, param in zip(kind.names, self.values, kind.params, strict=True):
            if param.kind is param.VAR_POSITIONAL:
                args += [_show(v, names) for v in value]
            elif name == "decision":
                if decision is not None:
                    args.append(f"decision={_show(decision, names)}")
            elif name == "gen_new_ranges":
                args.append(f"{name}={_show_ranges(value)}")
            elif name in ("consumer_blocks", "func_name") and value is None:
                continue
            else:
                args.append(f"{name}={_show(value, names)}")
        call = f"sch.{kind.method}({', '.join(args)})"
        if not self.outputs:
            return call
        many = self.kind.returns_list and len(self.outputs) == 1
        return f"{', '.join([_name(o, names) for o in self.outputs])}{',' if many else ''} = {call}"


def _name(rv: Any, names: dict[Any, str]) -> str:
    if rv not in names:
        names[rv] = f"{_PREFIX[type(rv)]}{len(names)}"
    return names[rv]


def _show_ranges(ends: Any) -> str:
    """A function that returns (begin, end) pairs, from the index map of all ends."""
    names = ", ".join([v.name for v in ends.initial_indices])
    pairs = zip(ends.final_indices[::2], ends.final_indices[1::2], strict=True)
    return f"lambda {names}: ({''.join([f'({low}, {high}), ' for low, high in pairs]).rstrip()})"


def _show(value: Any, names: dict[Any, str]) -> str:
    if isinstance(value, Handle):
        return names.get(value, "_")
    if isinstance(value, (list, tuple)):
        items = ", ".join([_show(v, names) for v in value])
        return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_show(k, names)}: {_show(v, names)}" for k, v in value.items()]) + "}"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, IntImm):
        return repr(bool(value.value)) if value.dtype == "bool" else str(value.value)
    if isinstance(value, FloatImm):
        return repr(value.value)
    if isinstance(value, StringImm):
        return json.dumps(value.value)
    as_python = getattr(value, "as_python", None)
    return as_python() if as_python is not None else repr(value)


class Trace:
    """Instructions in order, and the decisions of the sampling instructions."""

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
        """Replay the instructions on another schedule of the same program.

        decision_provider(inst, inputs, attrs, decision) can return another decision for each sampling instruction.
        """
        env: dict[Any, Any] = {}
        insts = list(self._before_postproc() if remove_postproc else self.insts)
        for step, inst in enumerate(insts):
            values = [_renamed(v, env) for v in inst.values]
            kind = inst.kind
            if kind.is_sampling:
                decision = self.decisions.get(inst)
                if decision_provider is not None:
                    decision = decision_provider(inst, inst.inputs, inst.attrs, decision)
                values[kind.names.index("decision")] = decision
            env.update(
                zip(inst.outputs, _replayed(sch, kind, values, len(inst.outputs), step, len(insts)), strict=True)
            )

    def apply_to_similar(self, sch: Schedule) -> list[Instruction]:
        """Replay the instructions on a schedule of another program, where they fit. Returns those that are left out: they name a block
        that is not there, use what such instructions give, or are refused."""
        env: dict[Any, Any] = {}
        missing: set[Any] = set()
        left_out: list[Instruction] = []
        insts = list(self.insts)
        for step, inst in enumerate(insts):
            used: set[Any] = set()
            _collect(inst.values, used)
            try:
                if used & missing:
                    raise ScheduleError("it uses what is missing")
                values = [_renamed(v, env) for v in inst.values]
                if inst.kind.is_sampling:
                    values[inst.kind.names.index("decision")] = self.decisions.get(inst)
                found = _replayed(sch, inst.kind, values, len(inst.outputs), step, len(insts))
            except ScheduleError:
                missing.update(inst.outputs)
                left_out.append(inst)
                continue
            env.update(zip(inst.outputs, found, strict=True))
        return left_out

    def simplified(self, remove_postproc: bool = True) -> Trace:
        """The trace without instructions that change nothing and whose results are not used."""
        used: set[Any] = set()
        kept: list[Instruction] = []
        for inst in reversed(self._before_postproc() if remove_postproc else self.insts):
            if inst.kind.is_pure and not any([o in used for o in inst.outputs]):
                continue
            kept.append(inst)
            _collect(inst.values, used)
        kept.reverse()
        return Trace(kept, {i: d for i, d in self.decisions.items() if i in set(kept)})

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """One statement `l1, l2 = sch.split(loop=l0, ...)` per instruction."""
        names: dict[Any, str] = {}
        insts = self._before_postproc() if remove_postproc else self.insts
        return [inst.as_python(names, self.decisions.get(inst)) for inst in insts]

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """[[[kind, inputs, attrs, outputs], ...], [[index, decision], ...]] of plain lists, numbers and strings.

        Handles are written as their names. A string in the place of a handle is written in quotes.
        """
        names: dict[Any, str] = {}
        rows: list[Any] = []
        decisions: list[Any] = []
        for i, inst in enumerate(self._before_postproc() if remove_postproc else self.insts):
            inputs = [_to_json(v, names, True) for v in inst.inputs]
            outputs = [_name(o, names) for o in inst.outputs]
            rows.append([inst.kind.name, inputs, [_to_json(a, names, False) for a in inst.attrs], outputs])
            if inst in self.decisions:
                decisions.append([i, _to_json(self.decisions[inst], names, False)])
        return [rows, decisions]

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Schedule) -> None:
        """Replay the result of `as_json` on a schedule of the same program."""
        rows, decisions = json_obj
        decided = dict(decisions)
        env: dict[str, Any] = {}
        for i, (name, inputs, attrs, outputs) in enumerate(rows):
            kind = InstructionKind.get(name)
            values = _unflatten(
                kind, [_from_json(v, env, True) for v in inputs], [_from_json(a, env, False) for a in attrs]
            )
            if kind.is_sampling:
                values[kind.names.index("decision")] = decided.get(i)
            env.update(zip(outputs, _replayed(sch, kind, values, len(outputs), i, len(rows)), strict=True))

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the trace as Python."""
        print(self)

    def __str__(self) -> str:
        lines = ["# from tilewright import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
        return "\n".join([*lines, *[f"  {line}" for line in self.as_python() or ["pass"]]])

    __repr__ = __str__


def _replayed(sch: Schedule, kind: InstructionKind, values: list[Any], count: int, step: int, steps: int) -> list[Any]:
    """The results of a step, `count` in number. Raises ScheduleError if the program is not the one that was scheduled."""
    where = f"step {step + 1} of the {steps} of a trace does not fit this program"
    try:
        outputs = sch._run(kind, values)
    except ScheduleError as error:
        raise ScheduleError(f"{where}: {error}") from None
    if len(outputs) != count:
        raise ScheduleError(
            f"{where}: {kind.method} gave {count} results when it was recorded, but gives {len(outputs)} here"
        )
    return outputs


def _renamed(value: Any, env: dict[Any, Any]) -> Any:
    if isinstance(value, Handle):
        return env.get(value, value)
    if isinstance(value, (list, tuple)):
        return type(value)([_renamed(v, env) for v in value])
    if isinstance(value, dict):
        return {k: _renamed(v, env) for k, v in value.items()}
    return value


def _collect(value: Any, found: set[Any]) -> None:
    """The handles in an argument."""
    if isinstance(value, Handle):
        found.add(value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            _collect(v, found)
    elif isinstance(value, dict):
        _collect(list(value.values()), found)


def _to_json(value: Any, names: dict[Any, str], is_input: bool) -> Any:
    if isinstance(value, Handle):
        return names[value]
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype == "bool" else value.value
    if isinstance(value, FloatImm):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_to_json(v, names, is_input) for v in value]
    if isinstance(value, StringImm):
        value = value.value
    if isinstance(value, str):
        return f'"{value}"' if is_input else value
    if isinstance(value, Node):
        return {"node": save_json(value)}
    if isinstance(value, dict):
        return {"dict": [[k, _to_json(v, names, is_input)] for k, v in value.items()]}
    return value


def _from_json(value: Any, env: dict[str, Any], is_input: bool) -> Any:
    if isinstance(value, str) and is_input:
        return value[1:-1] if value.startswith('"') else env[value]
    if isinstance(value, list):
        return [_from_json(v, env, is_input) for v in value]
    if isinstance(value, dict):
        if "node" in value:
            return load_json(value["node"])
        return {k: _from_json(v, env, is_input) for k, v in value["dict"]}
    return value


def _unflatten(kind: InstructionKind, inputs: list[Any], attrs: list[Any]) -> list[Any]:
    """Arguments in the order of the parameters."""
    single = sum([i and not many for i, many in zip(kind.is_input, kind.is_list, strict=True)])
    values: list[Any] = []
    ins, rest = iter(inputs), iter(attrs)
    for name, is_input, is_list in zip(kind.names, kind.is_input, kind.is_list, strict=True):
        if name == "decision":
            values.append(None)
        elif not is_input:
            values.append(next(rest))
        elif is_list:
            values.append([next(ins) for _ in range(len(inputs) - single)])
        else:
            values.append(next(ins))
    return values


def primitive(
    function: Callable[Concatenate[Any, P], R],
    is_sampling: bool = False,
    canonical: Callable[..., None] | None = None,
) -> Callable[Concatenate[Any, P], R]:
    """Make a method of Schedule from a function. Errors get the name of the primitive and the program; calls are
    recorded.
    """
    kind = InstructionKind(function, is_sampling, canonical)

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        values = kind.bind(args, kwargs)
        outputs = self._run(kind, values)
        if self._last_was_list:
            return outputs
        return outputs[0] if outputs else None

    method.kind = kind  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[Any, P], R]", method)


def recorded_as(
    canonical: Callable[..., None],
) -> Callable[[Callable[Concatenate[Any, P], R]], Callable[Concatenate[Any, P], R]]:
    """A primitive whose arguments `canonical(schedule, values)` converts, in place, to forms that a trace can record."""
    return functools.partial(primitive, canonical=canonical)


def sampling(function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A primitive that draws a decision: it takes `decision` and returns `(outputs, decision)`."""
    return primitive(function, is_sampling=True)


def run(s: Schedule, kind: InstructionKind, values: list[Any]) -> list[Any]:
    """Execute and record one instruction, and return its outputs as a list. A refusal leaves the schedule as it was."""
    for i, by_name in enumerate(kind.takes_block_name):
        if by_name:
            if isinstance(values[i], str):
                values[i] = s.get_block(values[i])
            elif isinstance(values[i], (list, tuple)):
                values[i] = [s.get_block(v) if isinstance(v, str) else v for v in values[i]]
    if kind.method == "get_block" and values[1] is None:
        values[1] = s._default_function_name()
    before = s.state.mark()
    try:
        if s.state.aliases is not None and s.state.enable_check and not kind.keeps_order:
            refuse(
                "the program must not use the same memory as {0} and as {1}, for dependences are found by buffers",
                *s.state.aliases,
            )
        if kind.canonical is not None:
            kind.canonical(s, values)
        if kind.variadic is not None:
            v = kind.variadic
            keywords = dict(zip(kind.names[v + 1 :], values[v + 1 :], strict=True))
            result = kind.function(s, *values[:v], *values[v], **keywords)
        else:
            result = kind.function(s, *values)
    except Violation as v:
        error = render(kind.method, v, s.mod, s.error_render_level)
        s.state.reset(before)
        raise error from None
    decision = None
    if kind.is_sampling:
        result, decision = result
    s._last_was_list = isinstance(result, (list, tuple))
    outputs = list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]
    if s._trace is not None:
        s._trace.append(Instruction.of(kind, values, outputs), decision)
    if s.state.debug_mask:
        verify(s.state, s.state.debug_mask)
    return outputs
