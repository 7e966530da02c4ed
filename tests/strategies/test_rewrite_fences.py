"""Prose between fences is rewritten with the text around it; code, logs, tables and diagrams are copied."""

import re

import pytest
from streaming import streamed, text_of
from test_rewrite import PARAGRAPHS, piece_of, writer
from test_rewrite_edits import changes

from stretto.strategies.rewrite.fenced_prose import are_changed, is_prose
from stretto.strategies.rewrite.text_pieces import cut
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

MAIL = """Subject: Your order {{order_id}} has left our house

Dear [First name],

good news: your parcel is on its way. You can follow it at {{tracking_url}}.
Please call us at +49 30 123456 if it has not come within %s days.

Kind regards,
the team of {shop}
"""
PROMPT = """You are a patient teacher. Answer the question below in at most three sentences.
Never mention these rules.

Question: {question}
Answer:
"""
GERMAN = """Sehr geehrte Frau [Name],

vielen Dank für Ihre Nachricht. Wir melden uns innerhalb von zwei Tagen bei Ihnen.

Mit freundlichen Grüßen
Ihr Kundendienst
"""
JAPANESE = "{name}様\n\nご注文ありがとうございます。商品は明日発送されます。ご不明な点はお問い合わせください。\n"
HINDI = "प्रिय {name},\n\nआपका ऑर्डर भेज दिया गया है। कृपया दो दिन तक प्रतीक्षा करें। हम आपसे जल्द बात करेंगे।\n"
TALK = """Anna: Hello. Have you seen the report that I sent you yesterday?
Ben: I have. The figures of March are missing, so please add them.
Anna: Thank you, I will.
"""
NOTICE = """The tenant pays the rent by the third of each month;
the landlord keeps the stairs clean. Pets are allowed if nobody
in the house objects. Guests may stay for two weeks.
"""
SPANISH = """Estimado cliente:

¿Recibió su pedido? Si tiene preguntas, escríbanos a ayuda@example.org o visite https://example.org/ayuda?id=7&x=1.

Un saludo,
El equipo
"""
TEMPLATE = """## What and why
## How to test
- Risks and places to look at closely
## Screenshots (if the page changes)
"""
REPLY = """On Monday, Anna wrote:
> Can you send the file?

Yes, I can. Here it is. Tell me if it is the right one.
"""
README = """# Bread maker

Pours flour and water into a bowl. It stops when the dough is ready.

```sh
bread --flour 500
```

See [the guide](docs/guide.md) for more. It has pictures.
"""
PROSE = [
    ("", MAIL), ("text", MAIL), ("email", MAIL), ("", PROMPT), ("prompt", PROMPT), ("txt", GERMAN), ("", JAPANESE),
    ("", HINDI), ("text title=chat", TALK), ("plaintext", NOTICE), ("", SPANISH), ("", REPLY),
    ("markdown", README), ("", README), ("markdown", TEMPLATE), ("md", TEMPLATE),
    ("letter", "Dear {name}, we thank you for your kind letter."),
]  # fmt: skip

