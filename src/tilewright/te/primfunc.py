"""`create_prim_func`: converts tensors to a PrimFunc of TensorIR blocks, one loop nest for each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Mutator, on
from tilewright.support.errors import ProgramError
from tilewright.te.indices import with_index_dtype
from tilewright.te.operation import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp, TensorComputeOp
from tilewright.te.regions import ReadSet, full_region, point_region
from tilewright.te.tensor import Tensor
from tilewright.te.tensor_compute import tensor_compute_nest
from tilewright.tir.arithmetic import add, cast_to, const_true, logical_and, logical_or
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import And, BufferLoad, Call, CmpExpr, IterVar, Let, Or, ProducerLoad, Reduce, Select, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import if_then_else
from tilewright.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    SeqStmt,
    Stmt,
    stmt_seq,
)
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.substitution import BufferMutator


def create_prim_func(ops: Tensor | Var | Sequence[Tensor | Var], index_dtype_override: str | None = None) -> PrimFunc:
    """Make a PrimFunc whose parameters are `ops`: placeholders are inputs, computed tensors are outputs, Vars are
    scalars.

    Every operation becomes a block with exact reads and writes in a nest of serial loops. Intermediate tensors become
    buffers of the root block. Dynamic dimensions are taken from the shapes of the buffers, unless they are parameters.
    `index_dtype_override` is the type of all indices. Raises ValueError if a needed input is not a parameter, and
    TypeError for operations that have no blocks.
    """
    args = [ops] if isinstance(ops, (Tensor, Var)) else list(ops)
    builder = FunctionBuilder()
    for i, arg in enumerate(args):
        builder.add_parameter(i, arg)
    order = post_order([t.op for t in args if isinstance(t, Tensor)])
    for op in order:
        _check_has_blocks(op)
    for op in order:
        builder.add_operation(op)
    func = builder.finish()
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def _check_has_blocks(op: Operation) -> None:
    if isinstance(op, ScanOp):
        raise TypeError(
            f"create_prim_func: scan {op.name!r} has no form as blocks, since its state is read before it is complete;"
            " write the recurrence as an extern operation with a serial loop"
        )
    if not isinstance(op, (PlaceholderOp, ComputeOp, ExternOp, TensorComputeOp)):
        raise TypeError(f"create_prim_func: operation {op.name!r} of type {type(op).__name__} has no form as blocks")


def post_order(roots: Sequence[Operation]) -> list[Operation]:
    """The operations that `roots` need, each once, producers first."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack = [(op, False) for op in reversed(roots)]
    while stack:
        op, ready = stack.pop()
        if ready:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack += [(t.op, False) for t in reversed(op.input_tensors)]
    return order


