"""Choose how to generate an answer: judge its shape, forecast the cost of each strategy, and weigh them.

Private: not part of the public API, and may change at any time.
"""

from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.router.policy import Router
from stretto.router.second_opinion import SecondOpinion
from stretto.router.shape import Judgement, ShapeModel

__all__ = ["Case", "Judgement", "Offer", "Router", "SecondOpinion", "ShapeModel"]
