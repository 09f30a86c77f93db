"""Executors that measure."""
