import torch

from covpool.ops import vech
from covpool.pools._vectorization import triangle, vector_size, vectorize


def test_triangle_is_the_length_of_vech() -> None:
    for order in (1, 2, 3, 64, 130):
        assert triangle(order) == vech(torch.zeros(order, order)).numel()


def test_vectorize_returns_the_full_matrix_or_its_triangle() -> None:
    a = torch.arange(9.0).reshape(1, 3, 3)
    assert vectorize(a, "full").tolist() == [list(range(9))]
    assert vectorize(a, "triangle").tolist() == [[0, 1, 2, 4, 5, 8]]
    assert vector_size(3, "full") == 9 and vector_size(3, "triangle") == 6
