"""What goes over the wire below the SDKs: clients, bounds, headers, errors.

Private: not part of the public API, and may change at any time.
"""
