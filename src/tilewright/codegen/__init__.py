"""Code generators: their interface, LLVM, and the interpreter, which is the oracle of both."""

from tilewright.support import lazy
from tilewright.support.deferred import defer

defer("tilewright.codegen.interp", "tilewright.codegen.llvm")
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
