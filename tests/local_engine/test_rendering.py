"""Chat templates of other people's models are rendered within bounds, and as transformers renders them."""

import resource

import pytest
from transformers import AutoTokenizer

from stretto.local_engine.pocket import pocket_folder
from stretto.local_engine.text.rendering import RefusedError, Renderer, StoppedError, renderer_of

GIVEN = {"messages": [{"role": "user", "content": "a"}]}
TAKE_MEMORY = {
    "product": "{{ 'a' * 10**10 }}",
    "doubled text": (
        "{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}"
    ),
    "filter": "{{ 'a' | center(10**10) }}",
    "method": "{{ 'a'.ljust(10**10) }}",
    "width": "{{ '%10000000000d' % 1 }}",
    "other width": "{{ '{:10000000000}'.format(1) }}",
    "joined": "{% set a = ['b' * 1000] * 10000 %}{{ a | join(a | join) }}",
    "batch": "{{ [1] | batch(10**10, 'x') | list }}",
    "replaced": "{{ ('a' * 10**5).replace('', 'b' * 10**6) }}",
}
TAKE_TIME = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "one list in another": (
        "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"
    ),
    "compared": (
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}"
    ),
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "power": "{{ (7 ** (10 ** 9)) % 3 }}",
    "sum": "{{ ([[1] * 1000] * 99999) | sum(start=[]) | length }}",
}
REFUSED = {
    "macro": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    "brackets": ("{{ " + "[" * 100_000 + "]" * 100_000 + " }}", "recursion"),
    "broken": ("{% for", "unexpected 'end of template'"),
    "refusing": ("{{ raise_exception('only poems ' * 1000) }}", "^(only poems ){9}"),
    "class": ("{{ ''.__class__.__mro__ }}", "unsafe"),
    "constructor": ("{{ cycler.__init__.__globals__ }}", "unsafe"),
    "namespace": ("{% set ns = namespace(_a=1) %}", "underscore"),
    "name of a namespace": ("{% set ns = namespace() %}{% set ns.__class__ = 1 %}", "underscore"),
    "changed message": ("{% set _ = messages.append(1) %}", "not callable|unsafe"),
}


@pytest.fixture
def steady():
    """The memory of this process must not grow with what a template wants."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16  # kilobytes


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("kind", TAKE_MEMORY)
def test_a_template_that_takes_all_memory_is_stopped(kind):
    with pytest.raises(StoppedError, match=r"more than 512 MB of memory|it takes too much memory"):
        Renderer(TAKE_MEMORY[kind]).render(GIVEN)


@pytest.mark.thorough
@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("kind", TAKE_TIME)
def test_a_template_that_never_ends_is_stopped(kind):
    with pytest.raises(StoppedError, match=r"more than (1 s of the processor|512 MB of memory)"):
        Renderer(TAKE_TIME[kind]).render(GIVEN)


@pytest.mark.usefixtures("steady")
def test_a_template_that_writes_without_end_is_stopped():
    with pytest.raises(StoppedError, match="it writes more than 1,0"):
        Renderer("{% for i in range(99999) %}{{ 'abcdefghij' * 10 }}{% endfor %}").render(GIVEN)
    with pytest.raises(StoppedError, match="it has 2,097,152 characters"):
        Renderer("a" * 2**21).render(GIVEN)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_template_that_fails_says_so_briefly(kind):
    template, said = REFUSED[kind]
    with pytest.raises(RefusedError, match=said) as refused:
        Renderer(template).render(GIVEN)
    assert len(str(refused.value)) <= 500


def test_a_renderer_goes_on_after_a_template_was_stopped_or_refused():
    often = Renderer("{{ 'a' * n }}{{ raise_exception('none') if not n }}")
    assert often.render({"n": 3}) == "aaa"
    with pytest.raises(StoppedError):
        often.render({"n": 10**10})
    with pytest.raises(RefusedError, match="none"):
        often.render({"n": 0})
    with pytest.raises(RefusedError, match="cannot be written as JSON"):
        often.render({"n": object()})
    assert often.render({"n": 2, "other": "\ud800 é"}) == "aa"


def test_those_who_render_the_same_template_share_a_process():
    assert renderer_of("{{ 1 }}") is not renderer_of("{{ 2 }}")
    first = renderer_of("{{ 1 }}")
    assert renderer_of("{{ 1 }}") is first


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"ä<": {}}}}}]
CHAT = [
    {"role": "system", "content": " Be <brief>. "},
    *[{"role": ("user", "assistant")[place % 2], "content": f"Turn {place} \n"} for place in range(600)],
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f"}}]},
    {"role": "tool", "content": "{}", "name": "f"},
]
WRITTEN = {
    "roles": "{{ bos_token }}{% for m in messages %}\n  {% if loop.first %}a{% endif %}\n{{ m.role }}{% endfor %}",
    "tools": "{{ tools | tojson(indent=2) }}{{ tools | tojson }}{{ documents is none }}",
    "loops": (
        "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{{ m['content'] | trim }}{% endfor %}"
    ),
    "namespace": (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
        "{{ dict(a=1) | tojson }}{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% endif %}"
        "{{ rest | length }}"
    ),
    "generation": (
        "{% for m in messages %}{% generation %}{% set x = 1 %}{{ m.content }}{% endgeneration %}{% endfor %}{{ x }}"
    ),
    "calls": (
        "{% for m in messages %}{% if m.tool_calls is defined %}{{ m.tool_calls[0].function | tojson }}{% endif %}"
        "{{ m.name or 'none' }}{% endfor %}{{ unknown }}{{ add_generation_prompt }}{{ language }}"
    ),
    "day": "{{ strftime_now('%Y')[:2] }}{% macro f(a, b='c') %}{{ a }}{{ b }}{% endmacro %}{{ f('x') }}",
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_template_is_rendered_as_transformers_renders_it(kind):
    tokenizer = AutoTokenizer.from_pretrained(pocket_folder())
    tokenizer.chat_template = WRITTEN[kind]
    expected = tokenizer.apply_chat_template(
        CHAT, tools=TOOLS, tokenize=False, add_generation_prompt=True, language="de"
    )
    given = {**tokenizer.special_tokens_map, "messages": CHAT, "tools": TOOLS, "documents": None}
    given |= {"add_generation_prompt": True, "language": "de"}
    assert renderer_of(WRITTEN[kind]).render(given) == expected
