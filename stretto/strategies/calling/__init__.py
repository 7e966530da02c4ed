"""Functions of the caller: called as soon as a model has asked for them, side by side, and the answer goes on.

Which calls belong to one round is what the model decides: unlike LLMCompiler (Kim et al., arXiv 2312.04511), nobody
plans them beforehand.

Private: not part of the public API, and may change at any time.
"""
