"""The length that a task names for a text that it shortens."""

import pytest

from stretto.language.shares import length_asked

HALF, THIRD, TWO_THIRDS = 1 / 2, 1 / 3, 2 / 3
SHARES = {
    HALF: """\
Shorten this text to half its length
Kürze diesen Text auf die Hälfte.
Réduis ce texte de moitié
Acorta el texto a la mitad
Accorcia il testo a metà
Verkort deze tekst tot de helft
Encurte o texto para metade
Сократи текст вдвое
Bu metni yarısına kısalt
इस पाठ को आधा छोटा कर
把这篇文章缩短到一半
この文章を半分に短くして
이 글을 절반으로 줄여 줘""",
    THIRD: """\
Make this text a third as long
Condense this to 1/3 of its length
Réduis la longueur à un tiers
اختصر هذا النص إلى الثلث
把这篇文章压缩到原文的三分之一
この文章を3分の1に短くして
이 글을 3분의 1로 줄여 줘""",
    TWO_THIRDS: """\
Cut this article by a third.
Make it a third shorter:
I want you to cut a third of this text.
Kürze den Text um etwa ein Drittel
Kürze den Text auf zwei Drittel
Raccourcis ce texte d'un tiers
Acorta este texto en un tercio
Accorcia il testo di un terzo
Kort deze tekst in met een derde
Encurte o texto em um terço
Сократи этот текст на треть
इस पाठ को एक तिहाई छोटा कर दो
把这篇文章缩短三分之一""",
    0.8: """\
Shorten this text by a good 20%:""",
    0.75: """\
Shorten this text by a further 25 percent:""",
    0.7: """\
Please condense this text; I want a 30% shorter version:""",
    0.6: """\
Shorten this to about 60 % of its length
Shorten it by up to 40%
Kürze diesen Text um 40 Prozent
Acorta el texto al 60 %
この文章を40%短くして
이 글을 40% 줄여 줘""",
}
TOTALS = {
    "Shorten this 600-word letter to 250 words.": (250, "words"),
    "This text has 600 words. Shorten it to 250 words.": (250, "words"),
    "Shorten this to at most 1,200 characters.": (1200, "characters"),
    "Kürze ihn auf höchstens 1.500 Zeichen": (1500, "characters"),
    "Réduis ce texte à 200 mots": (200, "words"),
    "把这篇文章缩短到300字": (300, "characters"),
}
NONE = """\
Shorten this text
Shorten this to three paragraphs
Shorten this to half a page
Tighten the third paragraph of this text
Cut 200 words from this text
Shorten this text by 200 words
Shorten each paragraph to 40 words
Shorten this press release but keep the 50% discount
Shorten this article on the half-life of caffeine
Shorten this text to highlight 20% growth
Shorten this text to show 20% growth
Shorten this text in a third-person style""".splitlines()


@pytest.mark.parametrize(
    ("task", "share"), [(task, share) for share, tasks in SHARES.items() for task in tasks.splitlines()]
)
def test_a_share_is_what_is_to_be_left(task, share):
    assert length_asked(task) == (pytest.approx(share), "share")


@pytest.mark.parametrize("task", TOTALS)
def test_a_total_is_that_of_the_shortened_text(task):
    assert length_asked(task) == TOTALS[task]


@pytest.mark.parametrize("task", NONE)
def test_what_may_mean_something_else_is_no_length(task):
    assert length_asked(task) is None
