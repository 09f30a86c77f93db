"""Text of one LLVM function, in scopes. Equal instructions without side effects are written once, in the outermost scope possible.

A scope is straight-line code: the function's entry, a loop's body, an arm of a conditional. Code can be added to a scope
until the scopes inside it are closed. So an instruction without side effects is written in the outermost scope that
knows its operands, which moves loop-invariant addresses out of loops without an LLVM pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

MOST_POINTERS = 6
"""Pointers that advance with a loop, at most: more take too many registers."""


class Scope:
    """Straight-line code that can be added to. It begins with block `first`, and ends for now in block `label`."""

    __slots__ = (
        "addresses", "backwards", "begin", "certain", "changes", "counter", "first", "has_loops", "label", "lines", "loaded", "loads",
        "memo", "pointers", "steps",
    )  # fmt: skip

    def __init__(self, label: str, certain: bool = False) -> None:
        self.first = self.label = label
        self.certain = certain
        """Whether the scope runs whenever the scope around it does."""
        self.changes: Collection[object] = ()
        """Data variables to which a loop stores: what was read of them before it is not known to hold inside."""
        self.backwards = False
        """Whether an address decreases as a value of this scope increases."""
        self.has_loops = False
        """Whether there is a loop in this one."""
        self.steps: set[int] = set()
        """By how many bytes addresses change as values of this scope increase by one."""
        self.lines: list[str] = []
        self.loaded = 0
        """The number of lines after the last load of a vector."""
        self.memo: dict[str, str] = {}
        self.loads: dict[object, dict[str, str]] = {}
        self.addresses: dict[tuple[object, ...], tuple[str, int]] = {}
        self.counter = self.begin = ""
        """Of a loop whose pointers advance: the name of its counter, and where that begins."""
        self.pointers: dict[tuple[str, int], str] = {}
        """Pointers that advance with a loop, by the pointer before it and the bytes of a step."""


class FunctionBuilder:
    """Collects the body of one function. Operands are LLVM IR text: names such as %v7, or literals."""

    def __init__(self, declare: dict[str, str]) -> None:
        self.scopes = [Scope("entry")]
        self.allocas: list[str] = []
        self.level_of: dict[str, int] = {}
        self.declare = declare
        self._count = 0
        self._labels = 0

    # --- instructions

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def label(self, hint: str) -> str:
        self._labels += 1
        return f"{hint}{self._labels}"

    def pure(self, text: str, *operands: str) -> str:
        """The value of an instruction without side effects. Equal texts give the same value while it is in scope."""
        level = 0
        level_of = self.level_of
        for operand in operands:
            other = level_of.get(operand, 0)
            if other > level:
                level = other
        scope = self.scopes[level]
        found = scope.memo.get(text)
        if found is None:
            self._count += 1
            found = scope.memo[text] = f"%v{self._count}"
            scope.lines.append(f"  {found} = {text}")
            level_of[found] = level
        return found

    def scaled(self, t: str, value: str, step: int) -> str:
        """A term of an address: an integer of type t times a number of bytes."""
        scope = self.scopes[self.level_of.get(value, 0)]
        scope.backwards |= step < 0
        scope.steps.add(step)
        return value if step == 1 else self.pure(f"mul {t} {value}, {step}", value)

    def here(self, text: str, level: int = -1) -> str:
        """The value of an instruction that is written in the scope `level` (the innermost by default): loads, divisions, calls."""
        scopes = self.scopes
        self._count += 1
        name = f"%v{self._count}"
        scopes[level].lines.append(f"  {name} = {text}")
        self.level_of[name] = level % len(scopes)
        return name

    def effect(self, text: str) -> None:
        self.scopes[-1].lines.append("  " + text)

    def call(self, signature: str, name: str, args: str, *operands: str) -> str:
        """A call of the LLVM intrinsic `name`; `signature` is "result(parameters)"."""
        result, _, params = signature.partition("(")
        if name not in self.declare:
            self.declare[name] = f"declare {result} @{name}({params}"
        return self.pure(f"call {result} @{name}({args})", *operands)

    @property
    def level(self) -> int:
        return len(self.scopes) - 1

    def alloca(self, text: str) -> str:
        """A stack slot in the entry block."""
        name = self.name()
        self.allocas.append(f"  {name} = {text}")
        self.level_of[name] = 0
        return name

    # --- pointers that advance with a loop

    def advanced(self, pointer: str, counter: str, step: int) -> str | None:
        """pointer + counter * step as a pointer that the counter's loop advances; None where no loop does so, or this one has enough of
        them."""
        scope = self.scopes[self.level_of.get(counter, 0)]
        if scope.counter != counter or (len(scope.pointers) >= MOST_POINTERS and (pointer, step) not in scope.pointers):
            return None
        found = scope.pointers.get((pointer, step))
        if found is None:
            found = scope.pointers[pointer, step] = self.name()
            self.level_of[found] = self.level_of[counter]
        return found

    def advance(self, loop: Scope, iptr: str, before: str) -> list[str]:
        """The phis of a loop's pointers. It is popped, and its last block is not closed."""
        phis = []
        for (pointer, step), name in loop.pointers.items():
            start = pointer
            if loop.begin != "0":
                far = self.pure(f"mul {iptr} {loop.begin}, {step}", loop.begin)
                start = self.pure(f"getelementptr i8, ptr {pointer}, {iptr} {far}", pointer, far)
            phis.append(f"  {name} = phi ptr [ {start}, %{before} ], [ {name}.next, %{loop.label} ]")
            loop.lines.append(f"  {name}.sum = getelementptr i8, ptr {name}, {iptr} {step}")
            # What LLVM cannot see through, it does not replace by sums beside each access, which WebAssembly computes one by one.
            loop.lines.append(f'  {name}.next = call ptr asm "", "=r,0"(ptr {name}.sum)')
        return phis

    # --- control flow

    def push(self, label: str, certain: bool = False) -> Scope:
        scope = Scope(label, certain)
        self.scopes.append(scope)
        return scope

    def pop(self) -> Scope:
        return self.scopes.pop()

    def define_here(self, name: str) -> str:
        """Marks a name that other text defines as known from the current scope on."""
        self.level_of[name] = len(self.scopes) - 1
        return name

    def branch(self, cond: str, then: Scope, other: Scope | None, join: str, phis: Sequence[str]) -> None:
        """Closes two arms, which are popped already: writes the conditional into the current scope, which continues in block `join`."""
        scope = self.scopes[-1]
        lines = scope.lines
        lines.append(f"  br i1 {cond}, label %{then.first}, label %{other.first if other else join}")
        for arm in (then, other):
            if arm is not None:
                lines.append(f"{arm.first}:")
                lines += arm.lines
                lines.append(f"  br label %{join}")
        lines.append(f"{join}:")
        lines.extend("  " + phi for phi in phis)
        scope.label = join

    def text(self) -> list[str]:
        """The lines of the body. All scopes except the entry must be closed."""
        assert len(self.scopes) == 1
        return ["entry:", *self.allocas, *self.scopes[0].lines]
