"""What tuning costs."""
