"""Tests of the nodes of tir."""
