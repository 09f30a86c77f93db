"""Bytecode of relay functions in A-normal form: values in registers, branches as jumps, primitive functions as kernel calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import GlobalVar, IRModule, Op, TensorType, TupleType, Type
from tilewright.node import deep_recursion
from tilewright.relay.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.kernels.tensor_graph import tensor_types
from tilewright.relay.backend.planning.aliases import Joined, Memory, copying, has_known_memory
from tilewright.relay.backend.planning.constants import ConstantPool
from tilewright.relay.backend.te_compiler import is_view
from tilewright.relay.backend.vm.code import NUMBER, Label, Program, TensorSpec, VMFunction
from tilewright.relay.backend.vm.sizes import DynamicCall, Sizes, is_static, named
from tilewright.relay.cards.card import TypeRuleError
from tilewright.relay.cards.open_attributes import has_sizes
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.functor import free_vars, post_order, substitute
from tilewright.relay.op.data_dependent.dynamic import Dynamic
from tilewright.relay.printer import Printer
from tilewright.relay.size_rules import NUMBER as NUMBER_ITSELF
from tilewright.relay.size_rules import STATED, SizeRule, StatedRule, size_rules
from tilewright.relay.texts import span_text
from tilewright.relay.transform.functional.lambda_lift import CLOSURE
from tilewright.relay.transform.memory.device_planner import is_copy
from tilewright.relay.typing.infer_type import infer_types
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import TVMError
from tilewright.tir import EQ
from tilewright.tir import Var as SizeName
from tilewright.tir.buffer import DATA_ALIGNMENT

TUPLE_TAG = 0
"""The tag of tuples, which the runtime stores like values of data types."""


class ProgramCompiler:
    """Compiles the functions of a module, optimised and in A-normal form, to one program."""

    def __init__(self, mod: IRModule, compiler: DeviceCompilers) -> None:
        self.mod, self.compiler = mod, compiler
        self.program = Program(compiler.config.devices)
        self.pool = ConstantPool()
        self.constants: dict[tuple[int, int], int] = {}
        """(number in the pool, number of the device) -> index in the program."""
        self.kernel_index: dict[str, int] = {}
        self.functions: dict[str, int] = {}
        self.captures: dict[str, int] = {}

    def run(self) -> Program:
        """The program. Its kernels are in the TECompiler, its constants in the pool."""
        todo = []
        for gvar, f in self.mod.functions.items():
            if not isinstance(f, Function) or f.is_primitive:
                continue
            params, body = list(f.params), f.body
            if f.attrs.get(CLOSURE):
                # In A-normal form, a lifted function binds the function that it returns to a variable.
                body = body.value if isinstance(body, Let) else body
                assert isinstance(body, Function)
                self.captures[gvar.name_hint] = len(params)
                params, body = [*params, *body.params], body.body
            self.functions[gvar.name_hint] = len(self.program.functions)
            made = VMFunction(gvar.name_hint, [(p.name_hint, self.param_type(p)) for p in params])
            self.program.functions.append(made)
            todo.append((made, params, body, f.attrs.get(STATED) or ()))
        for made, params, body, stated in todo:
            with deep_recursion():
                _FunctionCompiler(self, made, params, stated).compile(body)
            made.free_dead_registers()
        return self.program

    def param_type(self, p: Var) -> int:
        t = type_of(p) or p.type_annotation
        return self.program.type_index(spec_of(t, self.compiler.number(p))) if isinstance(t, TensorType) else -1

    def constant(self, value: np.ndarray, device: int) -> int:
        """The operand of a constant on a device."""
        key = self.pool.add(value), self.compiler.at_hand(device)
        if key not in self.constants:
            self.constants[key] = len(self.program.constants)
            array = self.pool.arrays[key[0]]
            spec = spec_of(tensor_type(array.shape, array.dtype.name), key[1])
            self.program.constants.append((self.program.type_index(spec), self.pool.offsets[key[0]]))
        return -1 - self.constants[key]

    def kernel(self, func: Function, value: Expr, sizes: Sequence[SizeName] = ()) -> int:
        """The index of the kernel of a primitive function that computes a value."""
        name = self.compiler.kernel(func, value, sizes).name
        if name not in self.kernel_index:
            self.kernel_index[name] = len(self.program.kernels)
            self.program.kernels.append((name, self.compiler.number(value)))
        return self.kernel_index[name]


def spec_of(t: TensorType, device: int = 0) -> TensorSpec:
    """The description of a tensor type for the runtime."""
    return TensorSpec(t.dtype, tuple([_dimension(d) for d in t.shape]), device)


def _dimension(d: Any) -> int:
    value = getattr(d, "value", -1)
    return int(value) if isinstance(value, int) else -1


class _FunctionCompiler:
    def __init__(
        self, home: ProgramCompiler, out: VMFunction, params: Sequence[Var], stated: Sequence[StatedRule]
    ) -> None:
        self.home, self.out = home, out
        self.registers: dict[Expr, int] = {}
        self.types: dict[int, Type] = {}
        """Register -> the type of its value, in terms of the named sizes of this function."""
        self.sizes = Sizes(out)
        self.joined: dict[Expr, _JoinedLets] = {}
        """Concatenations without a kernel, and calls that compute their parts."""
        self.around = 0
        """The number of the device for a constant that is a result."""
        self.cut: dict[Expr, int] = {}
        """Slice without a kernel -> its offset in its argument, in bytes."""
        for i, p in enumerate(params):
            t = type_of(p) or p.type_annotation
            self.registers[p] = i
            if t is not None:
                self.note(i, named(t, p.name_hint))
        self.check_sizes(
            size_rules([p.name_hint for p in params], [self.types.get(i) for i in range(len(params))], stated)
        )

    def check_sizes(self, rules: Sequence[SizeRule]) -> None:
        """Emits checks of the extents of arguments by the rules."""
        for rule in rules:
            for v, (parameter, axis) in rule.extents.items():
                self.sizes.registers[v] = self.extent(parameter, axis)
            text = rule.message([NUMBER] * len(rule.extents))
            self.sizes.need(rule.condition, self.home.program.message(text), list(rule.extents))

    def extent(self, parameter: int, axis: int) -> int:
        """The register of an extent of a parameter, or of a number if the extent is static."""
        t = self.types[parameter]
        d = t.shape[axis] if isinstance(t, TensorType) and axis != NUMBER_ITSELF else None
        if isinstance(d, SizeName) and self.sources.get(d) == (parameter, axis):
            return self.sizes.register(d)
        made = self.out.register()
        if axis == NUMBER_ITSELF:
            self.out.emit("load_element", made, parameter, self.sizes.number(0))
        else:
            self.out.emit("shape_of", made, parameter, axis)
        return made

    @property
    def sources(self) -> dict[SizeName, tuple[int, int]]:
        return self.sizes.sources

    def note(self, register: int, t: Type | None) -> None:
        """Records the type of a register's value from here on."""
        if t is not None:
            self.types[register] = t
            self.sizes.bind(register, t)

    def type_at(self, operand: int, e: Expr) -> Type:
        """The type of an operand that holds the expression `e`."""
        return self.types.get(operand) or e.checked_type

    def compile(self, body: Expr) -> None:
        """Compiles the body of the function."""
        self.around = self.home.compiler.number(body)
        self.tail(body)

    # ---- expressions

    def atom(self, e: Expr, beside: Expr | None = None) -> int:
        """The operand of a variable, constant, function or other value. A constant is put on the device of `beside`."""
        if e in self.registers:
            return self.registers[e]
        if isinstance(e, Constant):
            return self.home.constant(e.value, self.home.compiler.number(beside) if beside is not None else self.around)
        if isinstance(e, Var):
            raise TVMError(f"{self.out.name}: the variable %{e.name_hint} is not bound here")
        return self.value(e)

    def value(self, e: Expr) -> int:
        """The operand of an expression, which is computed into a new register unless it is a value already."""
        if isinstance(e, (Var, Constant)):
            return self.atom(e)
        if isinstance(e, TupleGetItem) and isinstance(e.tuple_value, Tuple):
            return self.atom(e.tuple_value.fields[e.index])
        made = self.out.register()
        self.into(made, e)
        if made not in self.types:
            t = type_of(e)
            self.note(made, named(t, f"{self.out.name}_{made}") if t is not None else None)
        return made

    def into(self, dst: int, e: Expr) -> None:
        """Computes an expression into a register."""
        emit = self.out.emit
        if isinstance(e, Let):
            self.into(dst, self.bindings(e))
        elif isinstance(e, (Var, Constant)):
            emit("move", dst, self.atom(e))
        elif isinstance(e, Tuple):
            fields = [self.atom(f, e) for f in e.fields]
            emit("alloc_adt", dst, TUPLE_TAG, fields)
            self.note(dst, TupleType(tuple([self.type_at(r, f) for r, f in zip(fields, e.fields, strict=True)])))
        elif isinstance(e, TupleGetItem):
            whole = self.atom(e.tuple_value)
            emit("get_field", dst, whole, e.index)
            t = self.type_at(whole, e.tuple_value)
            self.note(dst, t.fields[e.index] if isinstance(t, TupleType) else None)
        elif isinstance(e, GlobalVar):
            emit("alloc_closure", dst, self.function(e), [])
        elif isinstance(e, If):
            self.branch(e, dst)
        elif isinstance(e, Match):
            self.match(e, dst)
        elif isinstance(e, RefCreate):
            emit("ref_new", dst, self.atom(e.value))
        elif isinstance(e, RefRead):
            emit("ref_read", dst, self.atom(e.ref))
        elif isinstance(e, RefWrite):
            emit("ref_write", self.atom(e.ref), self.atom(e.value))
            emit("alloc_adt", dst, TUPLE_TAG, [])
        elif isinstance(e, Call):
            self.call(e, dst)
        else:
            raise TVMError(f"{self.out.name}: the virtual machine cannot run {type(e).__name__}:\n{e}")

    def tail(self, e: Expr) -> None:
        """Computes an expression and returns its value. A tail call replaces the frame of its caller."""
        e = self.bindings(e)
        if isinstance(e, If):
            self.branch(e, None)
        elif isinstance(e, Match):
            self.match(e, None)
        elif isinstance(e, Call) and self.is_function_call(e):
            args = self.arguments(e)
            if isinstance(e.op, GlobalVar):
                self.out.emit("tail_invoke", self.function(e.op), args)
            else:
                self.out.emit("tail_invoke_closure", self.atom(e.op), args)
        else:
            self.out.emit("ret", self.value(e))

    def finish(self, dst: int | None, e: Expr, whole: Expr) -> None:
        """Computes a branch of `whole` into a register, or returns its value (dst: None). Facts about registers end with the branch."""
        outside, around = self.sizes, self.around
        self.sizes, self.around = Sizes(self.out, outside), self.home.compiler.number(whole)
        if dst is None:
            self.tail(e)
        else:
            self.into(dst, e)
            # Another branch may give the result another size.
            self.types.pop(dst, None)
        self.sizes, self.around = outside, around

    def bindings(self, e: Expr) -> Expr:
        """Computes the bindings of a chain of lets, and returns its result. If that is the last variable, its value is returned instead."""
        lets: list[Let] = []
        while isinstance(e, Let):
            lets.append(e)
            e = e.body
        while lets and lets[-1].var is e:
            e = lets.pop().value
        found = _JoinedLets(lets, e, self.home.compiler)
        self.joined.update(dict.fromkeys([*found.joined.calls, *found.joined.whole], found))
        self.cut.update({node: offset for node, (_, offset) in found.memory.cut.items()})
        for let in lets:
            self.registers[let.var] = self.value(let.value)
        return e

    # ---- control flow

    def branch(self, e: If, dst: int | None) -> None:
        otherwise, end = Label(), Label()
        self.out.emit("if", self.atom(e.cond), otherwise)
        self.finish(dst, e.true_branch, e)
        if dst is not None:
            self.out.emit("goto", end)
        self.out.place(otherwise)
        self.finish(dst, e.false_branch, e)
        if dst is not None:
            self.out.place(end)

    def match(self, e: Match, dst: int | None) -> None:
        data, end = self.atom(e.data), Label()
        outside = self.sizes
        for c in e.clauses:
            otherwise = Label()
            self.sizes = Sizes(self.out, outside)
            self.test(c.lhs, data, otherwise)
            self.finish(dst, c.rhs, e)
            self.sizes = outside
            if dst is not None:
                self.out.emit("goto", end)
            self.out.place(otherwise)
        where = span_text(e.span)
        clauses = ", ".join([Printer().pattern(c.lhs) for c in e.clauses])
        text = f"{where + ': ' if where else ''}no clause of the match fits the value; its clauses are {clauses}"
        self.out.emit("fatal", self.home.program.message(text + ". Add a clause `_ => ...` for the rest"))
        if dst is not None:
            self.out.place(end)

    def test(self, p: Pattern, data: int, otherwise: Label) -> None:
        """Emits a jump to `otherwise` if a value does not match a pattern. Binds the pattern's variables if it does."""
        if isinstance(p, PatternVar):
            self.registers[p.var] = data
            t = type_of(p.var) or p.var.type_annotation
            if data not in self.types and t is not None:
                self.note(data, named(t, p.var.name_hint))
        elif isinstance(p, PatternConstructor):
            if p.constructor.type_data is None or len(p.constructor.type_data.constructors) > 1:
                self.out.emit("if_tag", data, p.constructor.tag, otherwise)
            self.fields(p.patterns, data, otherwise)
        elif isinstance(p, PatternTuple):
            self.fields(p.patterns, data, otherwise)

    def fields(self, patterns: Sequence[Pattern], data: int, otherwise: Label) -> None:
        for i, p in enumerate(patterns):
            if isinstance(p, (PatternVar, PatternConstructor, PatternTuple)):
                field = self.out.register()
                self.out.emit("get_field", field, data, i)
                self.test(p, field, otherwise)

    # ---- calls

    def function(self, gvar: GlobalVar) -> int:
        found = self.home.functions.get(gvar.name_hint)
        if found is None:
            raise TVMError(
                f"{self.out.name}: @{gvar.name_hint} is called, but the module has no relay function of that name"
            )
        return found

    def is_function_call(self, e: Call) -> bool:
        """Whether a call is of a relay function, which may call this one in turn."""
        if isinstance(e.op, GlobalVar):
            return e.op.name_hint not in self.home.captures
        return not isinstance(e.op, Constructor) and not (isinstance(e.op, Function) and e.op.is_primitive)

    def call(self, e: Call, dst: int) -> None:
        if isinstance(e.op, Function) and e.op.is_primitive:
            if e in self.joined and e in self.joined[e].joined.calls:
                self.join(e, dst)
            else:
                self.primitive(e, e.op, dst)
            return
        if isinstance(e.op, Constructor):
            args = [self.atom(a, e) for a in e.args]
            self.out.emit("alloc_adt", dst, e.op.tag, args)
        elif isinstance(e.op, GlobalVar):
            captured = self.home.captures.get(e.op.name_hint)
            kind = "invoke" if captured is None else "alloc_closure"
            self.out.emit(kind, dst, self.function(e.op), self.arguments(e))
        else:
            args = self.arguments(e)
            self.out.emit("invoke_closure", dst, self.atom(e.op), args)

    def arguments(self, e: Call) -> list[int]:
        """The operands of a call of a function. Constants among them are on the devices of its parameters."""
        found = []
        for a, number in zip(e.args, self.home.compiler.params(e), strict=True):
            found.append(self.home.constant(a.value, number) if isinstance(a, Constant) else self.atom(a))
        return found

    def primitive(self, e: Call, func: Function, dst: int) -> None:
        operands = [self.atom(a, e) for a in e.args]
        types = [self.type_at(r, a) for r, a in zip(operands, e.args, strict=True)]
        inputs = [x for r, t in zip(operands, types, strict=True) for x in self.leaves(r, t)]
        given: list[int] = []
        sizes: list[SizeName] = []
        result: Type = e.checked_type
        if isinstance(func.body, Call) and isinstance(func.body.attrs, Dynamic):
            func, kept = self.with_values(func, e, operands, types)
            operands, types = [operands[i] for i in kept], [types[i] for i in kept]
            inputs = [x for r, t in zip(operands, types, strict=True) for x in self.leaves(r, t)]
            result = func.body.checked_type
        symbolic = any([isinstance(n, Call) and has_sizes(n.attrs) for n in post_order(func.body)])
        if symbolic or not (is_static(result) and all(map(is_static, types))):
            call = DynamicCall(func, types)
            func, sizes, result = call.func, call.sizes, call.result
            for a, b, rule in call.assumed:
                text = f"{rule} ({operators(func)}), but they are {NUMBER} and {NUMBER}"
                self.sizes.need(EQ(a, b), self.home.program.message(text), [a, b])
            if is_view(func):
                assert isinstance(result, TensorType)
                self.out.emit("reshape", dst, inputs[0], [self.sizes.register(d) for d in result.shape])
                self.note(dst, result)
                return
            given = [self.sizes.register(v) for v in call.values]
        elif is_view(func):
            assert isinstance(result, TensorType)
            self.out.emit("reshape_static", dst, inputs[0], self.home.program.type_index(spec_of(result)))
            return
        if e in self.cut:
            assert isinstance(result, TensorType)
            self.show(inputs[0], self.cut[e], dst, result)
            return
        outputs: list[int] = []
        number = self.home.compiler.number(e)
        if is_copy(e) is not None and self.home.compiler.crosses(e):
            assert isinstance(result, TensorType)
            self.allocate(result, dst, outputs, number)
            self.out.emit("copy", inputs[0], dst)
            return
        index = self.home.kernel(func, e, sizes)
        if e in self.joined:
            self.part(e, dst)
            self.out.emit("kernel", index, given, [*inputs, dst])
            return
        pack = self.allocate(result, dst, outputs, number)
        self.out.emit("kernel", index, given, [*inputs, *outputs])
        pack()

    def join(self, e: Call, dst: int) -> None:
        """Emits a concatenation whose parts were computed in its memory, except for those that must be copied there."""
        self.part(e, dst)
        lets = self.joined[e]
        _, first = lets.joined.at(e)
        for value, offset in lets.joined.copied(e):
            (t,) = tensor_types(value.checked_type)
            to = self.out.register()
            self.show(lets.register(e, self), first + offset, to, t)
            self.out.emit("kernel", self.home.kernel(copying(t), e), [], [self.atom(value, e), to])

    def part(self, e: Call, dst: int) -> None:
        """Emits a view of the memory of a call's result in that of a concatenation."""
        lets = self.joined[e]
        (t,) = tensor_types(e.checked_type)
        self.show(lets.register(e, self), lets.joined.at(e)[1], dst, t)

    def show(self, whole: int, offset: int, dst: int, t: TensorType) -> None:
        """Emits a view of type `t` of another tensor, at byte `offset`."""
        index = self.home.program.type_index(spec_of(t))
        self.out.emit("part_static", dst, whole, offset // DATA_ALIGNMENT, index)
        self.note(dst, t)

    def with_values(
        self, func: Function, site: Call, operands: Sequence[int], types: Sequence[Type]
    ) -> tuple[Function, list[int]]:
        """A primitive function of one dynamic operator as that of the static operator, whose attributes are values that are read here;
        and the operands that it takes."""
        call: Any = func.body
        card: Any = call.attrs
        places = {p: i for i, p in enumerate(func.params)}
        values: dict[int, list[Any]] = {}
        for place in card.reads():
            if place >= len(call.args):
                continue
            a: Any = call.args[place]
            if isinstance(a, Var) and isinstance(site.args[places[a]], Constant):
                a = site.args[places[a]]
            if isinstance(a, Constant):
                values[place] = [v.item() for v in a.value.reshape(-1)]
            else:
                t: Any = types[places[a]]
                values[place] = self.elements(operands[places[a]], t, a.name_hint)
        given = [types[places[a]] if isinstance(a, Var) else type_of(a) for a in call.args]
        try:
            static = card.static(card.settled(values, given))
        except TypeRuleError as error:
            raise TVMError(f"{self.out.name}: {card.type_key}: {error}") from None
        for condition, rule, number in card.needs(values):
            self.sizes.need(condition, self.home.program.message(f"{rule}, but it is {NUMBER}"), [number])
        kept: list[Any] = [call.args[i] for i in card.kept() if i < len(call.args)]
        used = {e for a in kept for e in post_order(a)}
        params = [Var(p.name_hint, types[places[p]]) for p in func.params if p in used]
        table: dict[Expr, Expr] = dict(zip([p for p in func.params if p in used], params, strict=True))
        body = Call(static.op, tuple([substitute(a, table) for a in kept]), static, (), call.span)
        made = Function(tuple(params), body, None, (), func.attrs)
        infer_types(made)
        return made, [i for i, p in enumerate(func.params) if p in used]

    def elements(self, operand: int, t: TensorType, name: str) -> list[Any]:
        """Reads the elements of a small tensor into registers, and returns variables for them."""
        count = int(np.prod(t.concrete_shape, dtype=np.int64))
        if not (t.dtype.is_int or t.dtype.is_uint):
            raise TVMError(
                f"{self.out.name}: the elements of {name} ({t}) decide a shape, but only integers can be read when a program runs."
                " Cast them, or make them constants"
            )
        found: list[Any] = []
        for i in range(count):
            register = self.out.register()
            self.out.emit("load_element", register, operand, self.sizes.number(i))
            found.append(SizeName(f"{name}_{i}", "int64"))
            self.sizes.registers[found[-1]] = register
        return found

    def allocate(self, t: Type, dst: int, outputs: list[int], device: int) -> Callable[[], None]:
        """Allocates registers for a result on a device, and adds them to `outputs`. Returns a function to call once they are written."""
        if isinstance(t, TensorType):
            index = self.home.program.type_index(spec_of(t, device))
            if is_static(t):
                self.out.emit("alloc_static", dst, index)
            else:
                self.out.emit("alloc", dst, index, [self.sizes.register(d) for d in t.shape])
            self.note(dst, t)
            outputs.append(dst)
            return lambda: None
        assert isinstance(t, TupleType)
        parts = [self.out.register() for _ in t.fields]
        after = [self.allocate(f, r, outputs, device) for f, r in zip(t.fields, parts, strict=True)]

        def pack() -> None:
            for step in after:
                step()
            self.out.emit("alloc_adt", dst, TUPLE_TAG, parts)
            self.note(dst, t)

        return pack

    def leaves(self, operand: int, t: Type | None) -> list[int]:
        """The operands of the tensors of a value, with tuples taken apart."""
        if not isinstance(t, TupleType):
            return [operand]
        found = []
        for i, f in enumerate(t.fields):
            part = self.out.register()
            self.out.emit("get_field", part, operand, i)
            self.note(part, f)
            found += self.leaves(part, f)
        return found


class _JoinedLets:
    """The slices and concatenations without a kernel in a chain of bindings, and the registers for the memory of the concatenations."""

    def __init__(self, lets: Sequence[Let], last: Expr, compiler: DeviceCompilers) -> None:
        memory = self.memory = Memory()
        order = [*[let.value for let in lets], last]
        memory.shown.update({let.var: let.value for let in lets})
        memory.shown.update(
            {e: e.args[0] for e in order if isinstance(e, Call) and isinstance(e.op, Function) and is_view(e.op)}
        )
        memory.cut_slices(order, kept(order, memory) | {last}, compiler.number)
        self.joined = Joined(order, memory, kept(order, memory), compiler.number)
        self.registers: dict[Expr, int] = {}

    def register(self, e: Expr, to: _FunctionCompiler) -> int:
        """The register of the memory that calls write part by part. It is allocated before the first part."""
        whole, _ = self.joined.at(e)
        if whole not in self.registers:
            (t,) = tensor_types(whole.checked_type)
            self.registers[whole] = to.out.register()
            to.allocate(t, self.registers[whole], [], to.home.compiler.number(whole))
        return self.registers[whole]


def kept(order: Sequence[Expr], memory: Memory) -> set[Expr]:
    """The values of a chain of bindings that are used outside of its kernels: results, fields, arguments, values in branches. If one of
    them were a part of a larger value, it would keep all memory of that value."""
    found: set[Expr] = set()
    for node in order:
        if not has_known_memory(node) and (node is order[-1] or not isinstance(node, (Tuple, TupleGetItem))):
            for e in [node, *free_vars(node)]:
                found.update(memory.leaves(e))
    return found


def operators(func: Function) -> str:
    """The operators of a primitive function, for messages."""
    return ", ".join([n.op.name for n in post_order(func.body) if isinstance(n, Call) and isinstance(n.op, Op)])
