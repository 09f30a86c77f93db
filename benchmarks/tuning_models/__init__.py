"""Tuning: how well cost models rank schedules, and what the prior is learned from."""
