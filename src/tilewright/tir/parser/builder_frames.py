"""The kinds of `with` statements of builders under their classic names (`tvm.script.ir_builder.tir.frame`)."""

from __future__ import annotations

from tilewright.script.parser import Scope as TIRFrame
from tilewright.tir.parser.blocks import BlockScope as BlockFrame
from tilewright.tir.parser.blocks import InitScope as BlockInitFrame
from tilewright.tir.parser.builder import FunctionScope as PrimFuncFrame
from tilewright.tir.parser.control import CaseScope as ElseFrame
from tilewright.tir.parser.control import CaseScope as ThenFrame
from tilewright.tir.parser.control import IfScope as IfFrame
from tilewright.tir.parser.control import WhileScope as WhileFrame
from tilewright.tir.parser.frames import AssertScope as AssertFrame
from tilewright.tir.parser.frames import LetScope as LetFrame
from tilewright.tir.parser.frames import Loops as ForFrame
from tilewright.tir.parser.scopes import Around

AllocateFrame = AllocateConstFrame = AttrFrame = DeclBufferFrame = LaunchThreadFrame = RealizeFrame = Around

__all__ = [
    "AllocateConstFrame", "AllocateFrame", "AssertFrame", "AttrFrame", "BlockFrame", "BlockInitFrame", "DeclBufferFrame", "ElseFrame",
    "ForFrame", "IfFrame", "LaunchThreadFrame", "LetFrame", "PrimFuncFrame", "RealizeFrame", "TIRFrame", "ThenFrame", "WhileFrame",
]  # fmt: skip
