"""Firmware: a model with the runtime, start code, linker script and Makefile of a board, and a report of what it takes."""
