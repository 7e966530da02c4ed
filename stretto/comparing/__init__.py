"""Comparison of two ways to answer a caller's questions: in parts and in one piece, or any two strategies or models.

`compare` asks every question both ways, measures the answers with code, and, if given a judge, has it pick one. The
result is a `Comparison`: tables, intervals, and an HTML page with the pairs side by side.
"""

from stretto.comparing.bookkeeping import Spending
from stretto.comparing.comparison_questions import Question, questions_in
from stretto.comparing.comparison_report import Comparison, Pair, Preferences, Row
from stretto.comparing.comparison_run import compare, compare_async
from stretto.comparing.figures import TextFigures, text_figures
from stretto.comparing.intervals import Interval
from stretto.comparing.pairwise_judging import CRITERIA, JudgeReading, JudgeVerdict
from stretto.comparing.question_sampling import Sample, Side

__all__ = [
    "CRITERIA",
    "Comparison",
    "Interval",
    "JudgeReading",
    "JudgeVerdict",
    "Pair",
    "Preferences",
    "Question",
    "Row",
    "Sample",
    "Side",
    "Spending",
    "TextFigures",
    "compare",
    "compare_async",
    "questions_in",
    "text_figures",
]
