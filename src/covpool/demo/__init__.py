"""The embedded default: average and covariance pooling compared on real pictures, from scratch, in minutes on a CPU."""
