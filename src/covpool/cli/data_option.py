"""`--data`: where a data set lies, and which it is."""


def split_data(asked: str) -> tuple[str, str]:
    """(name, folder) of NAME:FOLDER; the name is empty where only a folder is given.

    >>> split_data("cub:/data/CUB_200_2011"), split_data("/data/birds")
    (('cub', '/data/CUB_200_2011'), ('', '/data/birds'))
    """
    from covpool.data.sets import SETS

    name, colon, root = asked.partition(":")
    return (name, root) if colon and name in SETS else ("", asked)
