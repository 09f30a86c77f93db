"""Instructions of sm_90 as functions of inline assembly: waits for phases of barriers, copies of tiles, products of warpgroups.

`tir.warpgroups` says what they do, and the titles of the PTX ISA.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.cuda.multiply import TYPES
from tilewright.codegen.source.cuda.types import INLINE
from tilewright.codegen.source.device.dialect import Refused, Rule
from tilewright.codegen.source.text.operands import UNARY, Text
from tilewright.ir import IntImm
from tilewright.tir import StringImm, Var
from tilewright.tir.warpgroups import PRODUCTS

if TYPE_CHECKING:
    from tilewright.codegen.source.cuda.dialect import Cuda
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.tir import Call

MODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""Bytes of a swizzle -> its number in a matrix descriptor, bits 62 and 63. ("Matrix descriptor format")"""
_KINDS = {found.kind: found for found in PRODUCTS.values()}
_REGISTERS = {"f32": ("float", "f", 1), "s32": ("unsigned int", "r", 1), "f16": ("unsigned int", "r", 2)}
"""Type of sums -> (type of a register in CUDA C, letter of assembly, sums of a register)."""
SCOPE, ALIGNED = "tensor_map", 1024
"""The scope of variables that are tensor maps; bytes to which tiles in shared memory are aligned, after which swizzles begin anew."""
TENSOR_MAP = "tensor_map"
"""The type of tensor maps in CUDA C. The driver writes them; they are 128 bytes at a multiple of 64."""


def word(e: Any) -> str:
    return e.value if isinstance(e, StringImm) else str(e)


def number(e: Any, what: str) -> int:
    if not isinstance(e, IntImm):
        raise Refused(f"{what} is a constant, but {e} was given")
    return e.value


def needs_own(dialect: Cuda, what: str) -> None:
    """Refuses what only code for sm_90a has."""
    if str(dialect.attrs.get("arch", "")) not in ("sm_90a", "compute_90a"):
        raise Refused(f"{what} needs -arch=sm_90a, but the target is for {dialect.attrs.get('arch', 'sm_75')}")


def define_tensor_map(dialect: Cuda) -> None:
    dialect.prelude.define(TENSOR_MAP, f"struct alignas(64) {TENSOR_MAP} {{ unsigned long long words[16]; }};")


def _tma_load(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    to, tensor, barrier, *at = e.args
    if dialect.arch < 90:
        raise Refused(f"copies of tensor maps need sm_90, but the target is for sm_{dialect.arch}")
    if not isinstance(tensor, Var):
        raise Refused("a copy takes a tensor map that a let statement outside of the kernel names")
    rank = len(at)
    name = f"tma_load_{rank}d"
    holes = ", ".join([f"%{k + 3}" for k in range(rank)])
    inputs = ", ".join([f'"r"(c{k})' for k in reversed(range(rank))])
    params = ", ".join([f"int c{k}" for k in range(rank)])
    text = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {{{holes}}}], [%2];"
    dialect.prelude.define(
        name,
        f"// Copies a box of a tensor to shared memory, and tells a barrier when it is there. c0: the outermost coordinate.\n"
        f"{INLINE} void {name}(void* to, const {TENSOR_MAP}* tensor, unsigned long long* barrier, {params}) {{\n"
        "  unsigned int place = (unsigned int)__cvta_generic_to_shared(to), told = (unsigned int)__cvta_generic_to_shared(barrier);\n"
        f'  asm volatile("{text}"\n    :: "r"(place), "l"(tensor), "r"(told), {inputs} : "memory");\n}}',
    )
    given = [emitter.expr(to), f"&{emitter.variables[tensor]}", f"&barriers[{emitter.index(barrier)}]"]
    return emitter.done(f"{name}({', '.join([*given, *[emitter.index(x) for x in at]])});")


