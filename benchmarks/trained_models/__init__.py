"""Trained models out of packages' wheels, beside the runtimes that they were made for."""
