"""From code to files and libraries: object files, C compilers, linking, export, and the symbols that a loader looks for."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
