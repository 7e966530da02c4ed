"""What generates text: remote APIs, the local engine, any LangChain model, and wrappers that add behaviour to them.

Private: not part of the public API, and may change at any time.
"""
