"""Target machines, optimisation and objects, through llvmlite.binding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from llvmlite import binding
from llvmlite.binding import ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from tilewright.codegen.native import big_endian
from tilewright.support.errors import InternalError, TVMError
from tilewright.support.object_kind import ObjectKind
from tilewright.target import Target

BFLOATS = " x bfloat>"
"""Marks texts with vectors of bfloat16. For these, LLVM's instcombine makes stores on which its instruction selection aborts (LLVM 22,
x86)."""

_ready = False


def initialize() -> None:
    """Registers LLVM's targets, once per process."""
    global _ready
    if not _ready:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        binding.initialize_native_asmparser()
        # LLVM's scheduler before register allocation hoists the loads of a long unrolled tile until registers spill: a
        # 3x3 convolution fell from 98 to 50 % of peak. The order of the program is the right one.
        binding.set_option("tilewright", "-enable-misched=false")
        _ready = True


@lru_cache(maxsize=32)
def _machine(triple: str, cpu: str, features: str, abi: str, level: int) -> Any:
    initialize()
    try:
        target = binding.Target.from_triple(triple)
    except RuntimeError as error:
        raise TVMError(
            f"LLVM has no target for -mtriple={triple} ({error}); give one such as x86_64-unknown-linux-gnu or"
            " aarch64-unknown-linux-gnu"
        ) from None
    return target.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="default", abiname=abi
    )


def llvm_triple(target: Target) -> str:
    """The triple for LLVM. For WebAssembly, a system that links dynamically is named: LLVM has position-independent code for no other."""
    return target.triple.split("-")[0] + "-unknown-emscripten" if target.cpu.arch == "wasm" else target.triple


def target_machine(target: Target, level: int = 2) -> Any:
    """llvmlite's TargetMachine for a target, with position-independent code and the small code model."""
    cpu = target.mcpu
    return _machine(llvm_triple(target), "" if cpu == "generic" else cpu, target.feature_string, target.abi, level)


def data_layout(target: Target) -> str:
    """LLVM's data layout string of the target."""
    key = (target.triple, target.abi)
    found = _layouts.get(key)
    if found is None:
        found = _layouts[key] = str(target_machine(target).target_data)
    return found


_layouts: dict[tuple[str, str], str] = {}


def optimise(module: Any, machine: Any, opt_level: int, combine: bool = True) -> None:
    """Runs LLVM passes: none up to level 1, a cheap clean-up at 2 (combine: with instcombine), LLVM's whole pipeline at 3."""
    if opt_level <= 1:
        return
    tuning = binding.create_pipeline_tuning_options(speed_level=opt_level)
    builder = binding.create_pass_builder(machine, tuning)
    if opt_level >= 3:
        manager = builder.getModulePassManager()
    else:
        manager = binding.create_new_function_pass_manager()
        manager.add_sroa_pass()
        if combine:
            manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()
        for function in module.functions:
            if not function.is_declaration and not any([b"optnone" in a for a in function.attributes]):
                manager.run(function, builder)
        _release(manager)
        return
    manager.run(module, builder)
    _release(manager)


def _release(manager: Any) -> None:
    """Frees a pass manager. llvmlite's classes inherit an empty `_dispose` ahead of their own, and would leak 100 KB per module."""
    if type(manager)._dispose is ffi.ObjectRef._dispose:
        NewPassManager._dispose(manager)


def _parsed(text: str, target: Target, opt_level: int, imports: Sequence[str] = ()) -> tuple[Any, Any]:
    initialize()
    machine = target_machine(target)
    context = binding.create_context()
    try:
        module = binding.parse_assembly(text, context)
    except RuntimeError as error:
        raise InternalError(f"LLVM refused the generated code: {error}") from None
    for given in imports:
        _link_in(module, given, context)
    level = min(opt_level, 2) if BFLOATS in text else opt_level
    optimise(module, machine, level, BFLOATS not in text)
    return module, machine


def _link_in(module: Any, given: str, context: Any) -> None:
    """Links in LLVM IR that a pragma import_llvm names. given: its text, or the path of a .ll or .bc file."""
    try:
        if given.endswith(".bc"):
            other = binding.parse_bitcode(Path(given).read_bytes(), context)
        else:
            other = binding.parse_assembly(Path(given).read_text() if given.endswith(".ll") else given, context)
    except (RuntimeError, OSError) as error:
        raise TVMError(f"import_llvm: LLVM cannot read the imported IR: {error}") from None
    # It is for the same machine, perhaps under another name.
    other.triple, other.data_layout = module.triple, module.data_layout
    names = [f.name for f in other.functions if not f.is_declaration]
    try:
        module.link_in(other)
    except RuntimeError as error:
        raise TVMError(f"import_llvm: cannot link the imported IR: {error}") from None
    for name in names:
        module.get_function(name).linkage = "internal"


def compile_object(text: str, target: Target | str, opt_level: int = 1, imports: Sequence[str] = ()) -> bytes:
    """A relocatable object of LLVM IR text. imports: LLVM IR (texts, or paths of .ll and .bc files) with functions that it calls."""
    module, machine = _parsed(text, Target(target), opt_level, imports)
    result: bytes = machine.emit_object(module)
    return result


def object_kind(target: Target) -> ObjectKind:
    """The file format of objects for the target. Raises TVMError for triples that LLVM does not know or writes no objects for, and for
    big-endian ones."""
    key = (target.triple, target.feature_string, target.abi)
    found = _kinds.get(key)
    if found is None:
        text = f'target datalayout = "{data_layout(target)}"\ntarget triple = "{llvm_triple(target)}"\n'
        try:
            kind = ObjectKind.of(compile_object(text, target))
        except RuntimeError:
            kind = None
        if kind is None:
            raise TVMError(
                f"-mtriple={target.triple}: LLVM writes no objects for it that can be linked; give the triple of a CPU, such as"
                " x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu"
            )
        if data_layout(target).startswith("E"):
            raise big_endian(target)
        found = _kinds[key] = kind
    return found


_kinds: dict[tuple[str, str, str], ObjectKind] = {}


def compile_assembly(text: str, target: Target | str, opt_level: int = 1, imports: Sequence[str] = ()) -> str:
    """Assembly text of LLVM IR text. imports: as for `compile_object`."""
    module, machine = _parsed(text, Target(target), opt_level, imports)
    result: str = machine.emit_assembly(module)
    return result
