"""Where sentences end: one table of hard cases for all languages, and what holds for any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.language.sentences import sentence_spans, sentences, settled, whole_until

# Each case is the sentences of one text. Languages without blanks between sentences are joined without.
CASES = {
    "en": [
        ["The monthly rent of the flat is 1.250 euros.", "It is paid on the 3rd."],
        ["The rate is 4.75 percent a year.", "It may rise."],
        ["The lease was signed by Dr. Ada Lind on 3 May.", "She kept a copy."],
        ["Version 3.11 of Python is needed.", "Version 3.10 is too old."],
        ["Use a key, e.g. the one in settings.toml, and start.", "Then wait."],
        ["See https://example.org/a.b?c=1. for more on v2.3.1 of it.", "Done."],
        ["Write to a.b@example.co.uk. for help or see www.Example.Com. for it.", "Done."],
        ["Mr. Smith met Mrs. Jones at 5 p.m. on Monday.", "They talked."],
        ["J. R. R. Tolkien wrote it.", "It sold well."],
        ["The U.S. economy grew.", "So did Inc. magazine's."],
        ["See Fig. 3 and Sec. 4.2, pp. 12-14, for details.", "No. 5 is missing."],
        ["Section 2.1.3 applies.", "See Art. 5 para. 2 of the law."],
        ['He said "Stop."', "Then he left."],
        ['He asked: "Why? I don\'t know." and left.', "Nobody spoke."],
        ["Acme Corp. and Foo Ltd. merged on Jan. 5.", "Shares rose."],
        ["Call foo.bar() in main.py.", "It returns None."],
        ["Use System.IO.File in README.Rmd or C:\\x.txt here.", "Then stop."],
        ["Wait... what is it?", "Nothing!", "Really?!", "Yes."],
        ["It has 2.5 GB (approx. 2,500 MB) of memory.", "That is enough."],
        ["The address is 10.0.0.1:8080.", "It listens there."],
        ["The period is six months, i.e. half a year, vs. one year before.", "That is short."],
        ["Smith et al. (2019) found it.", "See Eq. (3) and Tab. 2."],
        ["1. The first.", "2. The second."],
        ["He said no.", "So did I.", "The sun set."],
        ["It costs approx. 5 euros, incl. tax, excl. VAT, cf. No. 12.", "See Sched. 2 and subs. 3."],
        ["Tel. +49 30 12, Attn. Mr. Smith, is the number to call.", "Ask there."],
        ["hi there.", "how are you doing?", "see you."],
    ],
    "de": [
        ["Die Miete beträgt 1.250 Euro.", "Sie ist am 3. Mai fällig."],
        ["Dr. Ada Lind unterschrieb z. B. den Vertrag.", "Prof. Meier nicht."],
        ["Der Vertrag läuft bis zum 31. Dezember 2026.", "Danach endet er."],
        ["Nach § 5 Abs. 2 S. 1 BGB gilt das nicht.", "Vgl. dazu Nr. 7."],
        ["Er kostet ca. 3,5 Mio. Euro, d.h. zu viel.", "Wir warten."],
        ["Die Fa. Müller GmbH & Co. KG liefert bzw. montiert.", "Sie haftet."],
        ["Im 19. Jahrhundert lebte er u. a. in Wien.", "Er starb am 5. Mai."],
        ["Dr.-Ing. Müller und Dipl.-Kfm. Schmidt wohnen in der Hauptstr. 5.", "Sie zahlen 3 Mrd. Euro."],
        ["Er sagte: „Nein.“", "Dann ging er."],
    ],
    "fr": [
        ["M. Dupont a signé le contrat.", "Mme Durand aussi."],
        ["Le loyer est de 1.250 euros par mois, p. ex. en hiver.", "Il est dû le 3."],
        ["Voir l'art. 5 et le chap. 2.", "Le reste est clair."],
        ["L'art. L. 121-1 du C. civ. s'applique.", "Voir p. 5."],
        ["Il est valable du 3 janv. 2020 au 5 déc. 2021 pour la Sté. Acme.", "Il est clair."],
        ["Il a dit : « Non. »", "Puis il est parti."],
    ],
    "es": [
        ["El Sr. García firmó el contrato con la Dra. Ruiz.", "La renta es de 1.250 euros."],
        ["El Excmo. Sr. Ruiz y Dña. Ana firmaron el contrato de la casa.", "Es claro."],
        ["¿Cuánto cuesta?", "Cuesta 3.5 euros.", "¡Qué bien!"],
        ["La S.A. paga 1.250 euros aprox. al mes.", "EE. UU. firmó el 3 de mayo."],
    ],
    "it": [["Il sig. Rossi ha firmato.", "L'affitto è di 1.250 euro."], ["Il dott. Bianchi vive a Roma.", "Ecc. ecc."]],
    "nl": [["De huur is 1.250 euro per maand, d.w.z. veel.", "Dhr. Jansen betaalt."]],
    "pt": [["O Sr. Silva paga 1.250 euros.", "A Dra. Costa não."]],
    "ru": [
        ["Аренда составляет 1.250 евро в мес.", "Договор подписан А. С. Пушкиным в 1830 г. в Москве."],
        ["Цена — 5 тыс. руб. в год.", "Это много."],
    ],
    "zh": [
        ["押金为三千元整。", "租金为每月1.250元。", "合同由张三签署！"],
        ["他说：“不行。”", "然后走了。"],
        ["甲方（张三）应于每月5日前支付租金。", "逾期按0.05%计算；另行通知。"],
    ],
    "ja": [
        ["家賃は月1.250ユーロです。", "契約書は三部あります。"],
        ["「明日行く。」と彼は言った。", "私は驚いた！"],
        ["バージョンは3.11です！", "本当ですか？", "はい。"],
    ],
    "pl": [["Czynsz płaci inż. Nowak, ul. Długa 5, za umowę z dn. 5 maja.", "To jest jasne."]],
    "ko": [["임대료는 월 1.250유로입니다.", "계약은 김 박사가 서명했습니다."]],
    "hi": [["किराया 1.250 यूरो है।", "यह तीन तारीख को देय है।"]],
    "ar": [["الإيجار هو 1.250 يورو.", "هل وقع د. أحمد؟", "نعم."]],
}


@pytest.mark.parametrize(
    ("language", "case"), [(language, case) for language, cases in CASES.items() for case in cases]
)
def test_a_sentence_ends_where_it_ends_and_not_at_a_number_an_abbreviation_or_a_name(language, case):
    assert sentences(("" if language in ("zh", "ja") else " ").join(case)) == case


LONG = "Another paragraph, on one line, speaks of boats and birds, and says nothing else of note at all. " * 4


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (  # a licence: full lines
            "A written offer that comes with the device must be valid for three\nyears and as long as you offer"
            " spare parts.",
            ["A written offer that comes with the device must be valid for three\nyears and as long as you offer"
            " spare parts."],
        ),
        (  # the same before a paragraph without line ends
            f"A written offer that comes with the device must be valid for three\nyears. It is short.\n{LONG}",
            ["A written offer that comes with the device must be valid for three\nyears.", "It is short."],
        ),
        ("The lease was signed by\nDr. Ada Lind.\n" + LONG, ["The lease was signed by\nDr. Ada Lind."]),
        (  # lines that begin with capital letters and figures are wrapped too
            "Die Kündigungsfrist beträgt nach dem Vertrag vom 3. Mai\n2024 genau drei Monate zum Ende eines Kalender"
            "jahres und\nEnde.",
            ["Die Kündigungsfrist beträgt nach dem Vertrag vom 3. Mai\n2024 genau drei Monate zum Ende eines"
             " Kalenderjahres und\nEnde."],
        ),
        (  # numbered clauses, whose first line ends before a figure or a name
            "1. Parties. This lease is made on 3 May 2024 between Ada Lind, Hill Road\n12, Leeds (the landlord), and"
            " Mr. Tom Okafor.",
            ["1. Parties.", "This lease is made on 3 May 2024 between Ada Lind, Hill Road\n12, Leeds (the landlord),"
             " and Mr. Tom Okafor."],
        ),
        (
            "4. The tenant pays the rent that is due for each month to the bank of\nAda Lind.",
            ["4. The tenant pays the rent that is due for each month to the bank of\nAda Lind."],
        ),
        ("3.1 Duties of the Tenant and the Landlord\nThe rent is 1.250 euros.",
         ["3.1 Duties of the Tenant and the Landlord", "The rent is 1.250 euros."]),
        (  # an e-mail that is answered
            "> the rent is due on the\n> third day of each month. It is high.\n>\n> Next paragraph.",
            ["the rent is due on the\n> third day of each month.", "It is high.", "Next paragraph."],
        ),
        (  # a manual page
            "       List information about the FILEs (the current directory).  Sort\n       entries alphabetically if"
            " none of -cftuvSUX is given.\n\n       -a, --all\n              do not ignore entries",
            ["List information about the FILEs (the current directory).", "Sort\n       entries alphabetically if"
             " none of -cftuvSUX is given.", "-a, --all", "do not ignore entries"],
        ),
        ("The con-\ntract ends after a notice pe-\nriod.", ["The con-\ntract ends after a notice pe-\nriod."]),
        ("押金为三\n千元整。租金为一\n千元。", ["押金为三\n千元整。", "租金为一\n千元。"]),
        (  # verse
            "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\nRough winds do shake"
            " the darling buds of May,\nAnd summer's lease hath all too short a date;",
            ["Shall I compare thee to a summer's day?", "Thou art more lovely and more temperate:", "Rough winds do"
             " shake the darling buds of May,", "And summer's lease hath all too short a date;"],
        ),
        ("an old silent pond\na frog jumps in\nsplash", ["an old silent pond", "a frog jumps in", "splash"]),
        ("床前明月光，\n疑是地上霜。\n举头望明月，\n低头思故乡。",
         ["床前明月光，", "疑是地上霜。", "举头望明月，", "低头思故乡。"]),
        ("- A written offer valid for\n  three years\n- Another item\n1) third",
         ["- A written offer valid for\n  three years", "- Another item", "1) third"]),
        ("- The rent is 900 euros,\n  due on the third.\n* It is paid\n  in cash",
         ["- The rent is 900 euros,\n  due on the third.", "* It is paid\n  in cash"]),
        ("Rent and Deposit of the Flat\nThe rent is 1.250 euros.",
         ["Rent and Deposit of the Flat", "The rent is 1.250 euros."]),
        ("# Rent of the flat in the city\nthe rent is high.", ["# Rent of the flat in the city", "the rent is high."]),
        ("Ada Lind\n12 Main Street\nLondon", ["Ada Lind", "12 Main Street", "London"]),
        ("From: Ada Lind <ada@example.org>\nTo: Bob Stone <bob@example.org>\nSubject: Rent",
         ["From: Ada Lind <ada@example.org>", "To: Bob Stone <bob@example.org>", "Subject: Rent"]),
        ("name,rent,due\nada,1.250,3\nbob,900,5", ["name,rent,due", "ada,1.250,3", "bob,900,5"]),
        ("| name | rent |\n|---|---|\n| ada | 1.250 |", ["| name | rent |", "|---|---|", "| ada | 1.250 |"]),
        ("```\nreturn a\nraise b\n```", ["```", "return a", "raise b", "```"]),
    ],
)  # fmt: skip
def test_lines_that_wrap_are_joined_and_verse_items_headings_and_rows_stay_apart(text, found):
    assert sentences(text)[: len(found)] == found
    windows = [each.replace("\n", "\r\n") for each in found]
    assert sentences(text.replace("\n", "\r\n"))[: len(found)] == windows


ODD = st.sampled_from(
    [*" \n\t.!?。！？\"'“”„«»「」()[]aB1é漢ก>|-*#:;,…", "\n\n", "Dr.", "e.g.", "1.5", "\u2028", "\x85", "\u0301"]
)
TEXTS = st.one_of(st.text(max_size=300), st.lists(ODD, max_size=120).map("".join))


@given(TEXTS, st.sampled_from([None, "en", "de", "zh", "ja", "ar", "xx"]))
def test_sentences_of_any_text_stand_in_it_in_order_and_leave_out_white_space_alone(text, language):
    position = 0
    for start, end in sentence_spans(text, language):
        assert position <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        assert not text[position:start].strip().strip(">").strip()
        position = end
    assert not text[position:].strip().strip("> \n")


@pytest.mark.parametrize("repeated", ["“", ". ", "\n", "a", "> ", "「。"])
def test_a_hostile_text_takes_no_longer_than_its_length_allows(repeated):
    text = repeated * 200_000
    assert sum(end - start for start, end in sentence_spans(text)) <= len(text)


@pytest.mark.parametrize("text", [
    "The rent is 1.250 euros. Dr. Lind pays. It is due, e.g. on 3 May. He asked: \"Why? No.\" and left. End.\n- One\n",
    "押金为三千元整。他说：“不行。”然后走了！好。",
])  # fmt: skip
def test_what_is_settled_of_a_text_stays_so_whatever_follows(text):
    language = "zh" if "押" in text else "en"
    ends = {end for _, end in sentence_spans(text, language)}
    grown = [settled(text[:length], language) for length in range(len(text) + 1)]
    assert grown == sorted(grown)
    assert {len(text[:each].rstrip()) for each in grown} <= ends | {0}
    assert len(set(grown)) > 3


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("It is 1.250 euros. Then he", "It is 1.250 euros."),
        ("It is paid. It was signed by Dr.", "It is paid."),
        ("It is paid. It costs 1.", "It is paid."),
        ("It is paid. That is all.", "It is paid. That is all."),
        ("It is paid!", "It is paid!"),
        ("The lease was signed by Dr.", ""),
        ("- One\n- Two is", "- One\n"),
        ("押金为三千元。租金为", "押金为三千元。"),
        ("", ""),
    ],
)
def test_a_text_that_breaks_off_ends_with_its_last_whole_sentence(text, whole):
    assert text[: whole_until(text, "zh" if "押" in text else "en")].rstrip(" ") == whole
