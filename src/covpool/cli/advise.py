"""`covpool advise`: which pool and image size for a folder of images, and what to expect."""

import json as json_format
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console

from covpool.cli._options import read_data
from covpool.cli._output import say, table


def command(
    folder: str,
    *,
    records: Path | None = None,
    json: bool = False,
) -> None:
    """Recommend a pool and an image size for a folder of images, with the gain to expect and the command.

    The advice is isqrt, avg, or to compare them. It comes from recorded experiments with frozen MobileNetV2 on 200
    birds (CUB-200-2011) and ten textures (DTD): those with the nearest number of classes, at the nearest number of
    images per class. Your images may behave differently: `covpool fit FOLDER` compares the pools on them.

    Args:
        folder: Folder with train/CLASS and test/CLASS, or with CLASS folders. NAME:FOLDER for other layouts, as in
            cub:/data/CUB_200_2011.
        records: Folder of other records. The default is that of the records that come with covpool.
        json: Print the advice as JSON.
    """
    from covpool.studies.claims import advise, describe_images, read_claims, records_folder

    found = describe_images(read_data(folder))
    advice = advise(found, read_claims(records or records_folder()), folder)
    if json:
        typer.echo(json_format.dumps({"folder": asdict(found), "advice": asdict(advice)}))
        return
    console = Console()
    say(
        console,
        f"{found.classes} classes, {found.training:,} training images ({found.fewest} to {found.most} per class, "
        f"median {found.typical}), shorter side {found.shorter_side} px",
    )
    rows = [
        (
            one.data,
            str(one.per_class),
            str(one.first.size),
            f"{100 * one.top1[1]:.1f}",
            f"{100 * one.top1[0]:.1f}",
            f"{one.points:+.1f} ({100 * one.interval[0]:+.1f} to {100 * one.interval[1]:+.1f})",
        )
        for one in advice.expected
    ]
    headings = ("on record", "images per class", "px", "avg %", "isqrt %", "gain, 95 %")
    console.print(table(headings, rows, title="gain of iSQRT-COV over average pooling"))
    chosen = "compare the pools on your images" if advice.pool == "auto" else f"{advice.pool} at {advice.size} px"
    say(console, f"recommendation: {chosen} ({advice.reason})")
    pool, avg = advice.expected[0].lengths
    classifier = f"{pool * found.classes / 1e6:.1f} million weights in the classifier"
    say(console, f"cost of isqrt: vectors of {pool:,} numbers instead of {avg:,}, {classifier}")
    say(console, f"next: {advice.command}")
