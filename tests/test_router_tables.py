from collections import defaultdict

import pytest
from router_prompts import (
    DEPENDENT_TAILS,
    HOW_TO_SEQUENCES,
    HOW_TO_SETS,
    INDEPENDENT_LISTS,
    NOT_POINTS,
    POINTS,
    TWELVE,
)

from recipes.router.rows import HELD_OUT, load, read
from stretto.backends.base import Capabilities
from stretto.router import Router
from stretto.router.parse import wants_finished_list
from stretto.testing import ScriptedBackend
from stretto.values.request import Request

BY_POINTS = Capabilities(prompt_family="pocket")  # whose answers are in parts wherever that suits

ENOUGH = 0.8
ENOUGH_OF_FEW = 0.75  # some families held out have 13 rows
NAMED = {
    "How can I sleep better?": "skeleton",
    "How do I keep my house cool in summer?": "skeleton",
    "How do I look after a bicycle?": "skeleton",
    "How do I change a tyre?": "direct",
    "How do I install Linux beside Windows?": "direct",
    "How do I bake bread?": "direct",
    "Give me 5 tips and explain why the third is best": "direct",
    "Give me five tips for saving money, each with an example.": "skeleton",
    "给我五个改善睡眠的建议": "skeleton",
    "よく眠るための5つのヒントを教えて": "skeleton",
    "أعطني خمس نصائح للنوم بشكل أفضل": "skeleton",
    "बेहतर नींद के लिए पाँच सुझाव दीजिए": "skeleton",
    "Дай пять советов, как лучше спать": "skeleton",
    "Daha iyi uyumak için beş ipucu ver": "skeleton",
    "Wie wechsle ich einen Reifen?": "direct",
    "Wie backe ich ein Sauerteigbrot?": "direct",
    "Comment faire une omelette ?": "direct",
    "¿Cómo se cambia una rueda pinchada?": "direct",
    "如何换自行车轮胎？": "direct",
    "Explain the five stages of grief in order, each leading to the next": "direct",
    "Wie bleibe ich auf langen Autofahrten wach?": "skeleton",
    "Comment protéger ses plantes du gel ?": "skeleton",
    "¿Cómo puedo aprovechar mejor el tiempo?": "skeleton",
    "怎样让厨房保持整洁？": "skeleton",
}
TAILS = """\
早起きのコツを五つ挙げて、なぜ三つ目が一番良いか説明してください。
일찍 일어나는 팁 다섯 가지를 말하고, 왜 세 번째가 가장 좋은지 설명해 주세요.
Nenne vier Gründe und fasse sie zusammen
Donne cinq idées puis choisis la meilleure
पाँच सुझाव दो और सबसे अच्छा चुनो
Suggest six names and explain your favourite
List five risks in order of importance
Nomina cinque formaggi, dal più dolce al più piccante.
Noem drie oplossingen en zeg welke je zou kiezen.
Dê quatro motivos e diga qual é o mais forte, em ordem de importância.
Назови три решения и выбери лучшее.
Üç çözüm öner ve birini seç.
اذكر ثلاثة حلول ثم رتبها حسب الأهمية.
说出三个办法，再选出最好的一个。
対策を三つ挙げて、重要な順に並べてください。
해결책 세 가지를 말하고 그중 하나를 골라 주세요.""".splitlines()
NO_TAILS = """\
Nenne vier Gründe und erkläre jeden mit einem Beispiel.
Donne cinq idées et décris chacune d'elles.
Dame cuatro motivos y explica cada uno.
Nomina cinque formaggi e descrivi ciascuno.
Noem drie oplossingen en leg elke oplossing uit.
Dê quatro motivos e explique cada um.
Назови три решения и опиши каждое.
Üç çözüm öner ve her birini açıkla.
اذكر ثلاثة حلول واشرح كل حل.
तीन उपाय बताओ और हर एक को समझाओ।
说出三个办法，并分别说明。
対策を三つ挙げて、それぞれ説明してください。
해결책 세 가지를 말하고 각각 설명해 주세요.
Suggest six names and explain each.""".splitlines()


@pytest.fixture(scope="module")
def router():
    return Router()


def strategy(router, prompt):
    return router.decide(
        Request.of(prompt), {"main": ScriptedBackend({}, name="openai:any", capabilities=BY_POINTS)}
    ).strategy


def wrong(router, prompts, *, served):
    return [prompt for prompt in prompts if (strategy(router, prompt) == "skeleton") != served]


def assert_enough(router, prompts, *, served):
    missed = wrong(router, prompts, served=served)
    assert len(missed) <= (1 - ENOUGH) * len(prompts) + 1e-9, missed


@pytest.mark.parametrize(("prompt", "chosen"), NAMED.items())
def test_the_prompts_that_this_router_was_asked_to_get_right(router, prompt, chosen):
    assert strategy(router, prompt) == chosen


def test_how_to_questions_with_independent_advice_get_a_skeleton(router):
    assert_enough(router, HOW_TO_SETS, served=True)


def test_how_to_questions_with_one_sequence_get_none(router):
    assert_enough(router, HOW_TO_SEQUENCES, served=False)


@pytest.mark.parametrize("prompt", DEPENDENT_TAILS)
def test_a_list_whose_end_depends_on_all_its_points_gets_no_skeleton(router, prompt):
    assert strategy(router, prompt) == "direct"


@pytest.mark.parametrize("prompt", TAILS)
def test_what_needs_the_finished_list_is_found_in_every_language(prompt):
    assert wants_finished_list(prompt)


@pytest.mark.parametrize("prompt", NO_TAILS)
def test_what_is_said_of_each_point_needs_no_finished_list_in_any_language(prompt):
    assert wants_finished_list(prompt) is None


def test_a_list_that_explains_each_point_gets_a_skeleton(router):
    assert_enough(router, INDEPENDENT_LISTS, served=True)


@pytest.mark.parametrize("language", POINTS)
def test_independent_points_get_a_skeleton_in(router, language):
    assert_enough(router, POINTS[language].splitlines(), served=True)


@pytest.mark.parametrize("language", NOT_POINTS)
def test_steps_prose_code_and_short_answers_get_no_skeleton_in(router, language):
    assert_enough(router, NOT_POINTS[language].splitlines(), served=False)


@pytest.mark.parametrize("prompt", TWELVE)
def test_more_points_than_an_outline_has_get_no_skeleton_in_any_language(router, prompt):
    assert strategy(router, prompt) == "direct"


def test_the_tables_hold_no_prompt_of_the_training():
    known = {row.prompt.casefold() for row in load()}
    tables = [*POINTS.values(), *NOT_POINTS.values()]
    prompts = [
        *HOW_TO_SETS,
        *HOW_TO_SEQUENCES,
        *DEPENDENT_TAILS,
        *INDEPENDENT_LISTS,
        *TWELVE,
        *NAMED,
        *TAILS,
        *NO_TAILS,
    ]
    prompts += [prompt for table in tables for prompt in table.splitlines()]
    assert not [prompt for prompt in prompts if prompt.casefold() in known]


def test_no_row_held_out_was_trained_on():
    known = {row.prompt.casefold() for row in load()}
    assert not [row.prompt for row in read(HELD_OUT) if row.prompt.casefold() in known]


@pytest.mark.thorough
def test_the_rows_held_out_are_judged_well_in_every_family(router):
    right = defaultdict(list)
    for row in read(HELD_OUT):
        right[row.source].append((strategy(router, row.prompt) == "skeleton") == row.skeleton)
    shares = {source: sum(each) / len(each) for source, each in right.items()}
    assert min(shares.values()) >= ENOUGH_OF_FEW, shares
