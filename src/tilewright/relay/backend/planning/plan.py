"""Execution plan: the kernel calls of main in order, and the places of their tensors."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tilewright.ir import IRModule, Op, TensorType
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.kernels.kernel import Kernel
from tilewright.relay.backend.kernels.tensor_graph import static_bytes, tensor_types
from tilewright.relay.backend.planning.aliases import Joined, Memory, bytes_of, copying
from tilewright.relay.backend.planning.constants import ConstantPool
from tilewright.relay.backend.planning.memory_plan import Storage, align, plan
from tilewright.relay.backend.te_compiler import TECompiler, is_view, source_of
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.functor import post_order
from tilewright.relay.rewriting import tuple_type_of
from tilewright.relay.texts import span_text, type_text
from tilewright.relay.transform.memory.device_planner import is_copy
from tilewright.relay.typing.infer_type import infer_types
from tilewright.runtime import Device, cpu
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.buffer import DATA_ALIGNMENT

CPU = cpu().device_type


class Place:
    """The place of a tensor in memory. kind: input, output, constant or workspace; index: the number of the input, output or constant;
    device: the number of the plan's device; offset: in bytes, from the beginning of the input, output, constant or storage; view_of: the
    place of which it is a view, whole or in part, with another shape; parts: for a tensor that no kernel writes as a whole, the places of
    its parts, in order."""

    __slots__ = ("device", "index", "kind", "offset", "parts", "storage", "type", "view_of")

    def __init__(
        self, kind: str, t: TensorType, index: int = 0, storage: Storage | None = None, device: int = 0, offset: int = 0
    ) -> None:
        self.kind, self.type, self.index, self.storage, self.device = kind, t, index, storage, device
        self.offset = offset
        self.view_of: Place | None = None
        self.parts: list[Place] = []

    def shown(self, t: TensorType, offset: int = 0) -> Place:
        """A view of this memory from byte `offset` on, with another shape."""
        view = self.piece(t, offset)
        view.view_of = self
        return view

    def piece(self, t: TensorType, offset: int) -> Place:
        """A tensor in this memory, at byte `offset`."""
        return Place(self.kind, t, self.index, self.storage, self.device, self.offset + offset)


class KernelCall:
    """One call of a kernel. places: those of its inputs, then of its `outputs` outputs; copies: whether it copies a tensor from one
    device to another."""

    __slots__ = ("args", "copies", "kernel", "outputs", "source")

    def __init__(self, kernel: Kernel, args: list[Place], source: str, outputs: int = 1, copies: bool = False) -> None:
        self.kernel, self.args, self.source, self.outputs, self.copies = kernel, args, source, outputs, copies


class Plan:
    """The execution plan of a program: everything that the entry needs. alignment: constants, and tensors in the arenas, begin at multiples
    of so many bytes."""

    def __init__(self, func: Function, alignment: int = DATA_ALIGNMENT) -> None:
        self.alignment = alignment
        self.inputs: list[tuple[str, TensorType]] = []
        self.outputs: list[TensorType] = []
        self.results: list[Place] = []
        """The places of the outputs. A reshape may give an output another shape."""
        self.calls: list[KernelCall] = []
        self.constants = ConstantPool(alignment)
        self.devices: list[Device] = [cpu(0)]
        self.input_devices: list[int] = []
        self.arena_bytes: list[int] = [0]
        """The bytes of the arena of each device."""
        self.kernel_targets: dict[str, Target] = {}
        """Kernel name -> its target."""
        self.func = func

    @property
    def output_devices(self) -> list[int]:
        """The number of the device of each output."""
        return [p.device for p in self.results]

    @property
    def workspace_bytes(self) -> int:
        """The bytes of all arenas, which are contiguous in the workspace of the ahead-of-time entry."""
        return sum(self.arena_bytes)

    @property
    def apart(self) -> bool:
        """Whether each device has its own workspace and constants. CPUs share theirs."""
        return any([d.device_type != CPU for d in self.devices])

    def memory(self, place: Place) -> int:
        """The number of the workspace, or of the constants, of a place."""
        return place.device if self.apart else 0

    def constant_range(self, device: int) -> list[int]:
        """[begin, end] in bytes of a device's constants among all constants, for devices other than CPUs."""
        pool = self.constants
        own = [i for i, home in enumerate(pool.homes) if home == device and self.devices[device].device_type != CPU]
        if not own:
            return [0, 0]
        return [
            pool.offsets[own[0]],
            max([pool.offsets[i] + align(pool.arrays[i].nbytes, self.alignment) for i in own]),
        ]

    def crosses(self, call: KernelCall) -> bool:
        """Whether a call is a copy from or to memory that the CPU cannot access. The runtime makes such copies."""
        return call.copies and any([self.devices[p.device].device_type != CPU for p in call.args])

    def offset(self, place: Place) -> int:
        """The offset in bytes of a constant among all constants, or of a tensor in its workspace."""
        if place.kind == "constant":
            return self.constants.offsets[place.index] + place.offset
        assert place.storage is not None
        before = 0 if self.apart else sum(self.arena_bytes[: place.device])
        return before + place.storage.offset + place.offset


