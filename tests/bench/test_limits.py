"""Limits of a device and the share that a pool reaches, against formulas by hand."""

import pytest
import torch

import covpool
from covpool.bench._limits import copy_rate, matmul_rate, pool_shares

CPU = torch.device("cpu")


def test_rates_are_positive() -> None:
    assert matmul_rate(CPU, torch.float32, order=64) > 0 and copy_rate(CPU, mebibytes=1) > 0


def test_shares_of_plain_covariance_by_hand() -> None:
    pool = covpool.create_pool("cov", 8)
    shares = pool_shares(pool, (2, 9, 8), milliseconds=1e-3, limits=(1.0, 1.0))
    flops = 3 * 2 * 2 * 9 * 8 * 8
    size = 4 * (3 * 2 * 9 * 8 + 2 * 2 * 36)
    assert shares == pytest.approx({"share_of_products": flops / 1e-6 / 1e12, "share_of_copy": size / 1e-6 / 1e9})
