import pytest

from stretto.strategies.document.task import task_of

HOPS = [
    "What is the code of the person who is captain of the Aurora?",
    "What is the capital of the country where the author of Peer Gynt was born?",
    "Who founded the company that bought the firm named in clause 4?",
    "When was the wife of the founder of the museum born?",
    "What is the birthplace of the wife of the founder?",
    "Which river flows through the city in which the treaty was signed?",
    "Who is the brother of the woman who signed the lease?",
    "What does the supplier of the company that lost the case sell?",
    "How old is the son of the man whose ship sank?",
    "What is Anna's mother's maiden name?",
    "First find the invoice number, then look up who paid it.",
    "Wie heißt die Hauptstadt des Landes, in dem der Vertrag geschlossen wurde?",
    "Quel est le prix du produit dont le fabricant a fait faillite ?",
    "Where does the person who wrote the letter to the mayor live?",
]
SINGLE = [
    "What is the rent?",
    "Who signed the contract?",
    "When does the lease begin?",
    "What does the report say about costs?",
    "Where is the head office?",
    "How much did revenue grow in 2023?",
    "What is the code of name3?",
    "What is the capital of France?",
    "Who is the author of the report?",
    "What are the terms of the contract that was signed in May?",
    "What is the conclusion of the paper that I attached?",
    "Which risks are named in the report which you have read?",
    "Is there a clause about termination?",
    "What is the price of the large model?",
    "Does the text say that the moon is made of cheese?",
    "What does section 4 mean?",
    "Explain the method in simple words.",
    "Why did the experiment fail?",
    "What happened to the ship?",
    "Who was the first to reach the pole?",
    "What is the penalty for late payment?",
    "Which function reads the settings file?",
    "How does the parser handle comments?",
    "What do the authors recommend?",
    "Who are the parties?",
    "Was ist die Kündigungsfrist?",
]


@pytest.mark.parametrize("question", HOPS)
def test_questions_that_need_one_passage_to_find_the_next_are_told(question):
    assert task_of(question, 1).hops


@pytest.mark.parametrize("question", SINGLE)
def test_questions_that_one_passage_can_answer_are_not_taken_for_them(question):
    assert not task_of(question, 1).hops


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Summarize the report in 200 words.", "summarise"),
        ("Fasse den Bericht zusammen.", "summarise"),
        ("List all the dates.", "extract"),
        ("How many people are mentioned?", "extract"),
        ("Compare the two offers.", "compare"),
        ("What is the rent?", "answer"),
        ("What does the summary of section 3 say about rent?", "answer"),
        ("What is the list of parties based on?", "answer"),
        ("Who translated the book?", "answer"),
        ("How many days' notice does the tenant have to give?", "answer"),
        ("What is the difference in price?", "answer"),
    ],
)
def test_the_task_is_told_from_the_question(question, kind):
    assert task_of(question, 2).kind == kind
