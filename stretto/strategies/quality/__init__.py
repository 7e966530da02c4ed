"""Detect what spoils an answer while it streams: words of our prompts, loops, repeated titles and points.

The detectors are pure, take linear time, and give the same result however a stream is cut.

Private: not part of the public API, and may change at any time.
"""