def _plain(name: str, comment: str, least: int, text: str) -> Rule:
    """A rule for an instruction without operands. least: the architecture; 0: sm_90a only."""

    def rule(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
        if not least:
            needs_own(dialect, name)
        elif dialect.arch < least:
            raise Refused(f"{name} needs sm_{least}, but the target is for sm_{dialect.arch}")
        dialect.prelude.define(
            name, f'// {comment}\n{INLINE} void {name}() {{\n  asm volatile("{text}" ::: "memory");\n}}'
        )
        return emitter.done(f"{name}();")

    return rule


def _wait_parity(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    if dialect.arch < 90:
        raise Refused(f"mbarrier.try_wait needs sm_90, but the target is for sm_{dialect.arch}")
    lines = [
        "unsigned int place = (unsigned int)__cvta_generic_to_shared(barrier);",
        "asm volatile(",
        '  "{\\n"',
        '  "  .reg .pred done;\\n"',
        '  "again:\\n"',
        '  "  mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n"',
        '  "  @!done bra.uni again;\\n"',
        '  "}"',
        '  :: "r"(place), "r"(parity) : "memory");',
    ]
    body = "\n".join([f"  {line}" for line in lines])
    dialect.prelude.define(
        "mbarrier_wait_parity",
        "// Waits until the phase of this parity is complete.\n"
        f"{INLINE} void mbarrier_wait_parity(unsigned long long* barrier, unsigned int parity) {{\n{body}\n}}",
    )
    return emitter.done(f"mbarrier_wait_parity(&barriers[{emitter.index(e.args[0])}], {emitter.index(e.args[1])});")


def _set_registers(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    needs_own(dialect, "setmaxnreg")
    count, increases = number(e.args[0], "the number of registers"), number(e.args[1], "increases")
    return emitter.done(f'asm volatile("setmaxnreg.{"inc" if increases else "dec"}.sync.aligned.u32 {count};");')


# --- products


def _descriptor(dialect: Cuda) -> None:
    dialect.prelude.define(
        "matrix_descriptor",
        "// Where a matrix is in shared memory; offsets in bytes.\n"
        f"{INLINE} unsigned long long matrix_descriptor(const void* at, unsigned int leading, unsigned int stride, unsigned int mode) {{\n"
        "  unsigned int place = (unsigned int)__cvta_generic_to_shared(at);\n"
        "  return (place & 0x3ffffull) >> 4 | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |\n"
        "         (unsigned long long)mode << 62;\n}",
    )


def _matrix(dialect: Cuda, emitter: KernelEmitter, args: Any) -> tuple[str, int]:
    """(descriptor of an operand, whether its rows run along m or n)."""
    _descriptor(dialect)
    lead, stride, swizzle, across = [number(x, "a part of a layout") for x in args[1:5]]
    if swizzle not in MODES:
        raise Refused(f"swizzles are of {', '.join(map(str, MODES))} bytes, but {swizzle} was given")
    return f"matrix_descriptor({emitter.expr(args[0])}, {lead}, {stride}, {MODES[swizzle]})", across


def _wgmma(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    """ptx_wgmma and ptx_wgmma_rs."""
    needs_own(dialect, "wgmma")
    held = e.intrinsic == "ptx_wgmma_rs"
    shape, *names = [word(x) for x in e.args[:4]]
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    a, b, c = [TYPES[name][0] if name in TYPES else name for name in names]
    product = _KINDS.get(a)
    if (
        found is None
        or product is None
        or int(found[2]) != product.k
        or int(found[1]) % 8
        or not 8 <= int(found[1]) <= 256
    ):
        raise Refused(f"wgmma has no product {shape} of {a}: m64nNkK, N a multiple of 8 up to 256, K of 32 bytes")
    if c not in [TYPES[s][0] for s in product.sums]:
        raise Refused(f"wgmma has no sums of {c} of {a}; it has {', '.join(product.sums)}")
    n = int(found[1])
    rest = 6 if held else 9
    if held:
        first, across_a = _pointer(emitter, e.args[4], e.args[5], "const unsigned int*"), 0
    else:
        first, across_a = _matrix(dialect, emitter, e.args[4:9])
    second, across_b = _matrix(dialect, emitter, e.args[rest : rest + 5])
    if (across_a or across_b) and not product.transposes:
        raise Refused(f"wgmma takes operands of {a} whose rows run along k only")
    kind, _, per = _REGISTERS[c]
    sums = _pointer(emitter, e.args[rest + 5], e.args[rest + 6], f"{kind}*")
    name = _define(dialect, shape, (a, b, c), n, per, held, (across_a, across_b))
    return emitter.done(f"{name}({sums}, {first}, {second}, {emitter.expr(e.args[rest + 7])});")


def _pointer(emitter: KernelEmitter, e: Any, offset: Any, kind: str) -> str:
    return f"({kind}){emitter.address(e, offset).at(UNARY)}"


def _define(
    dialect: Cuda, shape: str, kinds: tuple[str, str, str], n: int, per: int, held: bool, across: tuple[int, int]
) -> str:
    a, b, c = kinds
    product = _KINDS[a]
    count = n // 2 // per
    kind, letter, _ = _REGISTERS[c]
    name = (
        f"wgmma_{shape}_{c}_{a}_{b}" + ("_registers" if held else "") + "".join(["_t" if x else "_n" for x in across])
    )
    sums = ", ".join([f"%{k}" for k in range(count)])
    parts = 4 if held else 1
    left = "{" + ", ".join([f"%{count + k}" for k in range(parts)]) + "}" if held else f"%{count}"
    after = ["p"]
    if product.scales:
        after += ["1", "1"]
    if product.transposes:
        after += [str(across[1])] if held else [str(across[0]), str(across[1])]
    at = count + parts
    text = f"wgmma.mma_async.sync.aligned.{shape}.{c}.{a}.{b} {{{sums}}}, {left}, %{at}, {', '.join(after)};"
    outputs = ", ".join([f'"+{letter}"(c[{k}])' for k in range(count)])
    inputs = [*([f'"r"(a[{k}])' for k in range(4)] if held else ['"l"(a)']), '"l"(b)', '"r"((int)adds)']
    first = "const unsigned int* a" if held else "unsigned long long a"
    dialect.prelude.define(
        name,
        f"// c += a * b of a warpgroup.\n{INLINE} void {name}({kind}* c, {first}, unsigned long long b, bool adds) {{\n"
        f'  asm volatile("{{\\n  .reg .pred p;\\n  setp.ne.b32 p, %{at + 1}, 0;\\n  "\n    "{text}\\n}}"\n'
        f'    : {outputs}\n    : {", ".join(inputs)} : "memory");\n}}',
    )
    return name


def _on_registers(name: str, comment: str, instruction: str, groups: bool) -> Rule:
    """A rule for an instruction behind which registers are as products know them: the compiler may move no access of them over it."""

    def rule(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
        needs_own(dialect, "wgmma")
        data, offset, size = e.args[-3:]
        count = number(size, "the number of registers") * e.dtype.bits // 32
        kind = "float" if e.dtype.bits == 32 and e.dtype.is_float else "unsigned int"
        letter = "f" if kind == "float" else "r"
        held = (
            f'  #pragma unroll\n  for (int i = 0; i < {count}; ++i) asm volatile("" : "+{letter}"(c[i]) :: "memory");\n'
        )
        made = f"{name}_{'f32' if letter == 'f' else 'b32'}_{count}"
        text, takes = (f"{instruction} %0;", "template <int groups> ") if groups else (f"{instruction};", "")
        operand = ':: "n"(groups) : "memory"' if groups else '::: "memory"'
        line = f'  asm volatile("{text}" {operand});\n'
        dialect.prelude.define(made, f"// {comment}\n{takes}{INLINE} void {made}({kind}* c) {{\n{held}{line}{held}}}")
        of = f"<{number(e.args[0], 'the number of groups')}>" if groups else ""
        return emitter.done(f"{made}{of}({_pointer(emitter, data, offset, f'{kind}*')});")

    return rule


RULES: Mapping[str, Rule] = {
    "ptx_wait_barrier_parity": _wait_parity,
    "ptx_fence_barrier_init": _plain(
        "mbarrier_fence_init", "Makes initialised barriers known to asynchronous copies.", 90, "fence.mbarrier_init.release.cluster;"
    ),
    "ptx_fence_proxy_async": _plain(
        "fence_proxy_async", "Orders stores to shared memory before asynchronous accesses.", 90, "fence.proxy.async.shared::cta;"
    ),
    "ptx_tma_load": _tma_load,
    "ptx_setmaxnreg": _set_registers,
    "ptx_wgmma": _wgmma,
    "ptx_wgmma_rs": _wgmma,
    "ptx_wgmma_fence": _on_registers("wgmma_fence", "Orders accesses of registers before products.", "wgmma.fence.sync.aligned", False),
    "ptx_wgmma_commit_group": _plain("wgmma_commit_group", "Ends a group of products.", 0, "wgmma.commit_group.sync.aligned;"),
    "ptx_wgmma_wait_group": _on_registers(
        "wgmma_wait_group", "Waits until at most `groups` groups of products are unfinished.", "wgmma.wait_group.sync.aligned", True
    ),
}  # fmt: skip

__all__ = ["RULES", "TENSOR_MAP", "define_tensor_map"]
