"""Code generators: their interface, LLVM, C, and the interpreter, the oracle of the others."""

from tilewright.support import lazy
from tilewright.support.deferred import defer

defer("tilewright.codegen.interp", "tilewright.codegen.llvm")
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
