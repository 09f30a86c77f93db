"""Functions in Python that compiled code calls for what no kernel does: strings, factorisations of matrices, special functions."""
