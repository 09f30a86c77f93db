"""What `tilewright tune` shows and measures."""
