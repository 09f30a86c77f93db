"""The walk over a TensorFlow graph: from its outputs back to their inputs, with functions and both kinds of control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.formats.tensorflow_messages import Message
from tilewright.ir import IRModule
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Expr, Var
from tilewright.relay.frontend.common.builder import MOST_PARTS, SMALL, need_few
from tilewright.relay.frontend.common.module import module_of, string_attrs
from tilewright.relay.frontend.common.sizes import InputSizes
from tilewright.relay.frontend.common.unsupported import DAMAGE, Problem, UnsupportedModel, finding_of
from tilewright.relay.frontend.common.value import StringTensor, Value, evaluate, near_text, problems_text, use_text
from tilewright.relay.frontend.tensorflow.assignments import called
from tilewright.relay.frontend.tensorflow.control import branch, loop
from tilewright.relay.frontend.tensorflow.execution_conditions import SWITCHES, Plan, split_ref
from tilewright.relay.frontend.tensorflow.fold import folders
from tilewright.relay.frontend.tensorflow.outputs import OUTPUTS, begin_of
from tilewright.relay.frontend.tensorflow.strings import evaluated, string_results
from tilewright.relay.frontend.tensorflow.tables import Contents
from tilewright.relay.frontend.tensorflow.tensors import tensor_array
from tilewright.relay.frontend.tensorflow.unsupported import reason
from tilewright.relay.frontend.tensorflow.value import (
    Handle,
    NodeCall,
    Result,
    Sizes,
    TensorList,
    converters,
    plain_attribute,
)
from tilewright.runtime.host_functions.strings import string_table
from tilewright.support.errors import DiagnosticError, ModelError, OpNotImplemented, TVMError, said

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
CONTROL = (
    *SWITCHES, "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond",
    "If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", *CALLS,
)  # fmt: skip
SOURCES = (
    "Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "Const", "VarHandleOp", "VariableV2", "Variable", "_Arg", "_Retval",
)  # fmt: skip
NEVER_FOLDED = ("Random", "TruncatedNormal", "Multinomial", "Parameterized", "Stateful", "Timestamp")
"""Prefixes of operators with different results in each call."""
DEPTH = 64
"""The maximum nesting depth of function calls."""


class Scope:
    """A scope of evaluated nodes: a graph, a function's body, or a round of a loop in it (`outer`: the scope around the loop)."""

    def __init__(
        self,
        nodes: Mapping[str, Message],
        attrs: Mapping[str, Any],
        title: str,
        outer: Scope | None = None,
        frame: str = "",
    ) -> None:
        self.nodes, self.attrs, self.title, self.outer, self.frame = nodes, attrs, title, outer, frame
        self.values: dict[str, list[Any]] = {}
        self.plan: Plan = outer.plan if outer is not None else Plan(nodes)

    def attribute(self, name: str) -> Any:
        """An attribute of the called function."""
        return self.attrs.get(name)


def reached(
    nodes: Mapping[str, Message], functions: Mapping[str, Message], outputs: Iterable[str]
) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """(nodes of its graph, node) for each node that outputs need, also in called functions."""
    seen: set[str] = set()
    waiting: list[tuple[Mapping[str, Any], list[str]]] = [(nodes, [split_ref(o)[0] for o in outputs])]
    while waiting:
        around, names = waiting.pop()
        found: set[str] = set()
        while names:
            node = around.get(names.pop())
            if node is None or node.name in found:
                continue
            found.add(node.name)
            yield around, node
            names += [split_ref(r)[0] for r in node.input if not r.startswith("^")]
            for inner in [*called(node), *([node.op] if node.op in functions else [])]:
                if inner in functions and inner not in seen:
                    seen.add(inner)
                    body = functions[inner]
                    waiting.append(({n.name: n for n in body.node_def}, [split_ref(r)[0] for r in body.ret.values()]))