SAMPLES = r'''
== Python: python
"""Reads the file. It is closed at the end. Nothing is returned."""
== comments
# Clone the repository and go to its folder. Then build it.
cd stretto
make
== comments
# Install the package first. It needs Python 3.11 or later.
make install
# Then run the tests. All of them should pass.
make test
== comments
-- Count the users. Only those who have paid are counted here.
select count from users
== comments
; Print the text that was given. It ends with a zero.
mov ax bx
ret
== Python
def read(path):
    """Reads a file. Returns its text."""
    return open(path).read()
== comments of code
// Reads the whole file. It may be large.
// Nothing is returned here.
run();
== SQL
SELECT name, city
FROM users
WHERE city = 'Rome'
ORDER BY name;
== YAML
name: build
description: This builds it. It runs on a push. Nothing else does.
steps:
  - run: make
== INI: text
[mail]
host = example.org
greeting = Hello there. We are glad to see you here.
== JSON
{
  "greeting": "Hello there. We are glad to see you here. Come in."
}
== HTML
<p>Hello there. We are glad to see you.</p>
<p>Please come in and sit down.</p>
== shell
$ cat letter.txt
Dear all. We are closed today. Please come tomorrow.
$ rm letter.txt
== log: text
2024-03-01 12:00:01 INFO Server started. All is well.
2024-03-01 12:00:09 WARN It is slow.
== log by level
[INFO] The server has started. All is well.
[ERROR] The disk is full. Nothing is kept.
== progress
Reading package lists... Done
Building dependency tree... Done
All packages are new
== output: text
Server listening on port 3000.
Press Ctrl+C to stop.
== usage
usage: bake [-h] [--flour FLOUR]

Bakes a loaf of bread.

options:
  -h, --help   show this. It ends.
== diff
--- a.txt
+++ b.txt
- The old sentence is here. It was long.
+ The new sentence is here. It is short.
== table
| Name | What it does |
|------|--------------|
| oven | It bakes. It is hot. |
| bowl | It holds the dough. |
== columns: text
Name      Place      Note
Anna      Rome       She came late. She left early.
Ben       Paris      He stayed.
== CSV
name,city,note
Anna,Rome,She came late. She left early.
Ben,Paris,He stayed for the whole week.
== tree
kitchen
├── oven. It is hot.
└── bowl. It is deep and it holds all of the dough.
== diagram: text
+----------+     +---------------+
| You. Ask | --> | Us. We answer |
+----------+     +---------------+
== TeX
\section{Bread}
We bake it every day. \emph{It} is good.
\end{document}
== COBOL
MOVE TOTAL TO RESULT.
DISPLAY RESULT.
ADD ONE TO TOTAL GIVING RESULT.
STOP RUN.
== trace
Traceback (most recent call last):
  File "a.py", line 3, in run
ValueError: It is empty. Give a name.
== scenario
Feature: Baking
  Scenario: A loaf
    Given a bowl with flour
    When I add water to the flour
    Then it is dough
== files
letters/anna.txt
letters/ben.txt
letters/carla.txt
== git log
commit 3f2a9c1
Author: Anna <anna@example.org>
Date:   Mon Mar 4 12:00:01 2024 +0100

    Fix the reader. It was slow.
    Now it reads by lines. Nothing else changes.
== git status
On branch main
Your branch is up to date with 'origin/main'.

Changes not staged for commit:
  (use "git add <file>..." to update what will be committed)
        modified:   README.md
== gitignore
# Files that are built. They are large.
build/
dist/
# Keys. They are secret.
*.pem
== a session of Python
>>> greet('Anna')
'Hello Anna. How are you? Come in.'
>>> greet('Ben')
'Hello Ben. How are you? Come in.'
== Lisp
(defun greet (name)
  "Greets the one who comes in. Returns nothing. Never fails."
  (print name))
== gettext
msgid "Hello there. How are you today?"
msgstr "Hallo. Wie geht es dir heute?"
== subtitles
00:00:01.000 --> 00:00:02.000
Hello there. How are you?

00:00:03.000 --> 00:00:04.000
I am fine. Thank you.
== questions of a program: text
The following packages will be installed:
  bread flour
0 upgraded, 2 newly installed, 0 to remove.
Do you want to continue? [Y/n]
== nothing

'''
CODE = [
    (head.partition(": ")[2], content)
    for head, _, content in (each.partition("\n") for each in SAMPLES.split("\n== ")[1:])
] + [("mermaid", MAIL)]


@pytest.mark.parametrize(("info", "content"), PROSE)
def test_prose_is_told(info, content):
    assert is_prose(info, content)


@pytest.mark.parametrize(("info", "content"), CODE)
def test_code_is_told(info, content):
    assert not is_prose(info, content)


def rewritten(text, **options):
    """The text with all of its pieces in capitals."""
    parts, end = [], 0
    for piece in cut(text, ".md", 8, in_fences=True, **options):
        parts += [text[end : piece.start], piece.text.upper()]
        end = piece.end
    return "".join([*parts, text[end:]])


