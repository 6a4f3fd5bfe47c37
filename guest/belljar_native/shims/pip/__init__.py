"""Stands in for pip: a session has no network, so the supervisor is asked."""

__version__ = "0"
