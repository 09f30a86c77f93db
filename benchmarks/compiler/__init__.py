"""The compiler itself: its speed, and whether a change leaves its code as it was."""
