"""PlanDevices: derives the device of each value from annotations, and inserts copies where values change devices.

Every value has a domain. Domains that must be on one device are joined: those of an operator's arguments and results, of a
tuple and its fields, of a let's variable and its value, of the branches of an if, of a function's arguments and its
parameters. Only `on_device` (with one side open) and `device_copy` separate two domains. Domains without a device get
the default device. Constants are available on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tilewright.ir import BaseFunc, FuncType, GlobalVar, IRModule, Op, TupleType, Type
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.adt import Constructor, Match, pattern_vars
from tilewright.relay.cards.card import OpCard, argument_names
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
from tilewright.relay.functor import ExprMutator, post_order
from tilewright.relay.op.program.devices import PARAM_DEVICES, RESULT_DEVICE, device_copy, on_device
from tilewright.relay.printer import Printer
from tilewright.relay.rewriting import card_of, typed
from tilewright.relay.source_map import caret
from tilewright.relay.texts import span_text
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import DiagnosticError
from tilewright.target.virtual_device import CompilationConfig, VirtualDevice

ANY = -1


class _Domain:
    """A device to be found, or the domains of a function's parameters and result."""

    __slots__ = ("device", "params", "parent", "result", "why")

    def __init__(self, params: Sequence[_Domain] | None = None, result: _Domain | None = None) -> None:
        self.parent: _Domain | None = None
        self.device, self.why = ANY, ""
        self.params, self.result = params, result

    def root(self) -> _Domain:
        node = self
        while node.parent is not None:
            if node.parent.parent is not None:
                node.parent = node.parent.parent
            node = node.parent
        return node


class _Clash(Exception):
    """Two different devices for one domain."""


def _join(a: _Domain, b: _Domain) -> None:
    pending = [(a, b)]
    while pending:
        a, b = (d.root() for d in pending.pop())
        if a is b:
            continue
        if a.params is not None and b.params is not None:
            assert a.result is not None and b.result is not None
            a.parent = b
            pending += [*zip(a.params, b.params, strict=False), (a.result, b.result)]
        elif a.params is not None or b.params is not None:
            function, value = (a, b) if a.params is not None else (b, a)
            assert function.params is not None and function.result is not None
            value.parent = function
            if value.device != ANY:
                # A function inside a value on one device is on that device, with its parameters and result.
                fixed = _Domain()
                fixed.device, fixed.why = value.device, value.why
                pending += [(p, fixed) for p in (*function.params, function.result)]
        else:
            if ANY not in (a.device, b.device) and a.device != b.device:
                raise _Clash
            if b.device == ANY:
                a, b = b, a
            a.parent = b


def _domain(t: Type | None) -> _Domain:
    if isinstance(t, FuncType):
        return _Domain([_domain(a) for a in t.arg_types], _domain(t.ret_type))
    return _Domain()


def is_copy(e: Expr) -> Call | None:
    """The device_copy of a call, or of the primitive function that it calls."""
    if type(e) is not Call:
        return None
    inner = e.op.body if type(e.op) is Function and e.op.is_primitive else e
    return inner if type(inner) is Call and isinstance(inner.attrs, device_copy) else None


