"""Tests of the core: types, constants, modules, passes, instruments."""
