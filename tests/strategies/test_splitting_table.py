"""Prompts that must be taken apart, and prompts that must not."""

import pytest

from stretto.strategies.items.splitting import NotSplit, Split, split

ITEMS = {
    # separated lists behind a colon
    "Give the plural of each word: cat, child, mouse": ("Give the plural of each word", "cat|child|mouse"),
    "Give the plural of: cat, child, mouse": ("Give the plural of", "cat|child|mouse"),
    "Give the opposite of each word: hot, early and narrow.": ("Give the opposite of each word", "hot|early|narrow"),
    "What is the past tense of each verb: go, swim, and bring?": (
        "What is the past tense of each verb",
        "go|swim|bring",
    ),
    "define these for a nurse: oedema, sepsis, stoma": ("define these for a nurse", "oedema|sepsis|stoma"),
    "Define each of these terms: net weight; gross weight; tare": (
        "Define each of these terms",
        "net weight|gross weight|tare",
    ),
    "Translate into French: 'bread', 'milk' and 'two eggs'": ("Translate into French", "bread|milk|two eggs"),
    "Translate 'bread', 'milk' and 'eggs' into French.": 3,
    'Translate each of "sun", "moon", "star" into Latin': 3,
    "Translate these into Danish: thank you / where is the ferry / I am lost": (
        "Translate these into Danish",
        "thank you|where is the ferry|I am lost",
    ),
    "Name the young of each animal: cow, sheep, goose": ("Name the young of each animal", "cow|sheep|goose"),
    "How many minutes is each duration: 2 hours, 5 hours, 9 hours": (
        "How many minutes is each duration",
        "2 hours|5 hours|9 hours",
    ),
    "convert to kilometres - 3 miles, 10 miles, 26 miles": ("convert to kilometres", "3 miles|10 miles|26 miles"),
    "make these road signs polite. Stop, Go slow, No entry": 3,
    "Write a two-line description for each: tin kettle, oak stool, rope mat": (
        "Write a two-line description for each",
        "tin kettle|oak stool|rope mat",
    ),
    "For every city say which river runs through it: Vienna, Rome, Cairo, Baghdad": 4,
    "Label each as noun or verb: run, table, sing, river": ("Label each as noun or verb", "run|table|sing|river"),
    "Which of these mushrooms is edible? Answer for each: chanterelle, fly agaric, porcini": 3,
    "Spell out each number: 12, 40, 77, 91": ("Spell out each number", "12|40|77|91"),
    "Convert each price to pounds: 1,200 dollars, 3,500 dollars, 800 dollars": (
        "Convert each price to pounds",
        "1,200 dollars|3,500 dollars|800 dollars",
    ),
    "Describe each of these friends in a sentence: Max (tall, shy), Ida (loud, kind), Tom (old, wise)": (
        "Describe each of these friends in a sentence",
        "Max (tall, shy)|Ida (loud, kind)|Tom (old, wise)",
    ),
    "define: isthmus, delta, fjord. one sentence each": ("define, one sentence each", "isthmus|delta|fjord"),
    "Conjugate in the present tense: être, avoir, faire": 3,
    "Rate from 1 to 5 how formal each greeting is: hi, good evening, dear sir": 3,
    "Übersetze jedes Wort ins Englische: Hund, Katze, Vogel": (
        "Übersetze jedes Wort ins Englische",
        "Hund|Katze|Vogel",
    ),
    "Nenne zu jedem Land die Hauptstadt: Peru, Ghana, Nepal": 3,
    "Donne le pluriel de chaque mot : cheval, bijou, œil": ("Donne le pluriel de chaque mot", "cheval|bijou|œil"),
    "Traduce cada palabra al inglés: perro, gato y pez": ("Traduce cada palabra al inglés", "perro|gato|pez"),
    "Traduci ogni parola in inglese: cane, gatto, pesce": 3,
    "Vertaal elk woord in het Duits: hond, kat en vis": ("Vertaal elk woord in het Duits", "hond|kat|vis"),
    "Переведи каждое слово на английский: дом, лес, река": 3,
    "翻译以下单词：猫、狗、鸟": ("翻译以下单词", "猫|狗|鸟"),
    # marked lines
    "Translate into Spanish:\n1. The shop is shut.\n2. Mind the step.\n3. No dogs, please.": (
        "Translate into Spanish",
        "The shop is shut.|Mind the step.|No dogs, please.",
    ),
    "Classify each review as good or bad:\n- lovely staff\n- cold soup\n- would go again": (
        "Classify each review as good or bad",
        "lovely staff|cold soup|would go again",
    ),
    "Correct each sentence.\n\n(1) He go home.\n(2) She have a car.\n(3) They was late.": (
        "Correct each sentence.",
        "He go home.|She have a car.|They was late.",
    ),
    "Label each ticket sales / help\na) my bill is wrong\nb) cannot log in\nc) do you post to Malta": (
        "Label each ticket sales / help",
        "my bill is wrong|cannot log in|do you post to Malta",
    ),
    "* tulip\n* oak\n* fern\n\nSay for each plant whether it flowers.": (
        "Say for each plant whether it flowers.",
        "tulip|oak|fern",
    ),
    "Sentiment of each?\nReview 1: Loved the tent.\nReview 2: The zip broke.\nReview 3: Fine for a week.": (
        "Sentiment of each?",
        "Loved the tent.|The zip broke.|Fine for a week.",
    ),
    "Simplify each clause:\n1. The lessee shall\n   pay the rent.\n2. The lessor may enter.\n3. Two weeks.": (
        "Simplify each clause",
        "The lessee shall\n   pay the rent.|The lessor may enter.|Two weeks.",
    ),
    "Here are some job adverts.\n\nRewrite each of them plainly:\n• Ninja coder\n• Rockstar baker\n• Guru cleaner": (
        "Rewrite each of them plainly",
        "Ninja coder|Rockstar baker|Guru cleaner",
    ),
    "Translate the following sentences into Polish:\n1) I am hungry.\n2) It is late.\n3) Good night.": 3,
    "Beschreibe jedes Tier in einem Satz:\n- Dachs\n- Igel\n- Luchs": (
        "Beschreibe jedes Tier in einem Satz",
        "Dachs|Igel|Luchs",
    ),
    "Sentence 1: He sings bad.\nSentence 2: She don't know.\nSentence 3: We was here.\n\nCorrect each sentence.": 3,
    "Answer each question in one word:\n1. What is the capital of Chad?\n2. Who wrote Emma?\n3. Where is Oslo?": 3,
    "Define each of these terms:\n- net weight;\n- gross weight;\n- tare.": (
        "Define each of these terms",
        "net weight|gross weight|tare.",
    ),
    "Write an e-mail to each of these people: Ann, Bob, Cleo": 3,
    "Translate into Spanish: spoon, fork, knife": ("Translate into Spanish", "spoon|fork|knife"),
    "Translate this list to Spanish:\n- bread\n- milk\n- eggs": ("Translate this list to Spanish", "bread|milk|eggs"),
    "Describe these in one paragraph each: Rome, Oslo, Bonn": 3,
    "Turn these into questions:\n1. He is late.\n2. They left.\n3. It rains.": 3,
    "Convert these dates to ISO format: 3 May 2021, 14 July 1789, 1 March 2000": 3,
    "Calculate each: 3+4, 5*6, 7-2": ("Calculate each", "3+4|5*6|7-2"),
    # marks inside a line
    "sentiment of each: 1) 'great bread' 2) 'stale again' 3) 'okay I guess'": (
        "sentiment of each",
        "great bread|stale again|okay I guess",
    ),
    "True or false? Judge each: (a) Bats are blind. (b) Oslo is north of Rome. (c) Glass is a liquid.": 3,
    # lines, paragraphs, JSON
    "Give the plural of each word:\nox\ngoose\ndie": ("Give the plural of each word", "ox|goose|die"),
    "Translate to Italian:\nspoon\nfork\nknife": ("Translate to Italian", "spoon|fork|knife"),
    "anvil\nbellows\ntongs\n\nSay what each tool is for.": ("Say what each tool is for.", "anvil|bellows|tongs"),
    "Label each comment as spam or not:\n\nBuy gold now!\n\nI liked the part about bees.\n\nClick here, win a car.": (
        "Label each comment as spam or not",
        "Buy gold now!|I liked the part about bees.|Click here, win a car.",
    ),
    'Capitalise each entry: ["lima", "oslo", "cairo"]': ("Capitalise each entry", "lima|oslo|cairo"),
    'Translate each string to German.\n[\n  "Save",\n  "Open file",\n  "Quit"\n]': 3,
}
COUNTS = {
    "Write 10 slogans for a bakery": 10,
    "Give me five quiz questions about volcanoes": 5,
    "12 names for a sailing club": 12,
    "Twelve taglines for a shop that only sells hats": 12,
    "come up with a dozen captions for a photo of a sleeping cat": 12,
    "I need seven fake reviews of a toaster for a test page.": 7,
    "Could you suggest 8 titles for a book on moss?": 8,
    "Please write 20 example sentences with the word 'unless'.": 20,
    "You teach chemistry. Generate 6 multiple-choice questions on acids.": 6,
    "Make a list of 15 usernames for a gardener": 15,
    "Invent four different villagers for a role-playing game, a paragraph each": 4,
    "Write 5 tweets announcing a book fair": 5,
    "Give me 3 limericks about rain": 3,
    "Write thirty hashtags for a marathon": 30,
    "Schreib 10 Slogans für eine Bäckerei": 10,
    "Nenne mir fünf Namen für einen Chor": 5,
    "Gib mir zwölf Beispielsätze mit dem Wort obwohl": 12,
    "Écris 8 slogans pour une librairie": 8,
    "Donne-moi dix phrases avec le mot pourtant": 10,
    "Escribe seis eslóganes para una panadería": 6,
    "Dame 7 preguntas sobre volcanes": 7,
    "Scrivi cinque slogan per una libreria": 5,
    "Escreva 9 frases com a palavra embora": 9,
    "Geef me tien namen voor een koor": 10,
    "Придумай 10 слоганов для пекарни": 10,
    "请写10个口号": 10,
    "为面包店写五个名字": 5,
    "スローガンを10個書いてください": 10,
}

