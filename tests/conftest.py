"""Without a GPU, Triton interprets the kernels: it must be told before anything, torch's compiler too, imports it.

A shell that starts the tests in the background makes them ignore Ctrl-C; those that interrupt a program need it back.
"""

import os
import signal

import torch

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
