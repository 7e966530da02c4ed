"""What shape the answer has, what each way of generating it would cost now, so which way."""

from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.router.policy import Router
from stretto.router.second_opinion import SecondOpinion
from stretto.router.shape import Judgement, ShapeModel

__all__ = ["Case", "Judgement", "Offer", "Router", "SecondOpinion", "ShapeModel"]
