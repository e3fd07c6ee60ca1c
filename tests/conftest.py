"""Without a GPU, Triton interprets the kernels: it must be told before anything, torch's compiler too, imports it."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
