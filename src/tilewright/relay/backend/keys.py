"""What entries of the on-disk cache depend on: the compiler itself, the target, the options of the pass context."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from tilewright.ir.transform import PassContext
from tilewright.support import cache as disk
from tilewright.support.version import VERSION
from tilewright.target import Target

COMPILER_ROOMS = (
    "arith",
    "codegen",
    "driver",
    "ir",
    "node",
    "relay/backend",
    "relay/op",
    "te",
    "tir",
    "topi",
    "target",
)
"""What a kernel's machine code depends on, besides its primitive function, the target and LLVM."""


@cache
def compiler_digest() -> str:
    """A digest of the compiler itself, so that a changed compiler does not find what an older one made."""
    return _sources(COMPILER_ROOMS)


@cache
def package_digest() -> str:
    """A digest of the whole package: what the passes and importers of whole models depend on as well."""
    return _sources(("",))


def _sources(rooms: Sequence[str]) -> str:
    import llvmlite
    from llvmlite import binding

    versions = f"{VERSION} {llvmlite.__version__} {binding.llvm_version_info}"
    digest = hashlib.blake2b(versions.encode(), digest_size=16)
    root = Path(disk.__file__).parent.parent
    for room in rooms:
        for folder, inner, files in os.walk(root / room):
            inner.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    with open(os.path.join(folder, name), "rb") as file:
                        digest.update(file.read())
    return digest.hexdigest()


@lru_cache(maxsize=16)
def target_key(target: Target) -> str:
    """All that code generation knows of the target: for the host, that is more than its name says."""
    cpu = target.cpu
    facts = [
        target,
        target.triple,
        target.mcpu,
        target.feature_string,
        cpu.cores,
        cpu.l1_bytes,
        cpu.l2_bytes,
        cpu.l3_bytes,
    ]
    return " ".join(map(str, facts))


def options_key() -> str:
    """The options of the current pass context."""
    return repr(sorted((k, str(v)) for k, v in PassContext.current().config.items()))