class _Planner:
    def __init__(self, func: Function, compilers: TECompiler | DeviceCompilers, kept: Container[Expr]) -> None:
        self.compilers, self.kept = compilers, kept
        known = compilers.compilers if isinstance(compilers, DeviceCompilers) else [compilers]
        self.plan = Plan(func, max([_alignment(c.target) for c in known]))
        self.devices = compilers.plan if isinstance(compilers, DeviceCompilers) else None
        if isinstance(compilers, DeviceCompilers):
            self.plan.devices = list(compilers.config.devices)
        self.places: dict[Expr, Any] = {}
        self.moved: dict[tuple[Place, int], Place] = {}
        """(place of a constant, device) -> the place of its copy on that device."""
        self.storages: list[list[Storage]] = [[] for _ in self.plan.devices]
        self.steps: dict[Expr, int] = {}
        self.ends: dict[Expr, int] = {}
        self.order = list(post_order(func.body, skip=lambda e: type(e) is Function))
        self.memory = Memory()
        self.views = self.memory.shown
        self.shared: dict[Expr, Storage] = {}
        self.homes = {a: self.home(node) for node in self.order if isinstance(node, Call) for a in node.args}
        """Constant -> the number of the device of one of its readers."""

    def run(self) -> Plan:
        func = self.plan.func
        for i, p in enumerate(func.params):
            t = p.checked_type
            if not isinstance(t, TensorType):
                raise TVMError(f"input {p.name_hint} must be a tensor, but is {type_text(t)}")
            static_bytes(t)
            self.plan.inputs.append((p.name_hint, t))
            self.plan.input_devices.append(self.device(p))
            self.places[p] = Place("input", t, i, None, self.device(p))
        self.plan.outputs = tensor_types(func.body.checked_type)
        self.find_views()
        self.place_outputs()
        self.memory.cut_slices(self.order, self.direct, self.device)
        self.joined = Joined(self.order, self.memory, self.direct, self.device)
        self.find_last_uses()
        for node in self.order:
            self.visit(node)
        self.write_results()
        self.plan.arena_bytes = [plan(s) for s in self.storages]
        if self.plan.alignment < DATA_ALIGNMENT:
            self.plan.constants.arrange()
        known = self.compilers.compilers if isinstance(self.compilers, DeviceCompilers) else [self.compilers]
        for compiler in known:
            self.plan.kernel_targets.update({k.name: compiler.target for k in compiler.kernels.values()})
        return self.plan

    def device(self, e: Expr) -> int:
        """The number of the device of a value."""
        return self.devices.of(e) if self.devices is not None else 0

    def kernel(self, func: Function, value: Expr) -> Kernel:
        """The kernel of a value, for the value's device."""
        if isinstance(self.compilers, TECompiler):
            return self.compilers.kernel(func)
        return self.compilers.kernel(func, value)

    def find_views(self) -> None:
        for node in self.order:
            if isinstance(node, Call) and isinstance(node.op, Function) and is_view(node.op):
                self.views[node] = node.args[0]

    def find_last_uses(self) -> None:
        """Numbers the calls of kernels, and finds the last call that needs the memory of each value. A value in the memory of another one
        needs the other's memory."""
        step = 0
        last_use: dict[Expr, int] = {}
        for node in self.order:
            if isinstance(node, Call) and node not in self.views and node not in self.memory.cut:
                self.steps[node] = step
                if node in self.joined.calls:
                    read = [value for value, _ in self.joined.copied(node)]
                    step += len(read)
                else:
                    read = list(node.args)
                    step += 1
                for leaf in [x for e in read for x in self.memory.leaves(e)]:
                    last_use[leaf] = step - 1
        for leaf in self.memory.leaves(self.plan.func.body):
            last_use[leaf] = step
        for node, begin in self.steps.items():
            whole, _ = self.joined.at(node)
            self.ends[whole] = max(self.ends.get(whole, 0), last_use.get(node, begin))

    def place_outputs(self) -> None:
        """Makes calls whose results are outputs of the program write there directly. Other outputs are copied at the end."""
        self.direct: dict[Expr, int] = {}
        for i, e in enumerate(self.output_exprs(self.plan.func.body)):
            source = self.memory.source(e)
            if isinstance(source, Call) and isinstance(source.checked_type, TensorType):
                self.direct.setdefault(source, i)

    def output_exprs(self, body: Expr) -> list[Expr]:
        if isinstance(body, Tuple):
            return [x for f in body.fields for x in self.output_exprs(f)]
        if isinstance(body.checked_type, TensorType):
            return [body]
        count = len(tuple_type_of(body).fields)
        return [x for i in range(count) for x in self.output_exprs(_item(body, i))]

    def visit(self, node: Expr) -> None:
        if isinstance(node, Var):
            if node not in self.places:
                raise self.undecided(node, "functions or variables of its own")
        elif isinstance(node, Constant):
            self.places[node] = self.constant(node)
        elif isinstance(node, Tuple):
            self.places[node] = [self.places[f] for f in node.fields]
        elif isinstance(node, TupleGetItem):
            self.places[node] = self.places[node.tuple_value][node.index]
        elif node in self.views:
            self.places[node] = self.places[self.views[node]].shown(node.checked_type)
        elif node in self.memory.cut:
            of, offset = self.memory.cut[node]
            self.places[node] = self.places[of].shown(node.checked_type, offset)
        elif node in self.joined.calls:
            self.join(node)
        elif isinstance(node, Call) and isinstance(node.op, Function) and node.op.is_primitive:
            self.call(node, node.op)
        elif isinstance(node, Call) and isinstance(node.op, Op):
            raise TVMError(
                f"{where(node)}main holds a call of {node.op.name} outside of primitive functions, which FuseOps makes. Do not"
                " disable that pass: PassContext(opt_level=0), or the option relay.FuseOps.max_depth=1, gives every operator a"
                " kernel of its own"
            )
        else:
            raise self.undecided(node, type(node).__name__)

    @staticmethod
    def undecided(node: Expr, what: str) -> TVMError:
        """The error for a value that only the virtual machine can compute."""
        return TVMError(
            f"{where(node)}the graph and ahead-of-time executors run dataflow graphs of operators, but main holds {what}."
            " relay.vm.compile(mod, target) takes programs with control flow, data types and functions"
        )

    def constant(self, node: Constant) -> Place:
        home = self.homes.get(node, 0)
        index = self.plan.constants.add(node.value, home)
        if node not in self.kept:
            self.plan.constants.move(node, index)
        return Place("constant", tensor_type(node.value.shape, node.value.dtype.name), index, None, home)

    def home(self, reader: Expr) -> int:
        """The number of the device whose constants a call reads. All CPUs read those of the first one."""
        device = self.device(reader)
        return device if self.plan.devices[device].device_type != CPU else 0

    def at_hand(self, place: Place, reader: Expr) -> Place:
        """The place that a call reads. A constant is copied to every device that needs it."""
        home = self.home(reader)
        if place.kind != "constant" or place.device == home:
            return place
        key = place, home
        if key not in self.moved:
            if place.view_of is not None:
                found = self.at_hand(place.view_of, reader).shown(place.type, place.offset - place.view_of.offset)
            else:
                index = self.plan.constants.add(self.plan.constants.arrays[place.index], home)
                found = Place("constant", place.type, index, None, home, place.offset)
            self.moved[key] = found
        return self.moved[key]

    def call(self, node: Call, func: Function) -> None:
        copies = is_copy(node) is not None
        kernel = self.kernel(func, node)
        inputs = [self.at_hand(p, node) for a in node.args for p in _flat(self.places[a])]
        outputs: list[Place] = []
        for t in tensor_types(node.checked_type):
            # A copy is in the memory of the other device, and a part in its larger value, so neither overwrites an input.
            fixed = copies or node in self.direct or self.joined.at(node)[0] is not node
            storage = None if fixed else self.reusable(node, kernel, inputs, static_bytes(t))
            outputs.append(self.written(node, t, storage))
            if not fixed and storage is None:
                self.lay_over(node, kernel, inputs, outputs[-1])
        self.places[node] = (
            outputs[0] if isinstance(node.checked_type, TensorType) else _nest(node.checked_type, outputs)
        )
        source = source_of(func) or kernel.source
        self.plan.calls.append(KernelCall(kernel, [*inputs, *outputs], source, len(outputs), copies))

    def written(self, node: Expr, t: TensorType, storage: Storage | None = None) -> Place:
        """The place to which a call writes a result of type `t`: in an output, in a larger value, in `storage`, or in new storage."""
        device = self.device(node)
        whole, offset = self.joined.at(node)
        if whole in self.direct:
            return Place("output", t, self.direct[whole], None, device, offset)
        end = self.ends[whole]
        if storage is not None:
            storage.end = end
        elif whole in self.shared:
            storage = self.shared[whole]
        else:
            size = static_bytes(t) if whole is node else bytes_of(whole)
            storage = Storage(size, self.steps[node], end, self.plan.alignment)
            self.storages[device].append(storage)
            if whole in self.joined.calls:
                self.shared[whole] = storage
        return Place("workspace", t, 0, storage, device, offset)

    def join(self, node: Expr) -> None:
        """Plans a concatenation whose parts are computed in its memory. Some parts may have to be copied there."""
        (t,) = tensor_types(node.checked_type)
        place = self.places[node] = self.written(node, t)
        copied = self.joined.copied(node)
        for part in self.joined.calls[node]:
            value, offset = part
            if part in copied:
                (t,) = tensor_types(value.checked_type)
                piece = place.piece(t, offset)
                self.copy(self.places[value], piece, node)
            else:
                piece = self.places[self.memory.source(value)]
            place.parts.append(piece)

    def reusable(self, node: Call, kernel: Kernel, inputs: list[Place], size: int) -> Storage | None:
        """The storage of an input that the kernel may overwrite, and that no later call needs; None if there is none."""
        for i in kernel.in_place:
            storage = inputs[i].storage
            if (
                storage is not None
                and static_bytes(inputs[i].type) == size
                and self.last_read(storage, i, inputs, node)
            ):
                return storage
        return None

    def last_read(self, storage: Storage, i: int, inputs: list[Place], node: Expr) -> bool:
        """Whether a call is the last that needs the storage of its input `i`, which is all that is in it."""
        # Not a part of a larger value, whose other parts would stay live as long.
        others = [p for j, p in enumerate(inputs) if j != i and p.storage is storage]
        whole = storage.size == align(static_bytes(inputs[i].type), self.plan.alignment)
        return storage.end == self.steps[node] and whole and not others

    def lay_over(self, node: Expr, kernel: Kernel, inputs: list[Place], output: Place) -> None:
        """Lets the output of a call be written over inputs that the kernel reads line by line, and that no later call needs."""
        for i, distance in kernel.overlaps:
            storage = inputs[i].storage
            if storage is not None and output.storage is not None and self.last_read(storage, i, inputs, node):
                output.storage.over[storage] = align(distance, self.plan.alignment)

    def write_results(self) -> None:
        """Copies the outputs that no call writes directly: inputs, constants, values that are two outputs, elements of tuples."""
        for i, e in enumerate(self.output_exprs(self.plan.func.body)):
            source = self.memory.source(e)
            if self.direct.get(source) == i:
                self.plan.results.append(self.places[source])
            else:
                place = self.place_of(e)
                result = Place("output", self.plan.outputs[i], i, None, place.device)
                self.plan.results.append(result)
                self.copy(place, result, e)

    def place_of(self, e: Expr) -> Any:
        # Elements of an output tuple that were made for the outputs are not in the body's order.
        if e not in self.places:
            assert isinstance(e, TupleGetItem)
            self.places[e] = self.place_of(e.tuple_value)[e.index]
        return self.places[e]

    def copy(self, place: Place, to: Place, value: Expr) -> None:
        """Adds a copy of a tensor to another place. value: the value that is copied."""
        self.plan.calls.append(KernelCall(self.kernel(copying(to.type), value), [self.at_hand(place, value), to], ""))


