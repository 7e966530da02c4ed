import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.language.counting import points_in
from stretto.router.parse import Parse
from stretto.strategies.skeleton.points_text import PointText, label, words_for
from stretto.values.request import Request

OIL = "Oil the chain"


def form(question):
    return Parse.of(Request.of(question)).form or "numbered"


def words(request, points):
    return words_for(request, Parse.of(request), points)


def through(text, lengths=(1_000,)):
    shaped, out, at, number = PointText(OIL, "   "), "", 0, 0
    while at < len(text):
        length = lengths[number % len(lengths)]
        out += shaped.feed(text[at : at + length])
        at, number = at + length, number + 1
    return out + shaped.finish()


@pytest.mark.parametrize(
    ("form_of_it", "shown"),
    [
        ("numbered", "\n2. **Oil the chain**: "),
        ("bulleted", "\n- **Oil the chain**: "),
        ("sections", "\n\n## Oil the chain\n\n"),
        ("paragraphs", "\n\n"),
    ],
)
def test_a_form_labels_its_points(form_of_it, shown):
    assert label(form_of_it, OIL, 2) == shown
    assert label(form_of_it, OIL, 1) == shown.lstrip("\n").replace("2.", "1.")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Wipe it first.", "Wipe it first."),
        ("2. **Oil the chain**: Wipe it first.", "Wipe it first."),
        ("## Oil the chain\n\nWipe it first.", "Wipe it first."),
        ("**Oil the Chain.** Wipe it first.", "Wipe it first."),
        ("Oil the chain - wipe it first.", "wipe it first."),
        ("Oil the chain every month.", "Oil the chain every month."),
        ("2 bar is enough.", "2 bar is enough."),
        ("  Wipe it.  \n\n", "Wipe it."),
        ("Oil the chain", "Oil the chain"),
        ("Oil the chain.js is no label.", "Oil the chain.js is no label."),
    ],
)
def test_a_repeated_label_is_taken_off_and_nothing_else(written, shown):
    assert through(written) == shown


def test_lines_of_a_point_stay_inside_its_list_item():
    assert through("One.\n\nTwo.\n- three") == "One.\n\n   Two.\n   - three"


def test_text_streams_as_soon_as_it_cannot_be_a_label():
    assert PointText(OIL, "").feed("Wipe") == "Wipe"


TEXTS = st.one_of(
    st.text(max_size=60),
    st.builds("{}{}{}{}".format, st.sampled_from(["", "2. ", "**", "# ", "2) **", " \n"]), st.just("Oil the chain"),
              st.sampled_from(["", ":", "** :", " - ", "\n\n", ".", " every"]), st.text(max_size=30)),
)  # fmt: skip


@given(TEXTS, st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_any_cutting_of_the_same_text_gives_the_same_point(text, lengths):
    assert through(text, lengths) == through(text)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("How do I look after a bicycle?", "numbered"),
        ("Give me bullet points on bicycle care.", "bulleted"),
        ("Write a guide to bicycle care.", "sections"),
        ("Explain bicycle care in a few paragraphs.", "paragraphs"),
        ("Explain bicycle care, no bullets please.", "paragraphs"),
        ("Erkläre Fahrradpflege in Stichpunkten.", "bulleted"),
        ("Explique l'entretien d'un vélo sans listes.", "paragraphs"),
        ("Напиши отчёт об уходе за велосипедом.", "sections"),
        ("Bisiklet bakımını maddeler halinde anlat.", "bulleted"),
        ("写一份自行车保养指南", "sections"),
        ("自転車の手入れを箇条書きで教えて", "bulleted"),
        ("자전거 관리 보고서를 써 줘", "sections"),
        ("साइकिल की देखभाल पर निबंध लिखो", "paragraphs"),
        ("اكتب تقريرا عن العناية بالدراجة", "sections"),
    ],
)
def test_the_form_follows_what_was_asked_for(question, named):
    assert form(question) == named


def test_the_length_of_a_point_follows_question_preference_and_limit():
    assert words(Request.of("Why?", preference="fastest"), 5) < words(Request.of("Why?", preference="careful"), 5)
    assert words(Request.of("Why? In 600 words."), 6) == 100
    assert words(Request.of("Why? In detail."), 6) == 2 * words(Request.of("Why?"), 6)
    assert words(Request.of("Why?", max_tokens=240), 6) == 20


@pytest.mark.parametrize(
    "question",
    [
        "Warum? Ausführlich bitte.",
        "Почему? Подробно.",
        "为什么？请详细说明。",
        "なぜ？詳しく教えて",
        "왜? 자세히",
        "क्यों? विस्तार से",
        "لماذا؟ بالتفصيل",
        "Neden? Ayrıntılı anlat.",
        "Perché? In dettaglio.",
        "Por quê? Em detalhes.",
        "Waarom? Uitgebreid.",
    ],
)
def test_detail_is_asked_for_in_many_languages(question):
    assert words(Request.of(question), 6) == 2 * words(Request.of("Why?"), 6)


@pytest.mark.parametrize(
    ("question", "number"),
    [("Warum? In 600 Wörtern.", 100), ("Почему? 600 слов", 100), ("为什么？写1200字。", 100), ("왜? 1200자로", 100),
     ("क्यों? 600 शब्दों में", 100), ("Neden? 600 kelime", 100), ("Perché? 600 parole", 100)],
)  # fmt: skip
def test_a_length_is_asked_for_in_many_languages(question, number):
    assert words(Request.of(question), 6) == number


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("Give me exactly 5 points on remote work", 5),
        ("Explain the benefits of cycling in exactly four points.", 4),
        ("What are the benefits of yoga? Exactly 5 points please.", 5),
        ("10 tips for better sleep", 10),
        ("What are the top 3 reasons to move to Lisbon?", 3),
        ("In 6 bullet points, describe the causes of the French Revolution.", 6),
        ("Give me 5 tips, each with an example.", 5),
        ("Nenne mir genau fünf Punkte zum Thema Homeoffice.", 5),
        ("Donne-moi exactement 5 points sur le télétravail.", 5),
        ("Dame exactamente 5 puntos sobre el teletrabajo.", 5),
    ],
)
def test_a_number_of_points_that_is_plainly_asked_for_is_read(question, number):
    assert points_in(question).asked == number


@pytest.mark.parametrize(
    "question",
    [
        "How do I look after a bicycle?",
        "Give me 5 to 7 tips for sleeping.",
        "Give me five or six tips.",
        "Give me 3-5 tips.",
        "Give me at least 5 tips.",
        "Give me 3 points for each of these cities: Rome, Oslo",
        "Give me 3 tips each for cats and dogs.",
        "List 3 advantages and 3 disadvantages of solar power.",
        "Compare these three methods: drip, spray, flood.",
        "I have 5 ideas for a shop. Which problems should I expect?",
        "What are the benefits of a 5 minute walk?",
        "45 tips for saving money",
        "In 5 years, what things will change?",
        "Tell me 4 out of 5 reasons.",
    ],
)
def test_a_number_that_does_not_hold_for_the_whole_answer_is_not(question):
    assert points_in(question).asked is None
