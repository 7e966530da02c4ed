"""Calibration: learn from the caller's questions when a smaller model's answer is as good as the large one's.

`calibrate` asks the smaller models and the large one each question, learns the thresholds at which an answer is
accepted, and saves them for ``strategy="cascade"``. The result is a `Calibration`: the curve of cost against agreement,
measured on held-out questions, compared with random routing. `calibrate_router` learns a correction of the router from
questions whose strategy is known.
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