def _alignment(target: Target | str) -> int:
    return target.cpu.alignment if isinstance(target, Target) else DATA_ALIGNMENT


def where(e: Expr) -> str:
    """The place of an expression in the user's program, as the beginning of a message."""
    text = span_text(getattr(e, "span", None))
    return f"{text}: " if text else ""


def _item(e: Expr, index: int) -> Expr:
    item = TupleGetItem(e, index)
    infer_types(item)
    return item


def _flat(places: Any) -> list[Place]:
    return [p for x in places for p in _flat(x)] if isinstance(places, list) else [places]


def _nest(t: Any, places: list[Place]) -> Any:
    rest = iter(places)

    def build(x: Any) -> Any:
        return next(rest) if isinstance(x, TensorType) else [build(f) for f in x.fields]

    return build(t)


def make_plan(mod: IRModule, compilers: TECompiler | DeviceCompilers, given: IRModule | None = None) -> Plan:
    """The plan of `main`, in which all calls are of primitive functions (after FuseOps), on one device or several. given: the module before
    all passes. Constants that are not in it give up their own memory once the plan's constants are written."""
    main = mod["main"]
    assert isinstance(main, Function)
    return _Planner(main, compilers, constants_of(given if given is not None else mod)).run()


def constants_of(mod: IRModule) -> set[Expr]:
    """The constants in a module."""
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    return {e for f in functions for e in post_order(f) if type(e) is Constant}
