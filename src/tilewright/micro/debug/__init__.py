"""Debug connections: GDB's remote serial protocol, and the programs that speak it for boards and emulators."""
