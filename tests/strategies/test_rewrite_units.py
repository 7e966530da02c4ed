"""Units that stand with the numbers of a rewritten piece: what changed is seen, and right translations are not."""

import pytest
from streaming import streamed, text_of
from test_rewrite import PARAGRAPHS, piece_of, writer

from stretto.strategies.rewrite.kept_text import lost
from stretto.testing import ScriptedBackend

TRANSLATE = "Translate this text into German:"
RIGHT = {
    "The path is 3 km long and climbs 250 m.": [
        "Der Weg ist 3 km lang und steigt 250 m an.",
        "Le sentier fait 3 kilomètres et monte de 250 mètres.",
        "El sendero mide 3 km y sube 250 m.",
        "道は3キロで、250メートル登ります。",
    ],
    "Sales grew by 50 % in 2020, after 12 percent in 2019.": [
        "Der Absatz stieg 2020 um 50 Prozent, nach 12 % im Jahr 2019.",
        "Les ventes ont augmenté de 50 % en 2020, après 12 pour cent en 2019.",
        "Las ventas crecieron un 50 % en 2020, tras un 12 por ciento en 2019.",
        "Las ventas crecieron el 50 por cien en 2020, tras un 12 por ciento en 2019.",
        "Satışlar 2020'de %50 arttı, 2019'daki yüzde 12'den sonra.",
        "Sprzedaż wzrosła o 50 proc. w 2020 r., po 12 proc. w 2019 r.",
        "نمت المبيعات ٪50 في 2020 بعد 12 في المئة في 2019.",
        "売上は2020年に50%伸び、2019年は12パーセントでした。",
    ],
    "It costs $5,000, or about 4,600 euros a year.": [
        "Es kostet 5.000 US-Dollar oder etwa 4.600 € im Jahr.",
        "Cela coûte 5 000 $, soit environ 4 600 euros par an.",
        "Cuesta 5.000 dólares, unos 4.600 euros al año.",
        "費用は5,000ドル、つまり年に約4,600ユーロです。",
    ],
    "Between 10 and 20 %, rarely 5, 6 or 7 %, of the £3m fund.": [
        "Zwischen 10 und 20 %, selten 5, 6 oder 7 %, des Fonds von 3 Mio. £.",
        "Entre 10 % et 20 %, rarement 5, 6 ou 7 %, du fonds de 3 millions de livres.",
        "Entre el 10 y el 20 %, rara vez el 5, el 6 o el 7 %, del fondo de 3 millones de libras.",
        "300万ポンドの基金の10~20%、まれに5、6、7%。".replace("300万", "3百万"),
    ],
    "Heat 500 g at 180 °C for 40 min, then wait 2h 20m and drive 30 miles.": [
        "500 g bei 180 °C 40 Minuten erhitzen, dann 2 h 20 min warten und 30 Meilen fahren.",
        "Chauffez 500 grammes à 180 degrés pendant 40 min, attendez 2 h 20 et roulez 30 miles.",
        "Calienta 500 g a 180 grados durante 40 minutos, espera 2 h 20 min y conduce 30 millas.",
        "500gを180℃で40分温め、2時間20分待ち、30マイル走ります。",
    ],
}
WRONG = [
    ("It is 3 km away.", "Es ist 3 m weit weg.", "3 km became 3 m"),
    ("Sales grew by 50 % in May.", "Der Absatz stieg im Mai um 50.", "50 % became 50"),
    ("Sales grew by 50 % in May.", "Der Absatz stieg um 50 im Mai.", "50 % became 50"),
    ("It costs 5,000 euros.", "Es kostet 5.000 Dollar.", "5000 € became 5000 $"),
    ("It costs £40.", "Es kostet 40 €.", "40 £ became 40 €"),
    ("It costs £40.", "Es kostet 40.", "40 £ became 40"),
    ("Bake at 180 °C for 20 min.", "Bei 180 °F 20 h backen.", "20 min became 20 h"),
    ("Take 5 mg a day.", "1日5gを服用します。", "5 mg became 5 g"),
]


@pytest.mark.parametrize(("source", "result"), [(source, each) for source, all_ in RIGHT.items() for each in all_])
def test_a_right_translation_has_its_units(source, result):
    assert lost(source, result, "translate", TRANSLATE) == []


@pytest.mark.parametrize(("source", "result", "told"), WRONG)
@pytest.mark.parametrize("change", ["translate", "correct"])
def test_another_unit_and_a_lost_sign_are_seen(source, result, told, change):
    assert told in lost(source, result, change, TRANSLATE)


@pytest.mark.parametrize(
    ("source", "result", "change", "task"),
    [
        ("It is 3 km away.", "It is 3 m away.", "change", "Change all lengths"),
        ("It is 3 km away.", "It is 3 miles away.", "tone", "Rewrite this in imperial units"),
        ("It costs 5 €.", "It costs 5 $.", "correct", "Correct this text; amounts are in dollars"),
        ("50 % of them came.", "50 out of 100 of them came.", "simplify", "Simplify this text"),
        ("- Share: 50 %", "| share in hundredths |\n| 50 |", "reformat", "Reformat this text as a table"),
        ("3 km up, 3 h down", "3 h down, 3 km up", "translate", TRANSLATE),
    ],
)
def test_what_the_task_may_ask_for_or_is_not_sure_is_not_told(source, result, change, task):
    assert not [each for each in lost(source, result, change, task) if "became" in each and "rows" not in each]


@pytest.mark.anyio
async def test_a_piece_with_another_unit_is_asked_for_once_more_and_then_told():
    paragraphs = [*PARAGRAPHS[:5], f"It is 3 km away. {PARAGRAPHS[5]}", *PARAGRAPHS[6:]]
    question = f"{TRANSLATE}\n\n" + "\n\n".join(paragraphs)
    tries = []

    def reply(prompt):
        if "3 km away" in (piece := piece_of(prompt)):
            tries.append(text_of(prompt))
            return piece.replace("3 km", "3 m") if len(tries) == 1 else piece
        return piece or "{}"

    answer, _ = await streamed(ScriptedBackend(reply), question, strategy="rewrite")
    assert "3 km became 3 m" in tries[1]
    assert (answer.text, answer.warnings) == ("\n\n".join(paragraphs), ())
    told, _ = await streamed(writer(lambda piece: piece.replace("3 km", "3 m")), question, strategy="rewrite")
    assert [(w.code, "3 km became 3 m" in w) for w in told.warnings] == [("kept", True)]
