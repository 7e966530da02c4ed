import pytest

from stretto.language.counting import points_in
from stretto.language.folding import fold
from stretto.language.forms import words_wanted
from stretto.router.demands import items_wanted, may_be_list, wants_brevity, wants_format


@pytest.mark.parametrize(
    "text",
    [
        "Explain gravity in one sentence.",
        "Is it safe? Answer yes or no.",
        "Keep it short: what is a mutex?",
        "What causes rust? Be brief.",
        "Describe Rome in 50 words.",
        "Describe Rome in 2 sentences.",
        "tl;dr of the French Revolution",
        "Briefly, what is inflation?",
        "Erkläre mir die Inflation in einem Satz.",
        "Explique la gravité en une phrase.",
        "Explica la gravedad en una frase.",
        "Объясни кратко, что такое инфляция",
        "用一句话解释通货膨胀",
        "GIVE ME A SHORT ANSWER",
    ],
)
def test_a_wish_for_brevity_is_heard(text):
    assert wants_brevity(text)


@pytest.mark.parametrize(
    "text",
    [
        "Explain gravity.",
        "Suggest a warm-up routine and explain each move briefly.",
        "Write about five composers, 50 words each.",
        "Describe each city in one sentence.\n\nLisbon\nOslo\nPrague",
        "Write an essay of 500 words.",
        "Which words come from Arabic?",
        "A short history of Rome",
        "I know only a little about wine. What should I read?",
        "How do online shops set prices?",
    ],
)
def test_what_only_sounds_like_brevity_is_not(text):
    assert wants_brevity(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Respond only with valid JSON.",
        "Return XML please",
        "Output: a JSON array",
        "Answer in YAML",
        "respond with json",
    ],
)
def test_a_demand_for_a_format_is_heard(text):
    assert wants_format(text)


@pytest.mark.parametrize("text", ["What is JSON good for?", "Compare XML and YAML.", "Tell me about code reviews."])
def test_a_question_about_a_format_demands_none(text):
    assert wants_format(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [("Write a 300-word story", 300), ("an essay of 800 words", 800), ("a story about 7 dwarfs", None), ("", None)],
)
def test_the_length_asked_for_is_read(text, words):
    assert words_wanted(fold(text)) == words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Translate:\n1. one\n2. two\n3. three", 3),
        ("Classify each:\n- a cat\n- a dog", 2),
        ("Give the capital of each: Peru, Kenya, Laos, Fiji", 4),
        ("Is it a) red b) green c) blue", 3),
        ("Translate into French\n\napple\nbread\ncheese\nmilk", 4),
        ("Translate these into French:\n\napple\nbread\ncheese", 3),
        ("Write ten slogans", 10),
        ("a dozen names for a boat", 12),
        ("Write 8 haikus", 8),
        ("Zehn Werbesprüche", 10),
        ("Slogans for a bakery", 0),
        ("Write one slogan", 0),
        ("Slogans for the year 2030", 0),
    ],
)
def test_items_are_counted(text, count):
    assert items_wanted(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Give me 15 tips for saving money", 15),
        ("What are the top 20 causes of house fires?", 20),
        ("What are twelve really good reasons to learn Latin?", 12),
        ("Nenne 15 gute Gründe für Homeoffice", 15),
        ("List 5 ways to save money", 5),
        ("What are the benefits of a 15 minute walk?", 0),
        ("What are the causes of the 30 years war?", 0),
        ("What are the advantages of a bicycle?", 0),
    ],
)
def test_the_number_of_points_asked_for_is_read(text, count):
    assert points_in(text).wanted == count


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        ("Translate into French\n- apple\n- bread\n- cheese", True),
        ("Translate into French\n\napple\nbread\ncheese", True),
        ("Translate these into French:\nThe shop is closed on Mondays.\nWhere is it?\nI lost it.", True),
        ("Translate into French\napple\nbread\ncheese", True),
        ("Translate into French\n- apple\n- bread", False),
        ("What do I do on a rainy day?\nMy children are bored of all games.\nThey are six.\nWe have no car.", False),
        (
            "Summarise this:\n\n" + "A long line of a text that somebody wants to have summarised. " * 3 + "\na\nb",
            False,
        ),
        ("", False),
    ],
)
def test_lines_that_stand_like_items_are_seen(text, may_be):
    assert may_be_list(text) is may_be
