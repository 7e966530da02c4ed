"""Who generates: remote APIs, the local engine, any LangChain model, and wrappers that add behaviour to one.

Private: not part of the public API, and may change at any time.
"""