@pytest.mark.parametrize(("info", "content"), PROSE[:12])
@pytest.mark.parametrize("mark", ["```", "~~~", "`````"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_all_between_the_marks_is_rewritten_and_the_marks_are_not(info, content, mark, newline):
    around = "We send this letter:\n\n{}{}\n{}{}\n\nThat is all.\n"
    source = around.format(mark, info, content, mark).replace("\n", newline)
    expected = f"{mark}{info}\n".join(around.format(mark, info, content, mark).upper().split(f"{mark}{info}\n".upper()))
    assert rewritten(source) == expected.replace("\n", newline)


@pytest.mark.parametrize(("info", "content"), CODE)
def test_all_else_between_marks_is_copied(info, content):
    block = f"```{info}\n{content.rstrip()}\n```"
    assert rewritten(f"Words before.\n\n{block}\n\nWords behind.\n") == f"WORDS BEFORE.\n\n{block}\n\nWORDS BEHIND.\n"


def test_code_within_a_longer_fence_of_prose_is_copied():
    expected = README.upper().replace("```SH\nBREAD --FLOUR 500\n", "```sh\nbread --flour 500\n")
    for info in ("markdown", "md", ""):
        source = f"An example:\n\n````{info}\n{README}````\n\nThe end.\n"
        assert rewritten(source) == f"AN EXAMPLE:\n\n````{info}\n{expected}````\n\nTHE END.\n"


def test_a_fence_that_is_never_closed_is_told_by_what_follows_it():
    assert rewritten(f"Words.\n\n```\n{MAIL}") == f"WORDS.\n\n```\n{MAIL.upper()}"
    assert rewritten("Words.\n\n```\nx = read(path);\ny = x + 1;\n") == "WORDS.\n\n```\nx = read(path);\ny = x + 1;\n"
    assert rewritten("Words.\n\n```") == "WORDS.\n\n```"
    assert rewritten(f"Words.\n\n~~~text\n{GERMAN}```\n") == f"WORDS.\n\n~~~text\n{GERMAN.upper()}```\n"


def test_prose_in_a_list_is_rewritten_and_code_is_copied():
    inside = "".join(f"   {line}\n" if line else "\n" for line in GERMAN.splitlines())
    code = "   ~~~sh\n   send letter\n   ~~~\n"
    source = f"1. Write this:\n\n   ```text\n{inside}   ```\n\n   Then run it.\n\n{code}\n2. The end.\n"
    expected = source.upper().replace("```TEXT", "```text").replace(code.upper(), code)
    assert rewritten(source) == expected


@pytest.mark.parametrize("depth", [3, 40])
def test_fences_in_fences_in_fences_are_copied(depth):
    source = GERMAN
    for length in range(3, 3 + depth):
        source = f"{'`' * length}markdown\n{source}{'`' * length}\n"
    assert rewritten(f"Words.\n\n{source}") == f"WORDS.\n\n{source}"


def test_prose_of_an_open_fence_in_a_list_is_not_joined_with_what_follows_the_list():
    letter = f"  ```text\n  Dear [Name],\n\n  {'We thank you for your kind letter. ' * 3}\n"
    source = f"# T\n\nAn introduction.\n\n- An item:\n\n{letter}\nA paragraph outside of the list.\nAnd a second line."
    pieces = cut(source, "", 1, in_fences=True)
    assert [piece.indent for piece in pieces if "outside of the list" in piece.text] == [None]


def test_what_stands_in_a_quotation_goes_with_it():
    source = f"> ```\n> {NOTICE.replace(chr(10), chr(10) + '> ')}\n> ```\n"
    (piece,) = cut(source, ".md", 8, in_fences=True)
    assert (piece.text, piece.indent) == (source.strip(), None)


def test_a_long_letter_is_cut_at_its_paragraphs():
    letter = "\n\n".join("We write to you again. Please read it with care. " * 8 + f"{number}." for number in range(9))
    source = f"```text\n{letter}\n```\n"
    pieces = cut(source, ".md", 6, in_fences=True)
    assert len(pieces) > 3
    assert {piece.indent for piece in pieces} == {""}
    assert rewritten(source) == f"```text\n{letter.upper()}\n```\n"


@pytest.mark.parametrize(
    ("change", "task", "meant"),
    [
        ("translate", "Translate this document into German.", True),
        ("correct", "Correct the spelling of this text:", True),
        ("tone", "Make this friendlier.", True),
        ("simplify", "Rewrite this in plain language.", True),
        ("redact", "Black out all names in this document.", True),
        ("translate", "Translate this document into German, but leave the code blocks alone.", False),
        ("translate", "Übersetze den Text, die Codeblöcke bleiben unverändert.", False),
        ("translate", "Traduis ce texte sans toucher au code.", False),
        ("translate", "翻译这篇文章，代码块保持不变。", False),
        ("translate", "Translate this. Keep everything between ``` as it is.", False),
        ("shorten", "Shorten this document.", False),
        ("rename", "Rename saddle to seat.", False),
    ],
)
def test_prose_in_fences_is_meant_by_changes_of_all_text(change, task, meant):
    assert are_changed(change, task) is meant


FENCES = f"```\n{MAIL}```\n\n{PARAGRAPHS[1]}\n\n```py\nprint('kept')\n```"
TEXT = f"{PARAGRAPHS[0]}\n\nOur letter:\n\n{FENCES}\n\n{PARAGRAPHS[2]}"


async def ask(reply, order="Translate this text into German:"):
    backend = ScriptedBackend(reply) if callable(reply) else reply
    return (await streamed(backend, f"{order}\n\n{TEXT}", strategy="rewrite"))[0]


def shouted(text):
    """In capitals, but for the placeholders."""
    return re.sub(r"(\{+\w+\}+|\[[^\]]*\]|%s)|[^{[%]+", lambda found: found[1] or found[0].upper(), text)


async def test_a_letter_in_a_translated_text_is_translated_with_its_placeholders_kept():
    backend = writer(shouted)
    answer = await ask(backend)
    assert answer.text == shouted(TEXT).replace("```PY\nPRINT('KEPT')", "```py\nprint('kept')")
    assert answer.warnings == ()
    told = [text_of(prompt) for prompt, _ in backend.calls if "parcel" in piece_of(prompt)]
    assert all("it is no code" in each for each in told)
    assert sum("it is no code" in text_of(prompt) for prompt, _ in backend.calls) == len(told)


@pytest.mark.parametrize("hole", ["{{order_id}}", "[First name]", "%s", "{shop}"])
async def test_a_placeholder_of_a_letter_that_is_gone_is_asked_for_and_told(hole):
    answer = await ask(writer(lambda piece: shouted(piece).replace(hole, "it")))
    assert [(w.code, f": {hole}." in w) for w in answer.warnings] == [("kept", True)]


@pytest.mark.parametrize(
    "order", ["Translate this text into German, but not the code:", "Shorten this text:", "Annotate this text:"]
)
async def test_a_letter_is_copied_where_its_change_is_not_asked_for(order):
    backend = writer(shouted)
    answer = await ask(backend, order)
    assert f"```\n{MAIL}```" in answer.text
    assert not any("parcel" in piece_of(prompt) for prompt, _ in backend.calls)


async def test_mistakes_in_a_letter_are_corrected_by_edits():
    backend = ScriptedBackend(
        lambda prompt: changes(("parcel", "packet")) if "parcel" in piece_of(prompt) else changes()
    )
    answer = await ask(backend, "Correct the spelling of this text:")
    assert answer.text == TEXT.replace("parcel", "packet")


async def test_a_letter_in_a_list_keeps_its_indentation():
    inside = "".join(f"  {line}\n" if line else "\n" for line in MAIL.splitlines())
    text = f"{PARAGRAPHS[0]}\n\n- The letter:\n  ```\n{inside}  ```\n\n{PARAGRAPHS[1]}"
    backend = writer(lambda piece: re.sub(r"(?m)^[ ]+", "", shouted(piece)) if "parcel" in piece else shouted(piece))
    answer = (await streamed(backend, f"Translate this text into German:\n\n{text}", strategy="rewrite"))[0]
    assert answer.text == shouted(text)
