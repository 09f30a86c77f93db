"""What carries a compiled model to other machines: the runtime built for them."""
