"""How much sooner a record of six long fields is there when they are written side by side.

    python benchmarks/fields.py                         straight, fields, auto, LangChain in turns; results and a plot
    python benchmarks/fields.py --words 60 --tokens-per-second 30
    python benchmarks/fields.py --only-schemas          whether records of real schemas fit, beside the kept times

Over HTTP: the real OpenAI SDK and LangChain's ``with_structured_output`` against a scripted server in another process.
All give the same record; runs alternate. A straight answer is shown once it was checked, so what a reader has first is
also measured as the first value of ``stream.partial()`` that holds something of a long field. Whether records fit is
counted on schemas of real programs (`record_schemas.py`), by a model that fits them and by one that errs now and then.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import anyio
from measuring import IMAGES, RESULTS, Spread, machine, save, scripted_server
from plots import plot, recorded
from pydantic import BaseModel, Field
from record_schemas import KEPT, real_schemas, valid_share
from rich.console import Console
from rich.table import Table

from stretto import AsyncStretto
from stretto.display.palette import Palette
from stretto.strategies.fields.record_plan import BRIEFLY, OUTLINED

QUESTION = "Describe the harbour town of Vell for a travel guide."
BAR, FIRST_BAR = 0.4, 1.2
KEY = "benchmark"
ERRS = (0.0, 0.02)  # of single values
BALANCED, FASTEST, CAREFUL = "fields", "fields, fastest", "fields, careful"
LONG = ("history", "sights", "food", "walks", "festivals", "practical")


class Town(BaseModel):
    """A page of a travel guide."""

    name: str
    inhabitants: int
    season: str = Field(description="The best month")
    history: str = Field(description="Two paragraphs")
    sights: str = Field(description="Two paragraphs")
    food: str = Field(description="Two paragraphs")
    walks: str = Field(description="Two paragraphs")
    festivals: str = Field(description="Two paragraphs")
    practical: str = Field(description="Two paragraphs on how to get there and around")


@dataclass(frozen=True)
class Run:
    """One record: seconds to its end, to the first text that was shown, to something of a long field; its tokens."""

    wall_s: float
    first_text_s: float
    first_long_s: float
    prompt_tokens: int
    completion_tokens: int
    calls: int


def replies(words: int) -> list[tuple[str, str]]:
    """What the server writes, by what it is asked for."""
    texts = {name: " ".join(f"{name}{number}" for number in range(words)) for name in LONG}
    short = {"name": "Vell", "inhabitants": 8200, "season": "May"}
    own = [(f"only the field `{name}` now", json.dumps({name: text})) for name, text in texts.items()]
    agreed = {name: " ".join(f"{name}{number}" for number in range(OUTLINED)) for name in LONG}
    briefly = {name: " ".join(f"{name}{number}" for number in range(BRIEFLY)) for name in LONG[1:]}
    begun = {LONG[0]: texts[LONG[0]]}
    return [
        ("only `outline` now", json.dumps({"outline": briefly})),
        ("is no field of the record", json.dumps(short | {"outline": agreed} | begun)),
        ("only these fields now", json.dumps(short | begun)),
        *own,
        (".", json.dumps(short | texts)),
    ]


async def by_stretto(url: str, **way: Any) -> Run:
    """With one strategy, or by a preference."""
    async with AsyncStretto("openai:model", base_url=url, api_key=KEY) as stretto:
        began = time.perf_counter()
        firsts: dict[str, float] = {}
        async with stretto.stream(QUESTION, response_format=Town, **way) as stream:
            async for event in stream:
                if event.type == "text_delta" and event.text.strip(" {"):
                    firsts.setdefault("text", time.perf_counter() - began)
            answer, wall_s = stream.answer, time.perf_counter() - began
        began = time.perf_counter()
        async with stretto.stream(QUESTION, response_format=Town, **way) as stream:
            async for value in stream.partial():
                if any(getattr(value, name) for name in LONG):
                    firsts["long"] = time.perf_counter() - began
                    break
    assert isinstance(answer.parsed, Town)
    used = answer.usage
    return Run(wall_s, firsts["text"], firsts["long"], used.prompt_tokens, used.completion_tokens, used.calls)


async def by_langchain(url: str) -> Run:
    """With LangChain's model for OpenAI, held to the same schema."""
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - the peer of this benchmark only

    chat = ChatOpenAI(model="model", base_url=url, api_key=KEY, stream_usage=True)  # type: ignore[arg-type]  # a string will do
    began = time.perf_counter()
    first = 0.0
    value: Any = None
    async for value in chat.with_structured_output(Town.model_json_schema() | {"title": "Town"}).astream(QUESTION):
        if not first and any(value.get(name) for name in LONG):
            first = time.perf_counter() - began
    wall_s = time.perf_counter() - began
    Town.model_validate(value)
    return Run(wall_s, first, first, 0, 0, 1)


