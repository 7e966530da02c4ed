"""The parts of `benchmarks/decoding.py`: prompts, our methods, the peers, and the arithmetic."""
