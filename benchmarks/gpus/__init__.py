"""GPUs of NVIDIA, beside the libraries in PyTorch's wheel: cuBLAS, cuDNN, flash attention, torch.compile."""
