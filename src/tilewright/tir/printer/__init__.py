"""TVMScript printing of tir, as hooks of the script room; importing this package registers them."""

from tilewright.ir import PrimExpr, Range
from tilewright.node import register_printer
from tilewright.script import print_short, register_prefix, script
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import CommReducer, IterVar
from tilewright.tir.function import PrimFunc
from tilewright.tir.printer import exprs as exprs
from tilewright.tir.printer import function as function
from tilewright.tir.printer import stmts as stmts
from tilewright.tir.stmt import BufferRegion, MatchBufferRegion, Stmt

register_prefix("tir_prefix", "tir")
for _cls in (PrimExpr, Range, Buffer, IterVar, CommReducer, BufferRegion, MatchBufferRegion, Stmt):
    register_printer(_cls, print_short)
register_printer(PrimFunc, script)
