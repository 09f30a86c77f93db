"""Programs as users of the classic API write them, a folder for each room; each checks its own results."""
