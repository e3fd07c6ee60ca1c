"""The pooling methods, one file each. A new one needs its file, a line here and a docs page."""

from covpool._registry import (
    PoolInfo,
    create_pool,
    list_pools,
    option_types,
    pool_info,
    pool_name,
    register,
    unregister,
)
from covpool.pools.avg import AveragePool
from covpool.pools.base import Layout, Pool
from covpool.pools.bcnn import BilinearPool
from covpool.pools.cbp import CompactBilinearPool
from covpool.pools.cov import CovariancePool
from covpool.pools.cross_cov import CrossCovariancePool
from covpool.pools.deepo2p import LogEuclideanPool
from covpool.pools.deepten import TextureEncodingPool
from covpool.pools.dropcov import DropoutCovariancePool
from covpool.pools.fason import FirstAndSecondOrderPool
from covpool.pools.fbn import FactorizedBilinearPool
from covpool.pools.gaussian import GaussianPool
from covpool.pools.gem import GeneralizedMeanPool
from covpool.pools.hihca import HigherOrderIntegrationPool
from covpool.pools.improved_bcnn import ImprovedBilinearPool
from covpool.pools.isqrt import IterativeSquareRootPool
from covpool.pools.kernel import KernelPool
from covpool.pools.log_cholesky import LogCholeskyPool
from covpool.pools.lrbp import LowRankBilinearPool
from covpool.pools.max import MaxPool
from covpool.pools.mfafv import FactorAnalysersPool
from covpool.pools.mpa import PadeSquareRootPool
from covpool.pools.mpn import MatrixPowerPool
from covpool.pools.netfv import FisherVectorPool
from covpool.pools.netvlad import VladPool
from covpool.pools.smso import StatisticalPool
from covpool.pools.spdnet import ManifoldPool
from covpool.pools.svpn import SingularPowerPool

__all__ = [
    "AveragePool",
    "BilinearPool",
    "CompactBilinearPool",
    "CovariancePool",
    "CrossCovariancePool",
    "DropoutCovariancePool",
    "FactorAnalysersPool",
    "FactorizedBilinearPool",
    "FirstAndSecondOrderPool",
    "FisherVectorPool",
    "GaussianPool",
    "GeneralizedMeanPool",
    "HigherOrderIntegrationPool",
    "ImprovedBilinearPool",
    "IterativeSquareRootPool",
    "KernelPool",
    "Layout",
    "LogCholeskyPool",
    "LogEuclideanPool",
    "LowRankBilinearPool",
    "ManifoldPool",
    "MatrixPowerPool",
    "MaxPool",
    "PadeSquareRootPool",
    "Pool",
    "PoolInfo",
    "SingularPowerPool",
    "StatisticalPool",
    "TextureEncodingPool",
    "VladPool",
    "create_pool",
    "list_pools",
    "option_types",
    "pool_info",
    "pool_name",
    "register",
    "unregister",
]