class _Names:
    """Makes names unique: a second `A` becomes `A_1`."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        name, n = hint, self._next.get(hint, 1)
        while name in self._used:
            name, n = f"{hint}_{n}", n + 1
        self._next[hint] = n
        self._used.add(name)
        return name


class _BlockBody(Mutator):
    """Converts an expression over tensors to one over buffers, with axes as block variables, and records the regions that it reads."""

    def __init__(
        self, buffers: Mapping[Tensor, Buffer], env: Mapping[Var, PrimExpr], reads: ReadSet, analyzer: Analyzer
    ) -> None:
        self.buffers, self.env, self.reads, self.analyzer = buffers, env, reads, analyzer
        self.free: dict[Var, None] = {}

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        found = self.env.get(v)
        if found is None:
            self.free[v] = None
            return v
        return found

    @on(Let)
    def _let(self, e: Let) -> PrimExpr:
        new: PrimExpr = self.rebuild(e)
        self.free.pop(e.var, None)
        return new

    @on(ProducerLoad)
    def _load(self, load: ProducerLoad) -> PrimExpr:
        buffer = self.buffers[load.producer]
        # An inner load is recorded after the load that it indexes, in reading order.
        slot = self.reads.reserve(buffer)
        indices = tuple([self.index(i) for i in load.indices])
        slot.append(indices)
        return BufferLoad(buffer, indices)

    def index(self, e: PrimExpr) -> PrimExpr:
        if isinstance(e, Var):
            return self._var(e)
        if isinstance(e, IntImm):
            return e
        simple: PrimExpr = self.analyzer.simplify(self.visit(e))
        return simple

    # Conditions on indices, such as those of padding, are simplified by the known ranges.
    @on(CmpExpr)
    def _compare(self, e: CmpExpr) -> PrimExpr:
        new: PrimExpr = self.rebuild(e)
        return self.analyzer.simplify(new) if e.a.dtype.is_int and e.dtype.lanes == 1 else new

    @on(And)
    def _and(self, e: And) -> PrimExpr:
        return logical_and(self.visit(e.a), self.visit(e.b))

    @on(Or)
    def _or(self, e: Or) -> PrimExpr:
        return logical_or(self.visit(e.a), self.visit(e.b))

    @on(Select)
    def _select(self, e: Select) -> PrimExpr:
        condition = self.visit(e.condition)
        if isinstance(condition, IntImm):
            chosen: PrimExpr = self.visit(e.true_value if condition.value else e.false_value)
            return chosen
        return Select(condition, self.visit(e.true_value), self.visit(e.false_value))

    @on(Call)
    def _call(self, e: Call) -> PrimExpr:
        if getattr(e.op, "name", "") != "tir.if_then_else":
            return self.rebuild(e)
        condition = self.visit(e.args[0])
        if isinstance(condition, IntImm):
            return self.visit(e.args[1] if condition.value else e.args[2])
        return if_then_else(condition, self.visit(e.args[1]), self.visit(e.args[2]))


class _Rename(BufferMutator):
    """Puts the body of an extern operation on the buffers of the function."""

    def __init__(self, buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.buffers.update(buffers)
        self.env: dict[Var, PrimExpr] = {}
        for old, new in buffers.items():
            self.env[old.data] = new.data
            offset = new.elem_offset
            pairs = [(old.elem_offset, offset), *zip(old.shape, new.shape, strict=False)]
            if old.strides:
                pairs += zip(old.strides, new.element_strides(), strict=False)
            # Fields that the placeholder leaves open come from the buffer.
            self.env.update({v: cast_to(e, v.dtype) for v, e in pairs if isinstance(v, Var) and v is not e})

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)


class FunctionBuilder:
    """The function under construction: parameters, buffers of tensors, and loop nests in order."""

    def __init__(self) -> None:
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []
        self.nests: list[Stmt] = []
        self.layout_free: list[int] = []
        self.bound: Mapping[Tensor, Buffer] = {}
        self.free: dict[Var, str] = {}
        self.defined: set[Var] = set()
        self.from_zero = False
        """Whether all loops begin at zero, like the loops of schedules."""
        self._buffer_names, self._block_names = _Names(), _Names()

    def add_parameter(self, position: int, arg: Any) -> None:
        if isinstance(arg, Var):
            self.params.append(arg)
            return
        if isinstance(arg, Buffer):
            # A buffer in `binds` is the buffer of its tensor.
            given = next((t for t, b in self.bound.items() if b is arg), None)
            if given is None:
                raise ValueError(
                    f"create_prim_func: argument {position} is buffer {arg.name}, which stands for no tensor; give"
                    " binds={tensor: buffer}, or the tensor itself"
                )
            arg = given
        if not isinstance(arg, Tensor):
            raise TypeError(
                f"create_prim_func: argument {position} must be a tensor or a variable, but is {type(arg).__name__}"
            )
        if arg in self.buffers:
            raise ValueError(
                f"create_prim_func: tensor {arg.name} is given twice, the second time as argument {position}"
            )
        buffer = self._declare(arg)
        handle = Var(f"var_{buffer.name}", "handle")
        self.params.append(handle)
        self.buffer_map[handle] = buffer

    def _declare(self, tensor: Tensor) -> Buffer:
        bound = self.bound.get(tensor)
        if bound is not None:
            self.buffers[tensor] = bound
            return bound
        hint = tensor.op.name if tensor.op.num_outputs == 1 else f"{tensor.op.name}_v{tensor.value_index}"
        buffer = decl_buffer(tensor.shape, tensor.dtype, self._buffer_names.fresh(hint))
        self.buffers[tensor] = buffer
        return buffer

    def _buffer_of(self, tensor: Tensor) -> Buffer:
        """The buffer of an operation's output: the buffer of a parameter, or a new one of the root block."""
        found = self.buffers.get(tensor)
        if found is None:
            found = self._declare(tensor)
            self.allocated.append(found)
        return found

    def add_operation(self, op: Operation) -> None:
        if isinstance(op, PlaceholderOp):
            if op.output(0) not in self.buffers:
                raise ProgramError(
                    f"create_prim_func: placeholder {op.name!r} is read, but is not among the arguments; add it to them"
                )
        elif isinstance(op, ComputeOp):
            self._add_compute(op)
        elif isinstance(op, TensorComputeOp):
            outputs = [self._buffer_of(t) for t in op.outputs]
            convert = _BlockBody(self.buffers, {}, ReadSet(Analyzer()), Analyzer()).visit
            name = self._block_names.fresh(op.name)
            self.nests.append(tensor_compute_nest(op, self.buffers, outputs, name, convert))
        elif isinstance(op, ExternOp):
            self._add_extern(op)

    def _add_compute(self, op: ComputeOp) -> None:
        if isinstance(op.body[0], Reduce):
            self._add_block(op, [self._buffer_of(t) for t in op.outputs], op.body)
            return
        several = len(op.body) > 1
        for tensor, expr in zip(op.outputs, op.body, strict=True):
            name = f"{op.name}_v{tensor.value_index}" if several else op.name
            self._add_block(op, [self._buffer_of(tensor)], (expr,), name)

    def _add_block(
        self, op: ComputeOp, outputs: list[Buffer], body: tuple[PrimExpr, ...], name: str | None = None
    ) -> None:
        """Add one block that stores to all `outputs` at its spatial variables, inside its loops."""
        axes = [*op.axis, *op.reduce_axis]
        loops = [Var(a.var.name, a.var.dtype) for a in axes]
        analyzer = Analyzer()
        env: dict[Var, PrimExpr] = {}
        iter_vars: list[IterVar] = []
        for axis in axes:
            block_var = Var(f"v_{axis.var.name}", axis.var.dtype)
            iter_vars.append(IterVar(axis.dom, block_var, axis.iter_type))
            env[axis.var] = block_var
            assert axis.dom is not None, "an axis of a compute has a domain"
            analyzer.bind(block_var, axis.dom)
        values: list[PrimExpr] = list(loops)
        if self.from_zero:
            values = [add(v, a.dom.min) for v, a in zip(loops, axes, strict=True) if a.dom is not None]
        if not op.axis:
            # A block without spatial variables could not be scheduled; a scalar gets one of extent one.
            zero = IntImm("int32", 0)
            iter_vars.insert(
                0, IterVar(Range.from_min_extent(zero, IntImm("int32", 1)), Var("v_u", "int32"), IterVar.DataPar)
            )
            values.insert(0, zero)
        indices = tuple([env[a.var] for a in op.axis])
        reads = ReadSet(analyzer)
        convert = _BlockBody(self.buffers, env, reads, analyzer)
        init: Stmt | None = None
        if isinstance(body[0], Reduce):
            init, stmt = self._reduction(body[0], outputs, indices, convert)
        else:
            stmt = stmt_seq([BufferStore(b, convert.visit(e), indices) for b, e in zip(outputs, body, strict=True)])
        for var in convert.free:
            self.free.setdefault(var, op.name)
        annotations = {k: v for k, v in op.attrs.items() if k != "layout_free_placeholders"}
        self._note_layout_free(op)
        block = Block(
            tuple(iter_vars),
            reads.regions(),
            tuple([point_region(b, indices) for b in outputs]),
            self._block_names.fresh(name or op.name),
            stmt,
            init,
            (),
            (),
            annotations,
        )
        nest: Stmt = BlockRealize(tuple(values), const_true(), block)
        for loop, axis in zip(reversed(loops), reversed(axes), strict=True):
            assert axis.dom is not None, "an axis of a compute has a domain"
            low = IntImm(loop.dtype, 0) if self.from_zero else axis.dom.min
            nest = For(loop, low, axis.dom.extent, ForKind.SERIAL, nest)
        self.nests.append(nest)

    def _reduction(
        self, reduce: Reduce, outputs: list[Buffer], indices: tuple[PrimExpr, ...], convert: _BlockBody
    ) -> tuple[Stmt, Stmt]:
        """The initialisation and the update: `out = combine(out, source)`, through let variables for tuples."""
        combiner = reduce.combiner
        start = reduce.init or combiner.identity_element
        init = stmt_seq([BufferStore(b, convert.visit(v), indices) for b, v in zip(outputs, start, strict=True)])
        sources = [convert.visit(s) for s in reduce.source]
        if not (isinstance(reduce.condition, IntImm) and reduce.condition.value):
            condition = convert.visit(reduce.condition)
            sources = [if_then_else(condition, s, e) for s, e in zip(sources, combiner.identity_element, strict=True)]
        env: dict[Var, PrimExpr] = {v: BufferLoad(b, indices) for v, b in zip(combiner.lhs, outputs, strict=True)}
        env.update(zip(combiner.rhs, sources, strict=True))
        results = [_Bind(env).visit(r) for r in combiner.result]
        if len(results) == 1:
            return init, BufferStore(outputs[0], results[0], indices)
        # All new values are computed before the first of them is stored.
        lets = [Var(f"v_{b.name}", b.dtype) for b in outputs]
        update: Stmt = SeqStmt(tuple([BufferStore(b, v, indices) for b, v in zip(outputs, lets, strict=True)]))
        for var, value in zip(reversed(lets), reversed(results), strict=True):
            update = LetStmt(var, value, update)
        return init, update

    def _add_extern(self, op: ExternOp) -> None:
        renamed: dict[Buffer, Buffer] = {}
        for placeholder, tensor in zip(op.input_placeholders, op.inputs, strict=True):
            renamed[placeholder] = self.buffers[tensor]
        for placeholder, tensor in zip(op.output_placeholders, op.outputs, strict=True):
            renamed[placeholder] = self._buffer_of(tensor)
        body = _Rename(renamed).visit(op.body)
        if isinstance(body, BlockRealize) and not body.block.iter_vars and body.block.name_hint == "root":
            # The root of a whole function keeps its allocations, but its name goes to the new root.
            self.allocated += body.block.alloc_buffers
            self.nests.append(body.block.body)
            return
        block = Block(
            (),
            tuple([full_region(self.buffers[t]) for t in dict.fromkeys(op.inputs)]),
            tuple([full_region(self.buffers[t]) for t in op.outputs]),
            self._block_names.fresh(op.name),
            body,
            None,
            (),
            (),
            dict(op.attrs),
        )
        self.nests.append(BlockRealize((), const_true(), block))

    def _note_layout_free(self, op: ComputeOp) -> None:
        free = op.attrs.get("layout_free_placeholders", ())
        if free:
            handles = {buffer: i for i, p in enumerate(self.params) if (buffer := self.buffer_map.get(p)) is not None}
            self.layout_free += [handles[self.buffers[t]] for t in free if self.buffers.get(t) in handles]

    def _need_defined(self) -> None:
        """Check that the variables of elements are parameters, or dimensions of parameters."""
        known = {*self.params, *self.defined}
        for b in self.buffer_map.values():
            for e in (*b.shape, *b.strides, b.elem_offset):
                known.update(used_vars(e))
        for var, name in self.free.items():
            if var not in known and var.dtype.code != "handle":
                raise ValueError(
                    f"create_prim_func: compute {name!r} uses {var.name}, which is not an axis of it, an argument or a"
                    " dimension of one; reduction axes are named in axis= of the reduction"
                )

    def finish(self) -> PrimFunc:
        if self.free:
            self._need_defined()
        root = Block((), (), (), "root", stmt_seq(self.nests), None, tuple(self.allocated))
        attrs: dict[str, Any] = {"global_symbol": "main", "tir.noalias": True}
        if self.layout_free:
            attrs["layout_free_buffers"] = tuple(dict.fromkeys(self.layout_free))
        return PrimFunc(tuple(self.params), BlockRealize((), const_true(), root), None, self.buffer_map, attrs)


class _Bind(Mutator):
    """Replaces the parameters of a combiner by values."""

    def __init__(self, env: Mapping[Var, PrimExpr]) -> None:
        self.env = env

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)
