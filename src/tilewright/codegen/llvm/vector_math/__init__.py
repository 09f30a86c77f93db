"""Elementary functions of floats as vector code, and the conversions that some CPUs lack."""
