import torch

from covpool.pools.vectorization import vector_size, vectorize


def test_both_vectors_and_their_lengths() -> None:
    a = torch.arange(9.0).reshape(1, 3, 3)
    assert vectorize(a, "full").tolist() == [list(range(9))]
    assert vectorize(a, "triangle").tolist() == [[0, 1, 2, 4, 5, 8]]
    assert vector_size(3, "full") == 9 and vector_size(3, "triangle") == 6
