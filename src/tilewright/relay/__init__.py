"""Relay: the functional graph IR."""
