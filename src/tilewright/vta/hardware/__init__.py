"""The accelerator as hardware: logic from a configuration and the tables of instructions (`core`), its simulation (`simulation`) and its
synthesis (`synthesis`).

Its modules import Amaranth and Yosys (`pip install tilewright[rtl]`), so programs import them by their full names."""
