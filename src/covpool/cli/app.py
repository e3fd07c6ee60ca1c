"""The `covpool` application and its commands."""

from collections.abc import Callable

import typer

from covpool.cli import (
    bench,
    convert,
    demo,
    doctor,
    evaluate,
    export,
    listing,
    predict,
    probe,
    report,
    show,
    sweep,
    train,
)
from covpool.cli.errors import readable_errors

COMMANDS: dict[str, Callable[..., None]] = {
    "train": train.train_command,
    "eval": evaluate.evaluate_command,
    "predict": predict.predict_command,
    "report": report.report,
    "sweep": sweep.sweep_command,
    "probe": probe.probe_command,
    "list": listing.list_all,
    "show": show.show,
    "convert": convert.convert,
    "export": export.export,
    "bench": bench.bench,
    "demo": demo.demo,
    "doctor": doctor.doctor,
}

app = typer.Typer(
    help="Global covariance (second-order) pooling for PyTorch.",
    epilog="COVPOOL_TRACEBACK=1 in the environment shows where an error arose.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, command in COMMANDS.items():
    app.command(name)(readable_errors(command))
