"""The schedule rules for GPUs."""