class DevicePlan:
    """The devices of all expressions of a module. `config` numbers the devices; `of(e)` is the number for an expression."""

    def __init__(self, mod: IRModule, config: CompilationConfig) -> None:
        self.mod, self.config = mod, config
        self.domains: dict[Expr, _Domain] = {}
        with deep_recursion():
            for gvar, f in mod.functions.items():
                if isinstance(f, Function) and not f.is_primitive:
                    self.function(gvar, f)

    def of(self, e: Expr) -> int:
        """The number of a value's device; the default device if none is derived."""
        domain = self.domain(e).root()
        while domain.result is not None:
            domain = domain.result.root()
        return max(domain.device, 0)

    def params(self, call: Call) -> list[int]:
        """The device numbers of a called function's parameters."""
        params = self.domain(call.op).root().params or [_Domain() for _ in call.args]
        return [max(self.end(p).root().device, 0) for p in params]

    def domain(self, e: Expr) -> _Domain:
        """The domain of an expression. Each use of a constant gets a new one."""
        if isinstance(e, Constant):
            return _Domain()
        if isinstance(e, GlobalVar):
            f = self.mod.functions.get(e)
            return self.domain(f) if isinstance(f, Function) else _domain(type_of(e))
        found = self.domains.get(e)
        if found is None:
            found = self.domains[e] = _domain(type_of(e))
        return found

    def fixed(self, device: VirtualDevice, why: str, at: Expr | None) -> _Domain:
        """A domain with a fixed device."""
        domain = _Domain()
        if device.device_type_int >= 0:
            domain.device = self.config.index(device.device)
            if domain.device < 0:
                known = ", ".join(map(str, self.config.devices))
                raise DiagnosticError(
                    place(at)
                    + f"{why} names {device.device}, but the program is compiled for {known} only. Give a target for it too:"
                    f" target={{tvm.{self.config.devices[0]}: ..., tvm.{device.device}: ...}}" + mark(at)
                )
        domain.why = why
        return domain

    # ---- rules

    def function(self, gvar: GlobalVar, f: Function) -> None:
        name = gvar.name_hint
        self.closure(f)
        for i, (p, d) in enumerate(zip(f.params, f.attrs.get(PARAM_DEVICES, ()), strict=False)):
            self.join(p, self.domain(p), self.fixed(d, f"parameter {i} of {name} ({p.name_hint})", p))
        result = f.attrs.get(RESULT_DEVICE)
        if result is not None:
            self.join(f.body, self.result_of(f), self.fixed(result, f"the result of {name}", f.body))
        for e in post_order(f, skip=lambda e: type(e) is Function and e.is_primitive):
            rule = self.rules.get(type(e))
            if rule is not None:
                rule(self, e)

    def result_of(self, f: Function) -> _Domain:
        result = self.domain(f).root().result
        assert result is not None
        return result

    def closure(self, f: Function) -> None:
        domain = self.domain(f).root()
        if domain.params is None or domain.result is None:
            domain = self.domains[f] = _Domain([_domain(type_of(p)) for p in f.params], _domain(type_of(f.body)))
        assert domain.params is not None and domain.result is not None
        for p, d in zip(f.params, domain.params, strict=True):
            self.join(f, self.domain(p), d)
        self.join(f.body, self.domain(f.body), domain.result)

    def call(self, e: Call) -> None:
        if isinstance(e.attrs, on_device):
            self.annotation(e, e.attrs)
            return
        copy = is_copy(e)
        if copy is not None:
            attrs, text = card_of(copy, device_copy), "the source of device_copy"
            self.join(e, self.domain(e.args[0]), self.fixed(attrs.src_virtual_device, text, e))
            self.join(e, self.domain(e), self.fixed(attrs.dst_virtual_device, "the target of device_copy", e))
            return
        if isinstance(e.op, Function) and not e.op.is_primitive or self.is_called(e.op):
            args = [self.domain(a) for a in e.args]
            self.join(e, self.domain(e.op), _Domain(args, self.domain(e)))
            return
        names = operands(e)
        whole = self.domain(e)
        for i, a in enumerate(e.args):
            found = self.domain(a)
            try:
                _join(found, whole)
            except _Clash:
                raise self.clash_of_call(e, names, i) from None

    def is_called(self, op: Expr) -> bool:
        """Whether the callee is a value, or a function of the module that is compiled like the others."""
        if isinstance(op, GlobalVar):
            f = self.mod.functions.get(op)
            return not (isinstance(f, Function) and f.is_primitive)
        return not isinstance(op, (Op, Constructor, Function))

    def annotation(self, e: Call, attrs: on_device) -> None:
        body, result = self.domain(e.args[0]), self.domain(e)
        where = f"on_device(..., {attrs.virtual_device.device})"
        if attrs.constrain_body:
            self.join(e, self.end(body), self.fixed(attrs.virtual_device, where, e), e.args[0])
        if attrs.constrain_result:
            self.join(e, self.end(result), self.fixed(attrs.virtual_device, where, e))
        if isinstance(type_of(e), FuncType) or attrs.constrain_body == attrs.constrain_result:
            self.join(e, body, result)

    @staticmethod
    def end(domain: _Domain) -> _Domain:
        """The domain of a value, or for a function, of its result."""
        while (result := domain.root().result) is not None:
            domain = result
        return domain

    def parts(self, e: Expr, parts: Sequence[Expr]) -> None:
        for p in parts:
            self.join(e, self.domain(p), self.domain(e))

    def match(self, e: Match) -> None:
        for c in e.clauses:
            for v in pattern_vars(c.lhs):
                self.join(e, self.domain(v), self.domain(e.data))
        self.parts(e, [c.rhs for c in e.clauses])

    def let(self, e: Let) -> None:
        self.join(e, self.domain(e.var), self.domain(e.value))
        self.parts(e, [e.body])

    rules: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        Call: call,
        Function: closure,
        Let: let,
        Match: match,
        Tuple: lambda self, e: self.parts(e, e.fields),
        TupleGetItem: lambda self, e: self.parts(e, [e.tuple_value]),
        If: lambda self, e: self.parts(e, [e.true_branch, e.false_branch]),
        RefCreate: lambda self, e: self.parts(e, [e.value]),
        RefRead: lambda self, e: self.parts(e, [e.ref]),
        RefWrite: lambda self, e: self.join(e, self.domain(e.ref), self.domain(e.value)),
    }

    # ---- errors

    def join(self, e: Expr, a: _Domain, b: _Domain, what: Expr | None = None) -> None:
        """Joins two domains. `e` is the place for messages, and `what` (default: `e`) the expression on the device."""
        try:
            _join(a, b)
        except _Clash:
            a, b = a.root(), b.root()
            raise DiagnosticError(
                place(e)
                + f"{subject(what or e)} must be on one device, but it is on {self.told(a)} and on {self.told(b)}. {REMEDY}"
                + mark(e)
            ) from None

    def told(self, domain: _Domain) -> str:
        """A device, and the reason for it."""
        device = self.config.devices[domain.device]
        return f"{device} (by {domain.why})" if domain.why else str(device)

    def clash_of_call(self, e: Call, names: Sequence[str], culprit: int) -> DiagnosticError:
        mine, others = self.domain(e.args[culprit]).root(), self.domain(e).root()
        printer = Printer(types=False)
        for i, a in enumerate(e.args):
            if not isinstance(a, (Var, Constant)):
                printer.names[a] = f"%{i}"
        label = names[culprit] if culprit < len(names) else f"argument {culprit}"
        what = e.op.name if isinstance(e.op, Op) else "the call"
        lines = [
            f"{place(e)}{what}: its arguments and its result must be on one device, but argument {culprit} ({label}) is on"
            f" {self.told(mine)}, the others on {self.told(others)}",
            f"  in {printer.call(e)}",
            f"  {REMEDY}",
        ]
        return DiagnosticError("\n".join(lines) + mark(e))


