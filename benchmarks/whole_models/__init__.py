"""Whole models: latency, memory and compile time beside the peers, and where the time goes."""
