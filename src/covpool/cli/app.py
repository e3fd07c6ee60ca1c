"""The `covpool` application and its commands."""

import typer

from covpool.cli import bench, demo, doctor, listing

app = typer.Typer(
    help="Global covariance (second-order) pooling for PyTorch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("list")(listing.list_all)
app.command("show")(listing.show)
app.command("bench")(bench.bench)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
