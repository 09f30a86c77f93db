"""Microcontrollers: sessions with emulated boards, what firmware takes, and networks beside CMSIS-NN."""
