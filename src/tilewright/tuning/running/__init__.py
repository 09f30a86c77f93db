"""Runners: they measure libraries in a process of this machine (`local`), on boards (`rpc`), in a Ray cluster (`ray`).

measuring   what all of them do with a library: compare its outputs, time it
"""
