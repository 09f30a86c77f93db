"""A reader of HDF5 files, in which Keras keeps weights: the format's own library ends the process over many that are damaged."""
