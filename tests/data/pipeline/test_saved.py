from covpool.data import Data
from covpool.data.pipeline._saved import data_settings, data_split


def test_the_kept_settings_open_the_same_images() -> None:
    data = Data(name="dtd", root="textures", split=7, train_on="train+val", test_on="test")
    assert data_settings(data_split(data)) == data
