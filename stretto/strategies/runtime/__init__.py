"""The runtime of strategies: branches, their calls and budget, and the merge of their texts.

Private: not part of the public API, and may change at any time.
"""
