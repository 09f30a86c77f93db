"""What external compilers tell of operators: tables of the patterns that they take."""

from tilewright.relay.op.contrib.register import get_pattern_table, register_pattern_table

__all__ = ["get_pattern_table", "register_pattern_table"]
