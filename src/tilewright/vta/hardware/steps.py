"""The array and the ALU: loops, micro-ops, and a pipeline that takes a step in a cycle.

A step reads its accumulator in the cycle in which it begins, and writes it so that a step can read it `GEMM_LATENCY` or `ALU_LATENCY`
cycles later. One that would read it earlier waits."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed

from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.words import OPCODES, Fields, numbers, uop_fields
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.tables import ALU_OPS, index_bits

PARTS = ("dst", "src", "wgt")


def alu_result(op: Any, x: Any, y: Any, width: int) -> Any:
    """The result of an operation on two accumulators."""
    bits = (width - 1).bit_length()
    far_right, far_left = y >= width, y <= -width
    right = Mux(far_right, x >> (width - 1), x >> y[:bits].as_unsigned())
    left = Mux(far_left, 0, (x << (-y)[:bits].as_unsigned())[:width].as_signed())
    low = Mux(x > ~y, x, ~y)
    results = {
        "min": Mux(x < y, x, y), "max": Mux(x > y, x, y), "add": x + y, "shr": Mux(y >= 0, right, left), "mul": x * y,
        "clip": Mux(low < y, low, y),
    }  # fmt: skip
    return Array([results[name][:width] if len(results[name]) > width else results[name] for name in ALU_OPS])[op]


class Steps:
    """begin: starts the instruction `head`; `word` is the same from the next cycle on, while `working`. finished: it is done in this cycle.

    Memories, by name: what to read (`addresses`) and what came (`data`, in the next cycle). write, to, result: an accumulator."""

    def __init__(self, config: Configuration, head: Any, word: Any) -> None:
        self.config = config
        self.begin = Signal()
        self.working = Signal()
        self.finished = Signal()
        bits = {m: index_bits(config.depth(m)) for m in ("uop", "acc", "inp", "wgt")}
        self.addresses = {m: Signal(b, name=f"{m}_address") for m, b in bits.items()}
        self.data = {
            m: Signal(config.element_bits(m) if m != "uop" else config.uop_width, name=f"{m}_data") for m in bits
        }
        self.write = Signal()
        self.to = Signal(bits["acc"])
        self.result = Signal(config.element_bits("acc"))
        self.reads_operands = Signal()
        self.module = m = Module()
        gemm, alu = Fields(word, config, "gemm"), Fields(word, config, "alu")
        is_gemm = Signal()
        m.d.comb += is_gemm.eq(gemm.opcode == OPCODES["gemm"])
        two = Signal()
        m.d.comb += two.eq(~is_gemm & ~alu.use_imm)
        step = Signal()
        second = Signal()
        index = self._loops(m, head, (gemm, alu), is_gemm, step)
        latency = Mux(is_gemm, config.gemm_latency, config.alu_latency + two)
        waits = self._hazards(m, index, two, latency, step)
        can = Signal()
        m.d.comb += [can.eq(self.working & self.left & ~second & ~waits), step.eq(can)]
        m.d.sync += second.eq(step & two)
        source = Signal(bits["acc"])
        with m.If(step):
            m.d.sync += source.eq(index["src"])
        m.d.comb += [
            self.addresses["acc"].eq(Mux(second, source, index["dst"])), self.addresses["inp"].eq(index["src"]),
            self.addresses["wgt"].eq(index["wgt"]), self.reads_operands.eq(step & is_gemm & ~gemm.reset),
        ]  # fmt: skip
        drain = Signal(range(max(config.gemm_latency, config.alu_latency + 1) + 1))
        with m.If(step):
            m.d.sync += drain.eq(latency - 1)
        with m.Elif(drain != 0):
            m.d.sync += drain.eq(drain - 1)
        m.d.comb += self.finished.eq(~self.left & (drain == 0))
        dst = Signal(bits["acc"])
        with m.If(step):
            m.d.sync += dst.eq(index["dst"])
        self.acc = self._read(m)
        self._results(m, gemm, alu, is_gemm, two, step, second, dst)

    def _read(self, m: Any) -> Any:
        """The accumulator that was read; what is written in the cycle of its read is not in the memory yet."""
        written = Signal()
        result = Signal(len(self.result))
        m.d.sync += [written.eq(self.write & (self.to == self.addresses["acc"])), result.eq(self.result)]
        return Mux(written, result, self.data["acc"])

    # ---- loops

    def _loops(self, m: Any, head: Any, kinds: tuple[Fields, Fields], is_gemm: Any, step: Any) -> dict[str, Any]:
        """The indices of the next step; `step` goes on to the one behind it."""
        config, (gemm, alu) = self.config, kinds

        def field(name: str) -> Any:
            return Mux(is_gemm, getattr(gemm, name), getattr(alu, name))

        def first(name: str) -> Any:
            of_gemm, of_alu = Fields(head, config, "gemm"), Fields(head, config, "alu")
            return Mux(of_gemm.opcode == OPCODES["gemm"], getattr(of_gemm, name), getattr(of_alu, name))

        depth = config.depth("uop")
        self.left = left = Signal()
        out = Signal(16)
        inner = Signal(16)
        uop = Signal(range(depth + 1))
        next_uop = Signal(range(depth + 1))
        m.d.comb += next_uop.eq(uop)
        last_uop, last_in = uop + 1 == field("uop_end"), inner + 1 == field("iter_in")
        widths = {
            "dst": index_bits(config.depth("acc")),
            "src": index_bits(max(config.depth("inp"), config.depth("acc"))),
            "wgt": index_bits(config.depth("wgt")),
        }
        index = {}
        uops = dict(zip(PARTS, uop_fields(self.data["uop"], layout_of(config)), strict=True))
        for part in PARTS:
            at_out = Signal(widths[part], name=f"{part}_out")
            at_in = Signal(widths[part], name=f"{part}_in")
            factors = [
                field(f"{part}_factor_{n}") if part != "wgt" else getattr(gemm, f"wgt_factor_{n}")
                for n in ("out", "in")
            ]
            with m.If(self.begin):
                m.d.sync += [at_out.eq(0), at_in.eq(0)]
            with m.Elif(step & last_uop):
                with m.If(last_in):
                    m.d.sync += [at_out.eq(at_out + factors[0]), at_in.eq(at_out + factors[0])]
                with m.Else():
                    m.d.sync += at_in.eq(at_in + factors[1])
            index[part] = Signal(widths[part], name=part)
            m.d.comb += index[part].eq(uops[part] + at_in)
        with m.If(self.begin):
            m.d.comb += next_uop.eq(first("uop_begin"))
            m.d.sync += [
                out.eq(0),
                inner.eq(0),
                left.eq((first("iter_out") != 0) & (first("iter_in") != 0) & (first("uop_begin") < first("uop_end"))),
            ]
        with m.Elif(step):
            with m.If(last_uop):
                m.d.comb += next_uop.eq(field("uop_begin"))
                with m.If(last_in):
                    m.d.sync += [inner.eq(0), out.eq(out + 1), left.eq(out + 1 < field("iter_out"))]
                with m.Else():
                    m.d.sync += inner.eq(inner + 1)
            with m.Else():
                m.d.comb += next_uop.eq(uop + 1)
        m.d.sync += uop.eq(next_uop)
        m.d.comb += self.addresses["uop"].eq(next_uop)
        return index

    def _hazards(self, m: Any, index: dict[str, Any], two: Any, latency: Any, step: Any) -> Any:
        """Whether an accumulator of the next step is still to be written: those of the last steps, by the cycles that are left."""
        count = max(self.config.gemm_latency, self.config.alu_latency + 1)
        bits = len(index["dst"])
        slots = [(Signal(name=f"slot_{n}"), Signal(bits, name=f"slot_{n}_dst")) for n in range(1, count)]
        waits = Signal()
        found: Any = 0
        for n, (valid, dst) in enumerate(slots):
            found = found | (valid & ((dst == index["dst"]) | (two & (dst == index["src"][:bits]))))
            enters = step & (latency - 1 == n + 1)
            before = slots[n + 1] if n + 1 < len(slots) else (Const(0, 1), Const(0, bits))
            m.d.sync += [valid.eq(enters | before[0]), dst.eq(Mux(enters, index["dst"], before[1]))]
        m.d.comb += waits.eq(found)
        return waits

    # ---- arithmetic

    def _results(
        self, m: Any, gemm: Fields, alu: Fields, is_gemm: Any, two: Any, step: Any, second: Any, dst: Any
    ) -> None:
        config, width = self.config, self.config.acc_width
        came = Signal()
        came_second = Signal()
        x_held = Signal(config.element_bits("acc"))
        m.d.sync += [came.eq(step), came_second.eq(second)]
        with m.If(came):
            m.d.sync += x_held.eq(self.acc)
        x = numbers(Mux(two, x_held, self.acc), width)
        y = numbers(self.acc, width)
        done = []
        for one, other in zip(x, y, strict=True):
            operand = Signal(signed(width))
            m.d.comb += operand.eq(Mux(alu.use_imm, alu.imm, other))
            value = Signal(signed(width))
            m.d.comb += value.eq(alu_result(alu.op, one, operand, width))
            done.append(value)
        alu_valid = (came & ~is_gemm & ~two) | came_second
        alu_out = _delayed(m, (alu_valid, dst, Cat(*done)), config.alu_latency - 2)
        gemm_out = self._products(m, came & is_gemm, dst, gemm.reset)
        m.d.comb += [
            self.write.eq(alu_out[0] | gemm_out[0]), self.to.eq(Mux(gemm_out[0], gemm_out[1], alu_out[1])),
            self.result.eq(Mux(gemm_out[0], gemm_out[2], alu_out[2])),
        ]  # fmt: skip

    def _products(self, m: Any, valid: Any, dst: Any, reset: Any) -> tuple[Any, Any, Any]:
        """The pipeline of the array: registers behind the products, then behind the sums, then behind the results."""
        config, stages = self.config, max(self.config.gemm_latency - 2, 0)
        inputs, weights = numbers(self.data["inp"], config.inp_width), numbers(self.data["wgt"], config.wgt_width)
        carried = _delayed(m, (valid, dst, self.acc, reset), min(stages, 2))
        sums = []
        for b in range(config.batch):
            for o in range(config.block_out):
                products = []
                for i in range(config.block_in):
                    value = inputs[b * config.block_in + i] * weights[o * config.block_in + i]
                    if stages >= 1:
                        register = Signal(signed(config.inp_width + config.wgt_width))
                        m.d.sync += register.eq(value)
                        value = register
                    products.append(value)
                total = Signal(signed(config.acc_width))
                m.d[("sync" if stages >= 2 else "comb")] += total.eq(_sum(products))
                sums.append(total)
        old = numbers(carried[2], config.acc_width)
        new = [Mux(carried[3], 0, (a + s)[: config.acc_width]) for a, s in zip(old, sums, strict=True)]
        found = _delayed(m, (carried[0], carried[1], Cat(*[n[: config.acc_width] for n in new])), stages - 2)
        return found[0], found[1], found[2]


def _sum(values: list[Any]) -> Any:
    """A tree of additions."""
    while len(values) > 1:
        values = [a + b for a, b in zip(values[::2], values[1::2], strict=False)] + (
            values[-1:] if len(values) % 2 else []
        )
    return values[0]


def _delayed(m: Any, values: tuple[Any, ...], cycles: int) -> tuple[Any, ...]:
    """Values some cycles later."""
    for _ in range(cycles):
        registers = [Signal(len(v)) for v in values]
        m.d.sync += [r.eq(v) for r, v in zip(registers, values, strict=True)]
        values = tuple(registers)
    return values


__all__ = ["Steps", "alu_result"]
