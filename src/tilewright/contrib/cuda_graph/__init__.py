"""Graphs of CUDA: a run of a model that is captured once and replayed in one call."""
