"""Analyses for primitives: places and bindings of blocks, the regions that they access, their effects and dependences."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
