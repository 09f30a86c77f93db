"""Devices and targets of a build."""

from __future__ import annotations

from typing import Any

from tilewright.codegen.backend import back_end_of, host_target
from tilewright.ir.transform import PassContext
from tilewright.support.errors import TVMError
from tilewright.target import CompilationConfig, Target, make_compilation_config
from tilewright.target.virtual_device import TargetLike, Targets


def target_of(target: Targets) -> Target:
    """The given target, or the current one, or the host's CPU."""
    return config_of(target).targets[0]


def config_of(target: Targets, target_host: TargetLike | None = None) -> CompilationConfig:
    """The devices and targets of a build. target: one target, a list, or targets by device."""
    return make_compilation_config(PassContext.current(), target, target_host)


def need_code_generators(config: CompilationConfig, what: str) -> None:
    """Raises TVMError, which begins with `what`, for a target without a code generator."""
    for t in config.targets:
        back_end_of(t, what).object_kind(t)
    kinds = {t.kind.name for t in config.targets}
    if len(kinds) > 1 and not all([back_end_of(t).linkable for t in config.targets]):
        raise TVMError(
            f"{what}: targets of the kinds {', '.join(sorted(kinds))} cannot be mixed, because not all of their code can be linked into"
            " one library; build for one kind"
        )
    if len({t.triple.split("-")[0] for t in config.targets}) > 1:
        raise TVMError(
            f"{what}: all targets must be of one architecture, which one library holds, but they are"
            f" {', '.join([t.triple for t in config.targets])}"
        )


def target_facts(config: CompilationConfig) -> dict[str, Any]:
    """Metadata of the machine that can run the code of all targets."""
    hosts = [host_target(t) for t in config.targets]
    features = {f for t in hosts for f in t.features}
    default: Target = hosts[0]
    return {"triple": default.triple, "cpu": default.mcpu, "features": sorted(features)}
