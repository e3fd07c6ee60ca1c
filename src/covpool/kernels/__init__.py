"""Kernels: tensors in, tensors out, no autograd; the only importers of triton and ctypes.

Importing this package imports neither: its modules do, and `covpool.ops` asks for them when it has use for them.
"""