KEPT = [
    # all items together
    "Sort these: pear, fig, apple",
    "Rank each film by how scary it is: Alien, Jaws, Psycho",
    "Compare the following: tea, coffee, cocoa",
    "Put these in order of size: Mars, Venus, Earth",
    "Order the following events: the moon landing, the fall of Troy, the first flight",
    "Which of these is the largest: Peru, Chad, Laos",
    "Which of these words does not belong: cup, plate, cloud?",
    "Give the sum of: 3, 5, 9",
    "What is the average of these numbers: 4, 8, 15",
    "Add up the following prices: 3 euros, 5 euros, 9 euros",
    "Group these animals: cat, shark, eagle, dog",
    "Cluster the following comments:\n- too slow\n- too dear\n- crashed twice",
    "Remove the duplicates from these names: Ann, Bob, Cleo",
    "Choose the best of these slogans: Eat well, Bake on, Rise up",
    "Pick one of these for dinner: rice, pasta, soup",
    "Summarise the following reviews:\n- nice\n- slow\n- dear",
    "Summarize these notes in one paragraph:\n1. rain\n2. wind\n3. snow",
    "Write a story using these words: lamp, river, crown",
    "Use each of these words in one story: lamp, river, crown",
    "What do these have in common: bat, ball, glove",
    "Combine these sentences: It rained. We left. It stopped.",
    "Explain the differences between these: lake, pond, pool",
    "Match each word to its meaning: a, b, c",
    "Arrange the following in alphabetical order: pear, fig, apple",
    "Merge each of these lists: a, b, c",
    "Write a poem about: snow, fire, salt",
    "Sortiere diese Wörter: Apfel, Birne, Kirsche",
    "Vergleiche diese Städte: Bonn, Köln, Mainz",
    "Compare ces villes : Lyon, Nice, Metz",
    "Ordena estas palabras: pera, higo, uva",
    "比较以下城市：北京、上海、广州",
    "Calculate the total price for each order: 3 cups, 2 plates, 1 bowl",
    "Give each animal a different name: cat, dog, cow",
    "Define each: mean, mode, median. Then write a conclusion",
    "Rate each on taste relative to the others: tea, coffee, cocoa",
    "Describe each and tell me which is best: Bonn, Rome, Oslo",
    "Assign each of these tasks to one team member: cook, clean, drive",
    "Prioritise each of these bugs:\n- crash\n- typo\n- slow",
    "Explain these ideas and how they relate: force, mass, speed",
    "Describe the following people as characters of one novel: Ann, Bob, Cem",
    # items that lean on each other
    "Translate these sentences:\n1. I saw a dog.\n2. Same as above, but two dogs.\n3. A cat.",
    "Answer these questions:\n1. Who wrote Emma?\n2. When was she born?\n3. Where did she live?",
    "Solve each part:\n(a) Find x.\n(b) Using the previous result, find y.\n(c) Find z.",
    "Define each: recto; verso; ibid.",
    # lists that are not items
    "Write a report. Requirements:\n- two pages\n- formal\n- with sources",
    "Explain photosynthesis. Cover the following points:\n- light\n- water\n- sugar",
    "Describe a holiday using the following ingredients: sun, rain, mud",
    "Which is correct?\nA) their\nB) there\nC) they're",
    "Answer the question: what is H2O?\nA) salt\nB) water\nC) gold",
    "My shopping list: eggs, milk, bread",
    "I like cats, dogs and birds.",
    "What can I cook with eggs, flour and milk?",
    "Translate this poem:\n\nThe sea is wide\nthe night is long\nthe moon is high",
    "Translate the following text:\n\nOnce there was a king.\n\nHe had a son.\n\nThey were happy.",
    "Explain it to my parents: what it is, what it costs, how it works",
    "Anna, Bob and Cem each own a pet: cat, dog, fish. Cem hates cats. Who owns what?",
    "Fix this:\n```\na = 1\n```\n- each\n- of\n- these",
    "Write the following list to a CSV file: a, b, c",
    "Translate into French: I like cats, dogs and birds.",
    "Translate to German: Hello, my name is Ann, and I live in Rome.",
    "Translate each sentence into Dutch: I like cats, dogs and birds. He sings, dances and swims.",
    "Translate into German: I came; I saw; I won",
    "Simplify this sentence: The cat, which was black, sat, purring, on the mat.",
    "Translate the following dialogue:\n1. Hello!\n2. Hi, who are you?\n3. I am Ann.",
    "Make a packing list for these: Anna, Bob, Cem",
    "Give a nickname to each of my dogs so that all rhyme: Max, Rex, Bob",
    # counts with order, length or sums
    "List the top 10 films",
    "Give me the 10 largest cities in Spain",
    "Write down the first 10 prime numbers",
    "Explain in 10 steps how to bake bread",
    "Plan a 5-day trip to Rome",
    "Write a poem of 10 verses",
    "Explain gravity in 3 sentences",
    "Summarise the French Revolution in five sentences.",
    "Write 5 jokes, then rate them",
    "Write 5 haikus, one for each season and one for the year",
    "Write 10 questions of increasing difficulty about maths",
    "Write five sentences that tell a story",
    "Write 10 names in alphabetical order",
    "Give me 5 names and 3 slogans for a bakery",
    "Explain what a pun is and write 10 examples",
    "I have 10 questions about my contract",
    "Translate these 5 sentences",
    "Write two slogans for a bakery",
    "Write 500 names for a boat",
    "Give the plural of each word: cat, dog",
    "Give the three most famous quotes by Goethe",
    "Write 10 sentences, each continuing the previous one",
    "Write 5 questions for each chapter",
    "Who were the 12 apostles?",
    "What happened 10 years ago?",
    "Schreibe 10 Sätze in aufsteigender Reihenfolge",
    "",
    "Hello",
    "How do I look after a bicycle?",
]


@pytest.mark.parametrize("prompt", ITEMS)
def test_a_list_with_one_operation_is_taken_apart(prompt):
    taken = split(prompt)
    assert isinstance(taken, Split), taken
    expected = ITEMS[prompt]
    if isinstance(expected, int):
        assert len(taken.items) == expected
    else:
        assert (taken.instruction, "|".join(taken.items)) == expected


@pytest.mark.parametrize("prompt", COUNTS)
def test_a_number_of_samples_is_read(prompt):
    taken = split(prompt)
    assert isinstance(taken, Split), taken
    assert (taken.count, taken.items, taken.instruction) == (COUNTS[prompt], (), prompt)


@pytest.mark.parametrize("prompt", KEPT)
def test_what_belongs_together_is_not_taken_apart(prompt):
    taken = split(prompt)
    assert isinstance(taken, NotSplit), taken
    assert taken.reason


def test_there_are_enough_examples():
    assert len(ITEMS) + len(COUNTS) >= 60
    assert len(KEPT) >= 60
