"""What shape the answer has, what each way of generating it would cost now, so which way."""

from stretto.router.policy import Router
from stretto.router.second_opinion import SecondOpinion
from stretto.router.shape import Judgement, ShapeModel

__all__ = ["Judgement", "Router", "SecondOpinion", "ShapeModel"]
