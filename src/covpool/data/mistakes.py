"""Telling users' mistakes, of which covpool itself complains, from faults of the program."""


def is_ours(error: BaseException) -> bool:
    """Whether it was raised in a file of covpool."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] == "covpool"
