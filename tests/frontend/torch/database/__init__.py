"""PyTorch's own database of operators as a source of samples: what of it is exported, imported, and computed as PyTorch does."""
