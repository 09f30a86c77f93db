"""Random tensor programs under random schedules: the interpreter at every step of lowering, and native code, agree."""
