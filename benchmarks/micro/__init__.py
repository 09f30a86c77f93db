"""Microcontrollers: sessions with emulated boards, and what firmware takes."""
