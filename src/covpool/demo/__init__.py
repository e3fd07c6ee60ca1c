"""The demo: average and covariance pooling compared on real images, from scratch, in minutes on a CPU."""

from covpool.demo._folder import PAGE as PAGE
from covpool.demo._folder import PLOT as PLOT
from covpool.demo._folder import conclude as conclude
from covpool.demo._folder import prepare as prepare
from covpool.demo._results import PoolResult as PoolResult
from covpool.demo._results import verdict as verdict
from covpool.demo._trainings import Training as Training
from covpool.demo._trainings import train_all as train_all
