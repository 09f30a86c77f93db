"""The interface of a model for C programs: structs of inputs, outputs, memories and devices, and the function that takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright.codegen.backend import WholeModel
from tilewright.codegen.source.c.names import C_LANGUAGE
from tilewright.codegen.source.text.identifiers import plain
from tilewright.ir import DataType


class Tensor(NamedTuple):
    """An input or an output: its member of the struct, its size (-1: not known), and a description."""

    member: str
    size: int
    comment: str


def tensors(described: list[dict[str, Any]], names: list[str]) -> list[Tensor]:
    """The members of a struct for inputs or outputs, from their descriptions in metadata."""
    found: dict[str, Tensor] = {}
    for item, name in zip(described, names, strict=True):
        member = plain(name, C_LANGUAGE)
        while member in found:
            member += "_"
        dtype, size = DataType(item["dtype"]), 1
        for extent in item["shape"]:
            size *= extent
        size *= 1 if dtype.is_bool else dtype.bytes
        found[member] = Tensor(member, size, f"{dtype}[{', '.join(map(str, item['shape']))}]")
    return list(found.values())


def output_names(outputs: list[dict[str, Any]]) -> list[str]:
    """The names of the outputs. Outputs without names get those of classic interfaces: output, or output0, output1, ..."""
    plural = len(outputs) > 1
    return [
        t["name"] if t["name"] != f"output_{i}" else f"output{i}" if plural else "output" for i, t in enumerate(outputs)
    ]


class Interface:
    """name: the prefix of all names. pool: the memory for what lies between kernels, if the program gives it; else it is static memory of
    the model. devices: handles that the program gives."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        workspace: int,
        pools: Sequence[Tensor] = (),
        devices: Sequence[str] = (),
    ) -> None:
        self.name, self.inputs, self.outputs = name, list(inputs), list(outputs)
        self.workspace, self.pools, self.devices = (
            max(workspace, 1),
            list(pools),
            [plain(d, C_LANGUAGE) for d in devices],
        )

    @staticmethod
    def of(model: WholeModel) -> Interface:
        """The interface of a compiled model."""
        facts = model.facts
        inputs = tensors(facts["inputs"], [t["name"] for t in facts["inputs"]])
        outputs = tensors(facts["outputs"], output_names(facts["outputs"]))
        workspace = int(facts["workspace_bytes"])
        pool = (facts.get("memory_pools") or {}).get("workspace") if model.unpacked else None
        pools = [Tensor(plain(pool, C_LANGUAGE), workspace, "for what lies between kernels")] if pool else []
        return Interface(model.name, inputs, outputs, workspace, pools)

    @property
    def _given(self) -> list[tuple[str, str, list[Tensor]]]:
        """(struct, what it is called, its members) of what a run takes."""
        both = [("inputs", "inputs", self.inputs), ("outputs", "outputs", self.outputs)]
        if self.pools:
            both.append(("workspace_pools", "workspace_pools", self.pools))
        if self.devices:
            both.append(("devices", "devices", [Tensor(d, -1, "the device's handle") for d in self.devices]))
        return both

    def structs(self) -> str:
        """The definitions of the structs."""
        lines = []
        for kind, _, tensors in self._given:
            members = [f"  void* {t.member};{f' /* {t.comment} */' if t.comment else ''}" for t in tensors]
            lines += [f"struct {self.name}_{kind} {{", *(members or ["  void* nothing;"]), "};"]
        return "\n".join(lines)

    def declaration(self) -> str:
        """The function that takes structs."""
        given = ", ".join([f"struct {self.name}_{kind}* {called}" for kind, called, _ in self._given])
        return f"int32_t {self.name}_run({given})"

    def main_declaration(self) -> str:
        """The function that takes the members one by one."""
        params = [f"void* {t.member}" for _, _, tensors in self._given for t in tensors]
        return f"int32_t {self.name}___tvm_main__({', '.join(params) or 'void'})"

    def header(self, unpacked: bool) -> str:
        """The text of the header that programs include."""
        guard, upper = f"{self.name.upper()}_H_", self.name.upper()
        sizes = [
            f"#define {upper}_{t.member.upper()}_SIZE {t.size}{f' /* bytes of {t.comment} */' if t.comment else ''}"
            for t in (*self.inputs, *self.outputs)
            if t.size >= 0
        ]
        if self.pools:
            sizes += [f"#define {upper}_{t.member.upper()}_WORKSPACE_POOL_SIZE {t.size}" for t in self.pools]
        else:
            sizes.append(
                f"#define {upper}_WORKSPACE_SIZE {self.workspace} /* bytes of static memory for what lies between kernels */"
            )
        once = (
            f"Not by two threads at once{', if they share the workspace' if self.pools else ': the workspace is one'}."
        )
        lines = [
            f"#ifndef {guard}", f"#define {guard}", "#include <stdint.h>", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
            *sizes, "",
            self.structs(), "",
            f"/* Runs the model: 0, or the code of an error. {once} */",
            f"{self.declaration()};",
            *(["/* The same, of the addresses of inputs and outputs. */", f"{self.main_declaration()};"] if unpacked else []),
            "", "#ifdef __cplusplus", "}", "#endif", "#endif", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def definitions(self, run: str, constants: str, unpacked: bool) -> str:
        """The functions of the interface. run: the function that takes inputs, outputs, the address of the constants, and the workspace."""
        place = self.pools[0].member if self.pools else f"&{self.name}_workspace"
        memory = f"(void*){constants}, {place}"
        lines = ["", self.structs()]
        if not self.pools:
            lines.append(
                f"static union {{ char bytes[{self.workspace}]; int64_t whole; double real; void* pointer; }}"
                f" {self.name}_workspace TW_ALIGN(64);"
            )
        function = run
        if unpacked:
            given = ", ".join([*[t.member for t in (*self.inputs, *self.outputs)], memory])
            head = f"TW_EXPORTED {self.main_declaration()}"
            lines += [f"{head};", f"{head} {{", f"  return {run}({given});", "}"]
            function = f"{self.name}___tvm_main__"
        fields = [f"{called}->{t.member}" for _, called, tensors in self._given for t in tensors]
        unused = [f"  (void){called};" for _, called, tensors in self._given if not tensors]
        head = f"TW_EXPORTED {self.declaration()}"
        values = ", ".join([*fields, *([] if unpacked else [memory])])
        lines += [f"{head};", f"{head} {{", *unused, f"  return {function}({values});", "}"]
        return "\n".join(lines) + "\n"


__all__ = ["Interface", "Tensor", "output_names", "tensors"]
