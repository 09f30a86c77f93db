"""Elementary functions of floats as vector code, and conversions for CPUs without instructions for them."""
