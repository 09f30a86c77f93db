"""The virtual machine: the compiler of bytecode and the native machine."""