async def measured(options: argparse.Namespace) -> dict[str, list[Run]]:
    """Every way in turns."""
    runs: dict[str, list[Run]] = {}
    with scripted_server(
        replies(options.words),
        time_to_first_token_s=options.time_to_first_token,
        tokens_per_second=options.tokens_per_second,
    ) as url:
        ways: dict[str, Callable[[], Awaitable[Run]]] = {
            "straight": partial(by_stretto, url, strategy="direct"),
            BALANCED: partial(by_stretto, url, strategy="fields"),
            FASTEST: partial(by_stretto, url, preference="fastest"),
            CAREFUL: partial(by_stretto, url, strategy="fields", preference="careful"),
            "LangChain": partial(by_langchain, url),
        }
        for _ in range(options.runs):
            for name, way in ways.items():
                runs.setdefault(name, []).append(await way())
    return runs


async def fitting(number: int) -> list[dict[str, Any]]:
    """How many records of so many real schemas fit, by each way and each model."""
    schemas = real_schemas()
    chosen = schemas[:: max(1, len(schemas) // number)]
    return [
        {"errs": errs, "way": way, **await valid_share(strategy, errs, chosen)}
        for errs in ERRS
        for way, strategy in (("straight", "direct"), ("fields", "fields"))
    ]


def draw(results: dict[str, Any], pyplot: Any, colours: Palette) -> Any:
    """Seconds to the end, and to the first text of a long field."""
    figure, axes = pyplot.subplots(figsize=(6.4, 2.4))
    names = list(results["ways"])[::-1]
    for place, name in enumerate(names):
        row = results["ways"][name]
        axes.barh(place, row["wall_s"]["median"], color=colours.voices[0], height=0.55)
        axes.plot([row["first_long_s"]["median"]] * 2, [place - 0.35, place + 0.35], color=colours.text)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("seconds to the whole record; the line: the first words of a long field")
    return figure


def over_straight(ways: dict[str, Any], name: str, what: str) -> float:
    """How many times as long as a straight answer one way takes to the end, or to something that is shown."""
    share: float = ways[name][what]["median"] / ways["straight"][what]["median"]
    return share


def table(results: dict[str, Any]) -> list[list[str]]:
    """A row for each way."""
    return [
        [
            name,
            f"{row['wall_s']['median']:.2f}",
            f"{over_straight(results['ways'], name, 'wall_s'):.2f}",
            f"{row['first_text_s']['median']:.2f}",
            f"{row['first_long_s']['median']:.2f}",
            f"{over_straight(results['ways'], name, 'first_long_s'):.2f}",
            f"{row['completion_tokens']:,}" if row["completion_tokens"] else "",
            str(row["calls"]),
        ]
        for name, row in results["ways"].items()
    ]


HEADINGS = ("way", "seconds", "over straight", "first text, s", "long field, s", "over straight", "tokens", "calls")


def page(results: dict[str, Any]) -> str:
    """The page of the results."""
    rows = [HEADINGS, ["---"] * len(HEADINGS), *table(results)]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    server = results["server"]
    return f"""# Records with fields

A record of three short and six long fields of {server["words"]} words each, over HTTP from a scripted server that
writes {server["tokens_per_second"]:g} tokens a second after {server["time_to_first_token_s"]:g} s; {server["runs"]}
runs of each in turns, medians.
Written by `python benchmarks/fields.py`.

{lines}

The bars are {BAR} of the time of a straight answer, and {FIRST_BAR} times its time to the words of a long field:
{" and ".join(results["met"]) or "no way"} met both. A straight answer is shown once it was checked, so its first text
is its end. The column behind it is when `stream.partial()` (LangChain: `astream`) has words of a long field.

The first long field follows the short ones in their call. With `preference="fastest"` all others begin then. By default
a separate call first decides what each of them will tell, in a line of {BRIEFLY} tokens here, while the first one is
written; they read these lines and how it begins. With `preference="careful"`, and by a model that thinks before it
writes, the first call decides that for all of them, in lines of {OUTLINED} tokens, before it goes on.

## Whether records fit

Schemas of the types of OpenAI's and Anthropic's SDKs whose records can be taken apart, written by a model that gives
what fits and by one of whose single values 2 in 100 do not fit. What does not fit is asked for once more, by both ways.

{_fitting(results["schemas"])}

{_of_others(json.loads(KEPT.read_text(encoding="utf-8")))}

{results["machine"]}.
"""


def _of_others(kept: dict[str, Any]) -> str:
    """What was counted of schemas in files."""
    known = kept["given"] + kept["made"]
    fit = {way: kept[f"given_{way}"] + kept[f"made_{way}"] for way in ("straight", "fields")}
    reasons = "\n".join(f"| {reason} | {number} |" for reason, number in kept["reasons"].items())
    unknown = ", ".join(f"`{name}`" for name in kept["unknown"])
    return f"""## Schemas of JSONSchemaBench

{kept["sample"]}

Of {kept["schemas"]} schemas, {known} have a record that is known to fit: {kept["given"]} came with it, and for
{kept["made"]} one was made of values that fit each part. A model that knows it, or makes these values, wrote
**{fit["straight"]} of {known} that fit straight, and {fit["fields"]} of {known} with `fields`**, {kept["apart"]} of all
field by field. `python benchmarks/record_schemas.py FOLDER --keep` counted it. The others were tried both ways, too,
and do not count as fitting: the model has no values for their patterns, forms or references, or no value ends. These
are {unknown}.

| written in one piece, as | schemas |
| --- | --- |
{reasons}"""


def _fitting(rows: list[dict[str, Any]]) -> str:
    heads = ("values that do not fit", "way", "records", "written apart", "calls", "fit")
    lines = [heads, ["---"] * len(heads)]
    lines += [
        [f"{row['errs']:.0%}", row["way"], *(str(row[key]) for key in ("records", "apart", "calls", "valid"))]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def keep(results: dict[str, Any]) -> None:
    """Keep the results, write their page, and draw their plot."""
    save("fields", results)
    (RESULTS / "fields.md").write_text(page(results))
    plot(IMAGES / "fields", partial(draw, results))
    recorded("python benchmarks/fields.py", ["fields.png"], "benchmarks/results/fields.json", "benchmarks/fields.py")


def main() -> None:
    """Measure, print, and keep the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--words", type=int, default=120, help="of each long field")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--time-to-first-token", type=float, default=0.3, metavar="SECONDS")
    parser.add_argument("--tokens-per-second", type=float, default=60.0, metavar="RATE")
    parser.add_argument("--schemas", type=int, default=100, help="about how many real schemas are tried")
    parser.add_argument("--only-schemas", action="store_true", help="keep the times that were measured before")
    options = parser.parse_args()
    if options.only_schemas:
        kept = json.loads((RESULTS / "fields.json").read_text())
        keep(kept | {"schemas": anyio.run(fitting, options.schemas)})
        return
    runs = anyio.run(measured, options)
    ways = {
        name: {
            **{
                key: asdict(Spread.of([getattr(run, key) for run in each]))
                for key in ("wall_s", "first_text_s", "first_long_s")
            },
            **{key: getattr(each[0], key) for key in ("prompt_tokens", "completion_tokens", "calls")},
        }
        for name, each in runs.items()
    }
    results = {
        "machine": machine(),
        "server": {key: getattr(options, key) for key in ("words", "runs", "tokens_per_second")}
        | {"time_to_first_token_s": options.time_to_first_token},
        "ways": ways,
        "met": [
            f"`{name}`"
            for name in (BALANCED, FASTEST, CAREFUL)
            if over_straight(ways, name, "wall_s") <= BAR and over_straight(ways, name, "first_long_s") <= FIRST_BAR
        ],
        "schemas": anyio.run(fitting, options.schemas),
    }
    shown = Table(*HEADINGS)
    for row in table(results):
        shown.add_row(*row)
    Console().print(shown)
    keep(results)


if __name__ == "__main__":
    main()
