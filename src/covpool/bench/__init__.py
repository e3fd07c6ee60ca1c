"""Benchmarks: speed and error of every operation and pool, side by side, on this machine."""

from covpool.bench._loading import measure_loading as measure_loading
from covpool.bench._measure import busy_time as busy_time
from covpool.bench._measure import peak_memory as peak_memory
from covpool.bench._measure import time_interleaved as time_interleaved
from covpool.bench._networks import measure_network as measure_network
from covpool.bench._networks import measure_rate as measure_rate
from covpool.bench._networks import processes_for as processes_for
from covpool.bench._plots import check_plot_path as check_plot_path
from covpool.bench._plots import plot_curves as plot_curves
from covpool.bench._plots import plot_throughput as plot_throughput
from covpool.bench._record import Record as Record
from covpool.bench._steps import HEADS as HEADS
from covpool.bench._steps import measure_model as measure_model
from covpool.bench._suites import SUITES as SUITES
from covpool.bench._train import TRAINED as TRAINED
from covpool.bench._train import measure_training as measure_training
