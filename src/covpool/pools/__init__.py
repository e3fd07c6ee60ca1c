"""The pooling methods, one file each. A new one needs its file, a line here and a docs page."""

from covpool.pools.avg import AveragePool
from covpool.pools.base import Pool
from covpool.pools.bcnn import BilinearPool
from covpool.pools.cov import CovariancePool
from covpool.pools.gaussian import GaussianPool
from covpool.pools.gem import GeneralizedMeanPool
from covpool.pools.isqrt import IterativeSquareRootPool
from covpool.pools.max import MaxPool
from covpool.pools.mpn import MatrixPowerPool

__all__ = [
    "AveragePool",
    "BilinearPool",
    "CovariancePool",
    "GaussianPool",
    "GeneralizedMeanPool",
    "IterativeSquareRootPool",
    "MatrixPowerPool",
    "MaxPool",
    "Pool",
]
