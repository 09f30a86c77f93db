"""OpenCL devices by pocl, whose devices are the CPU (`make test-opencl`)."""