class TensorFlowImporter:
    """One import of a TensorFlow graph."""

    def __init__(
        self,
        title: str,
        functions: Mapping[str, Message],
        variables: Callable[[str], np.ndarray],
        tables: Callable[[], Contents],
    ) -> None:
        self.title, self.functions, self.variables, self._tables = title, functions, variables, tables
        self.sizes = InputSizes()
        self.params: dict[str, np.ndarray] = {}
        self.weights: dict[str, Var] = {}
        self.inputs: dict[str, Value] = {}
        self.problems: list[Problem] = []
        self.depth = 0
        self.use_dense = True

    @cached_property
    def tables(self) -> Contents:
        """The contents of the model's tables."""
        return self._tables()

    # ---- checks of supported operators

    def known(self, op: str) -> bool:
        """Whether there is a converter for an operator."""
        return op in converters or op in CONTROL or op in SOURCES or op in folders or op in self.functions

    def check_supported(self, scope: Scope, outputs: Iterable[str]) -> set[str]:
        """The graph's nodes that the outputs need. Raises an error that lists their operators without a converter, also in functions."""
        missing: dict[str, list[str]] = {}
        first: set[str] = set()
        for nodes, node in reached(scope.nodes, self.functions, outputs):
            if nodes is scope.nodes:
                first.add(node.name)
            if not self.known(node.op):
                missing.setdefault(node.op, []).append(node.name)
            lost = next((n for n in called(node) if n not in self.functions), None)
            if lost is not None and node.op in CONTROL:
                raise ModelError(
                    f"{self.title}: {node.op} {node.name!r} calls the function {lost!r}, which the model does not have"
                )
        for op, names in sorted(missing.items()):
            why = reason(op)
            text = use_text(op, sorted(names)) + (f": {why}" if why else near_text(op, sorted([*converters, *CONTROL])))
            self.problems.append(Problem(text, op, sorted(names)))
        self.finish()
        return first

    def finish(self) -> None:
        """Raises the errors that were collected so far."""
        if self.problems:
            raise UnsupportedModel(problems_text(self.title, list(self.problems)), self.problems)

    # ---- sources

    def weight(self, name: str, array: np.ndarray) -> Value:
        """A weight as a parameter of main; integers and small tensors become constants."""
        if array.dtype.kind not in "fV" or array.ndim == 0 or array.size <= 16:
            return Value(array=array, name=name)
        if name not in self.weights:
            self.weights[name] = Var(name, tensor_type(array.shape, array.dtype.name))
            self.params[name] = array
        return Value(self.weights[name], None, name)

    def variable(self, handle: Handle) -> Value:
        """The value of a variable."""
        try:
            return self.weight(handle.name, self.variables(handle.name))
        except ModelError as error:
            raise ModelError(
                f"{self.title}: {error}" if not str(error).startswith(self.title) else str(error)
            ) from None

    # ---- nodes

    def value(self, scope: Scope, ref: str) -> Any:
        """The tensor of a reference."""
        name, output = self.place(scope, ref)
        if name not in scope.values:
            self.evaluate(scope, name)
        found = scope.values[name]
        if found is _BROKEN:
            return _BROKEN_VALUE
        if output >= len(found):
            raise ModelError(f"{self.title}: {ref!r} is read, but {name!r} has {len(found)} results")
        return found[output]

    def place(self, scope: Scope, ref: str) -> tuple[str, int]:
        """(node, number of the output) of a reference. References in functions name an output and an index in it."""
        parts = ref.split(":")
        if len(parts) < 3:
            return split_ref(ref)
        name, output, k = parts[0], parts[1], int(parts[2])
        node = scope.nodes.get(name)
        names = OUTPUTS.get(node.op, ()) if node is not None else ()
        if node is not None and node.op in self.functions:
            names = tuple([a.name for a in self.functions[node.op].signature.output_arg])
        return name, (begin_of(node.op, output, names, node.attr) if node is not None else 0) + k

    def needs(self, scope: Scope, node: Message) -> list[str]:
        """The nodes of the same scope on which a node depends."""
        op = node.op
        if op in ("Exit", "RefExit") or op in ("Enter", "RefEnter"):
            return []
        if op in ("Merge", "RefMerge") and scope.plan.is_loop_merge(node):
            return []
        refs = [r for r in node.input if not r.startswith("^")]
        if op in ("Merge", "RefMerge"):
            return [split_ref(self.predicate(scope, node)[0])[0]]
        return [self.place(scope, r)[0] for r in refs]

    def evaluate(self, scope: Scope, name: str) -> None:
        """Evaluates a node and its dependencies."""
        waiting, on_the_way = [name], set()
        while waiting:
            at = waiting[-1]
            if at in scope.values:
                waiting.pop()
                on_the_way.discard(at)
                continue
            node = scope.nodes.get(at)
            if node is None:
                raise ModelError(
                    f"{self.title}: the tensor {at!r} is read, which no node of {scope.title} makes; the graph is damaged"
                )
            missing = [n for n in self.needs(scope, node) if n not in scope.values]
            if missing:
                if at in on_the_way:
                    raise ModelError(f"{self.title}: the node {at!r} depends on itself; the graph is damaged")
                on_the_way.add(at)
                waiting += missing
                continue
            scope.values[at] = self.node(scope, node)

    def node(self, scope: Scope, node: Message) -> Any:
        """The results of a node with evaluated inputs."""
        title = f"{node.op} {node.name!r}"
        try:
            return self.convert(scope, node)
        except UnsupportedModel:
            raise
        except NotImplementedError as error:
            if scope.outer is not None or self.depth:
                raise OpNotImplemented(f"{title}: {error}") from None
            self.problems.append(Problem(f"{title}: {error}", node.op, [node.name]))
            return _BROKEN
        except ModelError as error:
            raise ModelError(
                str(error) if str(error).startswith(self.title) else f"{self.title}: {title}: {error}"
            ) from None
        except TVMError as error:
            found = finding_of(error, node.name)
            raise DiagnosticError(
                found if found.startswith(self.title) else f"{self.title}: {title}: {found}"
            ) from None
        except DAMAGE as error:
            raise ModelError(
                f"{self.title}: {title} does not have the inputs or attributes that its operator has"
                f" ({said(error)}). Inputs: {', '.join(node.input)}"
            ) from error

    def convert(self, scope: Scope, node: Message) -> Any:
        op = node.op
        c = NodeCall(node, self, scope)
        if op == "Const":
            return [self.constant(c)]
        if op in ("Placeholder", "PlaceholderV2"):
            raise ModelError(
                f"the input {node.name!r} is needed, but is none of the model's inputs: {', '.join(self.inputs)}"
            )
        if op in ("VarHandleOp",):
            return [Handle("variable", c.attr("shared_name") or node.name)]
        if op in ("VariableV2", "Variable"):
            return [self.variable(Handle("variable", node.name))]
        if op in ("Exit", "RefExit"):
            return self.frame(scope, c)
        if op in ("Enter", "RefEnter"):
            if scope.outer is None:
                return [self.value(scope, node.input[0])]
            return [self.value(self.outside(scope, c.attr("frame_name")), node.input[0])]
        if op in ("Merge", "RefMerge"):
            return self.merge(scope, c)
        inputs = [self.value(scope, r) for r in node.input if not r.startswith("^")]
        if any([v is _BROKEN_VALUE for v in inputs]):
            return _BROKEN
        if op in SWITCHES:
            need_few(int(c.attr("num_outs", 2)), MOST_PARTS, "branches")
            return [inputs[0]] * int(c.attr("num_outs", 2))
        if op in ("LoopCond", "NextIteration", "RefNextIteration"):
            return inputs
        if op in CALLS:
            return self.call(c.attr("f").name, c.attr("f").attr, inputs)
        if op in self.functions:
            return self.call(op, node.attr, inputs)
        if op in ("If", "StatelessIf"):
            yes, no = c.attr("then_branch"), c.attr("else_branch")
            flag = self.flag(c, inputs[0])
            return branch(
                c,
                flag,
                lambda: self.call(yes.name, yes.attr, inputs[1:]),
                lambda: self.call(no.name, no.attr, inputs[1:]),
            )
        if op in ("Case", "StatelessCase"):
            return self.case(c, inputs)
        if op in ("While", "StatelessWhile"):
            cond, body = c.attr("cond"), c.attr("body")
            return loop(
                c,
                inputs,
                lambda now: self.call(cond.name, cond.attr, now)[0],
                lambda now: self.call(body.name, body.attr, now),
            )
        return self.operator(c, inputs)

    def operator(self, c: NodeCall, inputs: list[Any]) -> list[Any]:
        """The results of an operator, folded if its inputs are known."""
        symbolic = any([isinstance(v, Sizes) for v in inputs])
        folder = folders.get(c.op)
        if folder is not None and all([isinstance(v, Value) for v in inputs]):
            plain = all([v.array is not None for v in inputs])
            if c.op in ("Shape", "ShapeN", "Size", "Rank") or symbolic and plain:
                found = folder(c, *inputs)
                if found is not None:
                    return found if isinstance(found, list) else [found]
        converter = converters.get(c.op)
        if converter is None:
            raise OpNotImplemented("its inputs must be known at import")
        strings = any([isinstance(v, StringTensor) for v in inputs])
        made = results(string_results(c, converter, inputs) if strings else converter(c, *inputs))
        values = [v for v in inputs if isinstance(v, Value)]
        if (
            len(values) == len(inputs) and inputs and not c.op.startswith(NEVER_FOLDED)
            and all([v.is_number and v.array is not None and v.array.size <= SMALL for v in values])
        ):  # fmt: skip
            made = [evaluated(v) for v in made]
        return made

    def constant(self, c: NodeCall) -> StringTensor | Value:
        """The value of a Const node."""
        array = tensor_array(c.node.attr["value"].tensor, c.name)
        if array.dtype == object:
            return StringTensor(array=string_table.encode(array, keep=True), name=c.name)
        if c.node.name in self.params and self.params[c.node.name] is not array:
            return Value(array=array)
        if c.scope.title != "the graph":
            return Value(array=array)
        return self.weight(c.name, array)

    def flag(self, c: NodeCall, x: Value) -> Value:
        """A predicate. A tensor with axes is true if it has elements, a number if it is not 0."""
        if x.ndim:
            return Value(array=np.array(int(np.prod(c.static(x.shape, "the shape of its condition"))) > 0))
        return c.cast(x, "bool")

    def call(self, name: str, attrs: Mapping[str, Any], inputs: Sequence[Result]) -> list[Any]:
        """The results of a function of the model."""
        body = self.functions.get(name)
        if body is None:
            raise ModelError(f"it calls the function {name!r}, which the model does not have")
        if self.depth >= DEPTH:
            raise OpNotImplemented(f"functions are nested more than {DEPTH} deep")
        given = [a.name for a in body.signature.input_arg]
        if len(given) != len(inputs):
            raise ModelError(f"it gives the function {name!r} {len(inputs)} inputs, which takes {len(given)}")
        said = (
            {k: plain_attribute(a, body.node_def[0].name) for k, a in attrs.items() if not a.placeholder}
            if len(body.node_def)
            else {}
        )
        scope = Scope({n.name: n for n in body.node_def}, said, f"the function {name!r}")
        scope.values.update({n: [v] for n, v in zip(given, inputs, strict=True)})
        self.depth += 1
        try:
            return [self.value(scope, body.ret[a.name]) for a in body.signature.output_arg]
        finally:
            self.depth -= 1

    def case(self, c: NodeCall, inputs: list[Any]) -> list[Any]:
        """Branches by number; a number out of range takes the last."""
        branches, (index, *rest) = c.attr("branches"), inputs
        last = len(branches) - 1
        if index.is_number:
            k = int(index.array)
            chosen = branches[k if 0 <= k <= last else last]
            return self.call(chosen.name, chosen.attr, rest)

        def from_branch(k: int) -> list[Any]:
            f = branches[k]
            if k == last:
                return self.call(f.name, f.attr, rest)
            return branch(
                c, c.call("equal", index, k), lambda: self.call(f.name, f.attr, rest), lambda: from_branch(k + 1)
            )

        return from_branch(0)

    # ---- control flow of TensorFlow 1

    def predicate(self, scope: Scope, node: Message) -> tuple[str, list[str]]:
        """(the predicate or number that decides a Merge, its inputs in the order of the values: false, true, or from 0 on)."""
        data = [r for r in node.input if not r.startswith("^")]
        ways = []
        for ref in data:
            name, output = split_ref(ref)
            way = dict(scope.plan.condition(name))
            source = scope.nodes.get(name)
            if source is not None and source.op in SWITCHES:
                way[scope.plan.root(source.input[1])] = output
            ways.append(way)
        for key in ways[0] if ways else ():
            sides = [way.get(key, -1) for way in ways]
            if sorted(sides) == list(range(max(len(data), 2))):
                return key, [data[sides.index(k)] for k in range(len(data))]
        raise OpNotImplemented("it joins what no condition divided")

    def merge(self, scope: Scope, c: NodeCall) -> list[Any]:
        """The value of a Merge: both branches, with their predicate."""
        key, ways = self.predicate(scope, c.node)
        flag = self.value(scope, key)
        if flag is _BROKEN_VALUE:
            return list(_BROKEN_PAIR)
        if flag.dtype != "bool":
            return [self.numbered(scope, c, flag, ways, 0), flag]
        no, yes = ways
        flag = self.flag(c, flag)
        made = branch(c, flag, lambda: [self.value(scope, yes)], lambda: [self.value(scope, no)])
        place = c.cast(flag, "int32")
        first = list(c.node.input).index(no) == 0
        return [made[0], place if first else c.call("subtract", c.number(1, "int32"), place)]

    def numbered(self, scope: Scope, c: NodeCall, index: Value, ways: Sequence[str], k: int) -> Any:
        """The result of the branch from number k on; the last branch is for all other numbers."""
        if k == len(ways) - 1:
            return self.value(scope, ways[k])
        flag = c.call("equal", index, k)
        flag = evaluate(flag) if index.is_number else flag
        return branch(
            c, flag, lambda: [self.value(scope, ways[k])], lambda: [self.numbered(scope, c, index, ways, k + 1)]
        )[0]

    def outside(self, scope: Scope, frame: str) -> Scope:
        """The scope around a frame."""
        at: Scope | None = scope
        while at is not None and at.frame != frame:
            at = at.outer
        if at is None or at.outer is None:
            raise ModelError(f"the loop {frame!r} is entered from inside; the graph is damaged")
        return at.outer

    def frame(self, scope: Scope, c: NodeCall) -> list[Any]:
        """The value that leaves a loop. Its first exit imports the whole loop."""
        plan, nodes = scope.plan, scope.nodes
        switch = nodes.get(split_ref(c.node.input[0])[0])
        merge = nodes.get(split_ref(switch.input[0])[0]) if switch is not None else None
        enters = [nodes.get(split_ref(r)[0]) for r in merge.input] if merge is not None else []
        enter = next((e for e in enters if e is not None and e.op in ("Enter", "RefEnter")), None)
        if switch is None or merge is None or enter is None:
            raise OpNotImplemented("it leaves a loop that does not have the usual form")
        frame = enter.attr["frame_name"].s.decode(errors="replace")
        merges = plan.loop_merges(frame)
        entry, again = [], []
        for m in merges:
            for ref in m.input:
                source = nodes.get(split_ref(ref)[0])
                if source is not None and source.op in ("Enter", "RefEnter"):
                    entry.append(source.input[0])
                elif source is not None and source.op in ("NextIteration", "RefNextIteration"):
                    again.append(source.input[0])
        condition = switch.input[1]
        if len(entry) != len(merges) or len(again) != len(merges):
            raise OpNotImplemented("its loop does not have the usual form")

        def round_of(state: list[Result]) -> Scope:
            inner = Scope(nodes, scope.attrs, scope.title, scope, frame)
            inner.values.update({m.name: [s, s] for m, s in zip(merges, state, strict=True)})
            return inner

        rounds: dict[tuple[int, ...], Scope] = {}

        def at(state: list[Result]) -> Scope:
            # The condition and the round have the same values.
            key = tuple(map(id, state))
            if key not in rounds:
                rounds.clear()
                rounds[key] = round_of(state)
            return rounds[key]

        self.depth += 1
        try:
            start = [self.value(scope, e) for e in entry]
            last = loop(
                c, start, lambda s: self.value(at(s), condition), lambda s: [self.value(at(s), ref) for ref in again]
            )
        finally:
            self.depth -= 1
        for m, value in zip(merges, last, strict=True):
            for node in self.exits(plan, m):
                scope.values[node.name] = [value]
        return scope.values[c.node.name]

    def exits(self, plan: Plan, merge: Any) -> list[Any]:
        """The Exit nodes of a loop's variable."""
        switches = [n for n in plan.readers.get(merge.name, ()) if n.op in ("Switch", "RefSwitch")]
        return [n for s in switches for n in plan.readers.get(s.name, ()) if n.op in ("Exit", "RefExit")]

    # ---- the program

    def module(self, outputs: Sequence[Any], names: Sequence[str], variables: Sequence[Var]) -> IRModule:
        """The module of the outputs."""
        self.finish()
        fields: list[Expr] = []
        for name, v in zip(names, outputs, strict=True):
            if not isinstance(v, Value):
                kind = {TensorList: "a list of tensors", Handle: "a resource"}.get(type(v), "no tensor")
                raise OpNotImplemented(f"{self.title}: the output {name!r} is {kind}; tensors are supported")
            fields.append(v.expr)
        if not fields:
            raise ModelError(f"{self.title}: the model has no outputs. Name them: outputs=[...]")
        given = [n for n, v in self.inputs.items() if isinstance(v, StringTensor)]
        made = [n for n, v in zip(names, outputs, strict=True) if isinstance(v, StringTensor)]
        attrs = string_attrs(given, made)
        return module_of(self.title, [*variables, *self.weights.values()], fields, names, attrs)


class _Broken:
    """The placeholder for the result of a node with a reported error."""


_BROKEN: Any = _Broken()
_BROKEN_VALUE: Any = _Broken()
_BROKEN_PAIR = (_BROKEN_VALUE, _BROKEN_VALUE)


def results(found: Any) -> list[Any]:
    """The results of a converter, as a list."""
    if isinstance(found, np.ndarray):
        return [Value(array=found)]
    if isinstance(found, Expr):
        return [Value(found)]
    return [r for part in found for r in results(part)] if isinstance(found, (list, tuple)) else [found]
