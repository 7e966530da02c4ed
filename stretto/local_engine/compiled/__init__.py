"""Compiled for the processor at hand: products with weights in panels, whole forwards on a CPU, and drafting.

A small model's step is spent between torch's operations more than in them: 180 of them for the pocket model, each a few
microseconds of arithmetic and ten times that of getting there. Here a step is one call, and so is a part of a prompt.

A number of a result is summed in the same order whatever other rows there are. So a row of a draft gives the same bits
as the same row alone, and every method the same answer to the last bit of its logits.
"""
