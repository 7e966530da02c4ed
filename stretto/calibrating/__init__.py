"""Learns on questions of the caller when the answer of a smaller model is as good as that of the large one.

`calibrate` asks each question of the smaller models and of the large one, learns from where on an answer stands, and
keeps it; ``strategy="cascade"`` goes by it from then on. The result is a `Calibration`: the curve of cost against
agreement, measured on questions that the thresholds were not learned from, and random routing beside it.
`calibrate_router` learns from questions whose strategy is known how much sooner or later points are wanted.
"""

from stretto.calibrating.calibration_run import calibrate, calibrate_async
from stretto.calibrating.curve import Point
from stretto.calibrating.questions import LabelledQuestion
from stretto.calibrating.report import Calibration
from stretto.calibrating.routing import RoutedQuestion, RouterCalibration, calibrate_router, routed_questions_in
from stretto.strategies.cascade.learned import Estimate, Learned, Step

__all__ = [
    "Calibration",
    "Estimate",
    "LabelledQuestion",
    "Learned",
    "Point",
    "RoutedQuestion",
    "RouterCalibration",
    "Step",
    "calibrate",
    "calibrate_async",
    "calibrate_router",
    "routed_questions_in",
]