REMEDY = (
    "Mark where the value may change devices with relay.annotation.on_device(value, device), or copy it with"
    " relay.device_copy(value, src_device, dst_device)"
)


def operands(e: Call) -> Sequence[str]:
    """Names of a call's arguments."""
    return argument_names(type(e.attrs))[0] if isinstance(e.op, Op) and isinstance(e.attrs, OpCard) else ()


def subject(e: Expr) -> str:
    """The name of an expression in messages."""
    if isinstance(e, Var):
        return f"%{e.name_hint}"
    if isinstance(e, Call) and isinstance(e.op, Op):
        return f"the result of {e.op.name}"
    if isinstance(e, Call) and isinstance(e.op, GlobalVar):
        return f"what passes between @{e.op.name_hint} and its call"
    return f"this {type(e).__name__}"


def place(e: Expr | None) -> str:
    """The place of an expression, as the start of a message."""
    text = span_text(getattr(e, "span", None))
    return f"{text}: " if text else ""


def mark(e: Expr | None) -> str:
    """The program's line with the expression marked, as the end of a message."""
    shown = caret(getattr(e, "span", None))
    return f"\n{shown}" if shown else ""


class _Insert(ExprMutator):
    """Removes annotations, and inserts copies where values change devices."""

    def __init__(self, plan: DevicePlan) -> None:
        super().__init__()
        self.plan = plan

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if not isinstance(call.attrs, on_device):
            return new
        body: Expr = new.args[0]
        source, target = self.plan.of(call.args[0]), self.plan.of(call)
        t = type_of(call)
        if source == target or isinstance(body, Constant) or isinstance(t, FuncType):
            return body
        config = self.plan.config
        devices = (VirtualDevice(config.devices[source]), VirtualDevice(config.devices[target]))
        return copied(body, t, devices, call)


def copied(value: Expr, t: Type | None, devices: tuple[VirtualDevice, VirtualDevice], at: Call) -> Expr:
    """A value copied to another device. Fields of a tuple are copied separately."""
    if isinstance(t, TupleType):
        fields = [copied(typed(TupleGetItem(value, i)), f, devices, at) for i, f in enumerate(t.fields)]
        return Tuple(tuple(fields), at.span)
    source, target = devices
    card = device_copy(src_virtual_device=source, dst_virtual_device=target)
    return Call(card.op, (value,), card, (), at.span)


def annotated(mod: IRModule) -> bool:
    """Whether a module has annotations of devices."""
    for f in mod.functions.values():
        if not isinstance(f, Function):
            continue
        if PARAM_DEVICES in f.attrs or RESULT_DEVICE in f.attrs:
            return True
        if any([isinstance(getattr(e, "attrs", None), (on_device, device_copy)) for e in post_order(f)]):
            return True
    return False


def PlanDevices(config: CompilationConfig) -> Pass:
    """Remove `on_device`, and insert `device_copy` where a value changes devices. Functions get attributes with the
    devices of their parameters and result. `config` (tvm.target.make_compilation_config) lists the devices. Raises
    DiagnosticError, with the place, if annotations contradict each other or name a device without a target.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        if len(config.devices) == 1 and not annotated(mod):
            return mod
        mod = infer_module(mod)
        plan = DevicePlan(mod, config)
        functions: dict[GlobalVar, BaseFunc] = {}
        with deep_recursion():
            for gvar, f in mod.functions.items():
                functions[gvar] = f
                if not isinstance(f, Function) or f.is_primitive:
                    continue
                new = _Insert(plan).rewritten_function(f)
                if len(config.devices) > 1:
                    params = tuple([config.virtual_device(plan.of(p)) for p in f.params])
                    new = new.with_attr({PARAM_DEVICES: params, RESULT_DEVICE: config.virtual_device(plan.of(f.body))})
                functions[gvar] = new
        return infer_module(mod.with_functions(functions))

    return Pass(PassInfo(0, "PlanDevices"), run)
