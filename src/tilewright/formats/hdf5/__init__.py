"""A reader of HDF5 files, in which Keras keeps weights: the format's own library ends the process over many that are damaged."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
