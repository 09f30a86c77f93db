"""Classic interfaces below `tilewright.contrib`."""
