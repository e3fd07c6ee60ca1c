"""Kernels: tensors in, tensors out; the only importer of triton."""
