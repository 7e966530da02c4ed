"""Texts that a parser meets when a model, or whoever writes a request, means it ill."""

import math
import resource
import sys
import time

from stretto.language.counting import points_in
from stretto.language.folding import fold
from stretto.language.forms import depth_wanted, form_named, words_wanted
from stretto.language.listing import listings
from stretto.router.obstacles import to_skeleton
from stretto.router.parse import Parse
from stretto.strategies.items.layout import Entries, EntryLayout, EntryText, layout_for
from stretto.strategies.items.plan import checked, read_plan
from stretto.strategies.items.samples import is_repeated
from stretto.strategies.items.splitting import Split, counted, split
from stretto.strategies.runtime.parts import notes_for
from stretto.strategies.skeleton.outline import OutlineParser
from stretto.strategies.skeleton.plan import PlanParser
from stretto.strategies.skeleton.points_text import PointText, words_for
from stretto.strategies.skeleton.section_text import SectionText
from stretto.values.request import Request

LENGTH = 50_000  # characters
SHORTER = 5  # times: a text so much shorter is read first, and shows whether the long one may take too long
FRAGMENTS = (
    "[", "{", "]", "{}", "{},", '["', '"a",', '{"a":', '[{"title":"a"},', '"', "\\", '\\"', '\\ud83d', "1" * 9,
    "*a ", "**a", "**", "*", "__a", "_a ", "# ", "#", "- ", "1. ", "1.", "1) ", "(1) ", "a) ", "① ", "一、", "Q1: ",
    " ", "\t", "\n", "\r\n", "\n\n", " \n", "\x18\n", "\x18", "\u2028", "\u3000", "a", "A ", "é", "a.", "a. ",
    "a? ", "a, ",
    ", ", "; ", " / ", "|", "| ", ": ", ":", "：", "-", " - ", " — ", "(", ")", "( ", "(needs ", "(needs 1",
    "(1 words ",
    "(each)", "<|", "<|a|>", "`", "```", "```json\n", "'", "'a", "'a' ", "“", "“a”", "„a", "«", "« a »", "「", "‘a’",
    "opening", "opening:", "Opening: ", "Sections: ", "a | ", "1. a: b", "closing :",
    "each ", "every ", "these ", "for each ", "ten ", "10 ", "1,", "5 tips ",
    "five names ", "in 3 ", "with ", "with a as ", "and ", " y ", "the the ", "list of ", "what ", "table ", "output a",
    "columns a, b ", "give me ", "translate ", "translate: ", "in the ", "in order ", "into one ", "into one sentence ",
    "assign a ", "story for ", "following ", "following a ", "none of ", "half a dozen ", "a couple of ", "个", "十",
    "{{", "}}", "𝟙", "🏳️‍🌈",
)  # fmt: skip
HEADS = ("", "1. ", '[{"title": "', "Translate each: ")
# Found by long searches to take long once; each stands for a kind.
KNOWN = (
    ("1. a\n", "\n"),
    ("**a", " "),
    ("“", "“"),
    ("a «", "«"),
    (" \t", "\t"),
    ("[" + "1", "1"),
    ('["a"', '"a",'),
    ("(needs", " "),
)


def hostile_texts(length):
    """Each fragment again and again, behind one of some beginnings, with another end."""
    for number, fragment in enumerate(FRAGMENTS):
        head, repeated = HEADS[number % len(HEADS)], (fragment * (length // len(fragment) + 1))[:length]
        yield head + repeated + ("x" if head else ": a, b, c")
    for head, repeated in KNOWN:
        yield head + repeated * (length // len(repeated))


def may_take(seconds, parser, short):
    """Whether the long text may take so many seconds, if time grows no faster than the square of the length."""
    began = time.process_time()
    parser(short)
    return (time.process_time() - began) * SHORTER**2 > seconds


def parts_of(text, length=7):
    return [text[at : at + length] for at in range(0, len(text), length)]


def read_outline(text):
    for pieces in ([text], parts_of(text)):
        parser = OutlineParser()
        for piece in pieces:
            parser.feed(piece)
        parser.finish()


def read_answer_plan(text):
    for head in ("", "Opening: a\n", "Opening: a\nSections: a | b\n"):
        for pieces in ([head, text], parts_of(head + text)):
            parser, shown = PlanParser(), SectionText("aaaa")
            for piece in pieces:
                parser.feed(piece)
                parser.new_opening()
                shown.feed(piece)
            parser.finish()
            shown.finish()


def read_form(text):
    request = Request.of(f"Why? {text}")
    parse = Parse.of(request)
    words_for(request, parse, None)
    points_in(text)
    notes_for(request)
    for read in (form_named, depth_wanted, words_wanted):
        read(fold(text))
    to_skeleton(parse)


def read_point(text):
    for title in ("**", "a a a", "aaaa"):
        shown = PointText(title, "  ")
        for piece in parts_of(text):
            shown.feed(piece)
        shown.finish()


def read_entries(text):
    for most in (1, 5):
        entries = Entries(most)
        for piece in parts_of(text):
            entries.feed(piece)
        entries.finish()
    shown = EntryText(("a",), "  ", number=1)
    for piece in parts_of(text):
        shown.feed(piece)
    shown.finish()


def lay_out(text):
    layout_for(Split(text, "", ("a", "b", "c")))
    for name in ("json_array", "table", "commas", "lines"):
        EntryLayout(name, ("a",), ("a",), ("x", "y")).entry(text, 0)


def read_plans(text):
    for written in (text, '{"kind":"items","instruction":"x","items":["' + text, '{"kind":"samples","count":' + text):
        if (plan := read_plan(written)) is not None:
            checked(plan, text)


PARSERS = {
    "outline": read_outline,
    "answer plan": read_answer_plan,
    "form": read_form,
    "point": read_point,
    "entries": read_entries,
    "layout": lay_out,
    "plan": read_plans,
    "splitting": split,
    "counting": counted,
    "listing": lambda text: list(listings(text)),
    "distinct": lambda text: is_repeated(text, [text + "x"]),
}

if __name__ == "__main__":
    name, cpu_s = sys.argv[1], int(sys.argv[2])
    both = zip(hostile_texts(LENGTH // SHORTER), hostile_texts(LENGTH), strict=True)
    for number, (short, text) in enumerate(both):
        print(repr(text[:60]), len(text), flush=True)  # the last line names what took too long
        used_s = math.ceil(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used_s + cpu_s, resource.RLIM_INFINITY))
        if number >= len(FRAGMENTS) or may_take(cpu_s, PARSERS[name], short):  # always those that took long once
            PARSERS[name](text)
    print("done")
