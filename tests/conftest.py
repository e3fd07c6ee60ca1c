"""Settings for all tests.

Without a GPU, Triton interprets the kernels. The variable must be set before anything imports Triton, torch included.
A shell that starts the tests in the background makes them ignore Ctrl-C, which some tests send.
"""

import os
import signal

import torch

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
