"""What askwell costs, measured: `python -m benchmarks`."""
