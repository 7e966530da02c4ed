"""What is read of a page: what its readers see."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.documents.html import read_html


def text_of(page):
    return read_html(page.encode() if isinstance(page, str) else page, "a.html").text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<table><tr><th>Item<th>Price<th>Stock<tr><td>Tea<td>12<td>34</table>",
            "Item | Price | Stock\nTea | 12 | 34\n\n",
        ),
        (
            "<!doctype html><html><head><title>A</title><meta charset=utf-8><body><p>Rent: 900.</body></html>",
            "Rent: 900.\n\n",
        ),
        ("<p>One<p>Two<ul><li>a<li>b</ul><dl><dt>t<dd>d<dt>u<dd>e</dl>", "One\n\nTwo\n\n- a\n- b\n\nt\nd\nu\ne\n"),
        ("<title>Only a title", ""),
        ("no tag at all", "no tag at all\n\n"),
    ],
)
def test_end_tags_may_be_left_out(page, text):
    assert text_of(page) == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("10<sup>6</sup> m<sup>2</sup>", "10^6 m^2"),
        ("H<sub>2</sub>O, 10<sub>2</sub>, log<sub>2</sub>8", "H2O, 10_2, log2 8"),
        ("the 1<sup>st</sup> text<sup>[1]</sup>", "the 1st text[1]"),
        ("<del>900</del><ins>1200</ins> euros", "~~900~~ 1200 euros"),
        ("<s>a <b>b</b></s>", "~~a b~~"),
        ("<p hidden>no</p><p style='color: red; display: none'>no</p><div style='DISPLAY:NONE'>no</div>yes", "yes"),
        ("<dialog>no</dialog><noscript>no</noscript><template>no</template><script>no</script>yes", "yes"),
        ("a <![CDATA[x < y]]> b", "a x < y b"),
        ("<script>//<![CDATA[\nno('</p>')\n//]]></script>yes", "yes"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢(kan)"),
        ("<math><mfrac><mi>a</mi><mi>b</mi></mfrac></math>", "a/b"),
        ("<math><mi>q</mi><annotation encoding='application/x-tex'>\\frac{a}{b}</annotation></math>", "$\\frac{a}{b}$"),
        (
            "Name: <input value=Ada> <input type=checkbox checked> Pets <input type=radio> Kids",
            "Name: Ada [x] Pets [ ] Kids",
        ),
        ("<input type=hidden value=no><select><option>no<option selected>yes</select>", "yes"),
        ("<img src=a.png alt='The plan'> of the flat", "[image: The plan] of the flat"),
        ("<svg><title>no</title><text>900</text></svg>", "900"),
    ],
)
def test_a_page_is_what_its_readers_see(page, text):
    assert text_of(page).strip() == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<ol><li>a<li>b<ol type=a><li>c</ol><li value=7>d<li>e</ol>f", "1. a\n2. b\n  a. c\n7. d\n8. e\n\nf\n\n"),
        ("<ol start=3 type=I><li>a</ol><ol reversed><li>a<li>b</ol>", "III. a\n\n2. a\n1. b\n\n"),
        ("<ul><li><p>a</p><p>b</p></li><li></li><li>c</li></ul>", "- a\n  b\n- c\n\n"),
        ("<pre>a\n\n  b</pre><p>c", "a\n\n  b\n\nc\n\n"),
        (
            "<table><tr><td rowspan=2>A<td>b<tr><td>c<tr><td>d<td colspan=2>e<td>f</table>",
            "A | b\nA | c\nd | e | e | f\n\n",
        ),
        ("<table><tr><td>a<td><ul><li>x<li>y</ul><tr><td>b<td><p>p</p><p>q</p></table>", "a | - x - y\nb | p q\n\n"),
        ("<table><tr><td>a<td><table><tr><td>b<td>c<tr><td>d<td>e</table></table>", "a | b, c; d, e\n\n"),
        ("<table><tr><td><h1>Page</h1><p>text<td><p>side</table>", "Page\n\ntext\n\nside\n\n"),
        ("<table><caption>Rents</caption><tr><td>a<td>1</table>", "Rents\n\na | 1\n\n"),
    ],
)
def test_lists_and_tables_keep_their_shape(page, text):
    assert text_of(page) == text


XMLNS = 'xmlns="http://www.w3.org/1999/xhtml"'


@pytest.mark.parametrize(
    "page",
    [
        f"<?xml version='1.0'?><html {XMLNS}><head><title/></head><body>{{}}</body></html>",
        f"<!DOCTYPE html><!-- a > b -->\n<html lang='en' {XMLNS}><head><script src='a.js' />{{}}</html>",
        "<?xml version='1.0'?>\n<html><iframe src='x'/><textarea name='n' />{}<noscript/></html>",
    ],
)
def test_elements_of_xhtml_that_close_at_once_hold_nothing(page):
    document = read_html(page.format("<p>Rent:<br/>900 <a id='x'/>euros.</p><hr/>").encode(), "x")
    assert (document.text.strip(), document.title) == ("Rent: 900 euros.", "x")


def test_where_links_lead_stands_behind_their_paragraph_once():
    page = (
        "<p>See <a href='https://a.b/c'>this page</a>, <a href='mailto:x@y.z'>x@y.z</a> or <a href='#top'>the top</a>."
        "<p><a href='javascript:no()'>Run</a> <a href='https://a.b/c'>this page</a> <a href='b.html'>b</a>"
    )
    assert text_of(page) == "See this page, x@y.z or the top. <https://a.b/c>\n\nRun this page b <b.html>\n\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("<p>Größe".encode(), 0),
        ("<p>Größe".encode("cp1252"), 1),
        ("<meta charset=iso-8859-1><p>Größe".encode(), 0),  # a page may claim an encoding that it does not have
        ("<meta charset=iso-8859-1><p>Größe €".encode("cp1252"), 0),
        ("<meta http-equiv=content-type content='text/html; charset=utf-8'><p>Größe €".encode("cp1252"), 1),
        ("<?xml version='1.0' encoding='ISO-8859-2'?><html><p>złoty".encode("iso8859-2"), 0),
        ("<meta charset='gb2312'><p>租赁合同".encode("gb18030"), 0),
        ("<p>Größe".encode("utf-16"), 0),
    ],
)
def test_a_page_is_read_in_its_encoding(data, said):
    read = read_html(data, "a.html")
    assert read.text.strip() in {"Größe", "Größe €", "złoty", "租赁合同"}
    assert len(read.warnings) == said


PIECES = st.sampled_from(
    [
        *(
            "<p>",
            "</p>",
            "<h1>",
            "<h2>One</h2>",
            "<table>",
            "<tr>",
            "<td>",
            "<td rowspan=3 colspan=9>",
            "</table>",
            "<ul>",
        ),
        *(
            "<li>",
            "</ul>",
            "<ol start=-3>",
            "<pre>",
            "</pre>",
            "<b>",
            "</b>",
            "<del>",
            "</del>",
            "<sup>",
            "</sup>",
            "<a href=x>",
        ),
        *(
            "</a>",
            "text",
            "12",
            " ",
            "\n",
            "&amp;",
            "&#0;",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<math><mi>",
            "<select>",
            "</td>",
        ),
        *(
            "<title>T</title>",
            "<textarea>",
            "<br>",
            "<svg>",
            "</svg>",
            "<rt>",
            "<body>",
            "</body>",
            "<frameset>",
            "</h1>",
        ),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_headings_of_any_page_stand_where_they_say(page):
    read = read_html(page.encode(), "a.html")
    for heading in read.headings:
        stands = " ".join(read.text[heading.offset :].split())
        assert re.sub(r"^(?:-|\w{1,9}\.) ", "", stands).startswith(heading.text) or stands.startswith(heading.text)
    assert "\0" not in read.text


def test_a_hundred_thousand_raised_texts_in_each_other_are_read():
    assert read_html(b"<sup>1" * 100_000, "").text.replace("^", "").strip() == "1" * 100_000
