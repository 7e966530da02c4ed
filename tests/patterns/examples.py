"""Patterns that are made while the program runs: by the file and the words that make it, some that are like them."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

# Read here: what imports the module that compiles them would compile all before they are watched.
_GIVEN = tomllib.loads((Path(__file__).parents[2] / "stretto" / "language" / "given.toml").read_text("utf-8"))
_OF_GIVEN = [each for table in _GIVEN.values() for words in table.values() if isinstance(words, list) for each in words]

EXAMPLES: Mapping[tuple[str, str], Sequence[str]] = {
    ("testing/protocols.py", "token"): ["\\s*+\\S++|\\s++$", "(?s:.{1,4})"],
    ("server/models.py", "b'(?:(?<![\\\\w.])|(?<=\\\\\\\\[nrt]))(?:' + paths + b')(?![\\\\w-])'"): [
        "(?:(?<![\\w.])|(?<=\\\\[nrt]))(?:/models/a|/b)(?![\\w-])"
    ],
    ("strategies/document/bearing.py", "'\\\\b' + '[\\\\w.-]{0,40}\\\\s{1,9}'.join(word.casefold())"): [
        "\\bg[\\w.-]{0,40}\\s{1,9}p[\\w.-]{0,40}\\s{1,9}l"
    ],
    ("strategies/document/quoting.py", "pattern"): ["(?<!\\w)(?:the\\ rent)(?!\\w)", "con-?tract"],
    ("strategies/one_point.py", "f'(?:^|[\\\\n.!?。])\\\\W{{0,9}}{re.escape(section)}\\\\W{{0,9}}[:：]'"): [
        "(?:^|[\\n.!?。])\\W{0,9}Advantages\\W{0,9}[:：]"
    ],
    ("backends/local/tools.py", "f'\\\\b{re.escape(name)}\\\\b'"): ["\\benable_thinking\\b"],
    ("foundation/redaction.py", "f'(?<!\\\\w){re.escape(secret)}(?!\\\\w)'"): ["(?<!\\w)sk\\-a1(?!\\w)"],
    ("language/listing.py", "split"): ["[;；]", "\\s[/|]\\s", ",\\s+|[、，]\\s*|,(?=[^\\W\\d])"],
    # Of the adapter's own folder, which the user chose.
    ("local_engine/model/adapters/lora.py", "f\"(?:.*\\\\.)?(?:{pattern.removeprefix('^')})\""): [
        "(?:.*\\.)?(?:q_proj)"
    ],
    ("local_engine/text/chat_template.py", "'|'.join(longest_first) or '(?!)'"): [
        "<\\|im_start\\|>|<\\|im_end\\|>|</s>"
    ],
    ("local_engine/text/chat_template.py", "f'{token}|{self._begin}|{self._end}'"): [
        "qza1b(<s>|</s>)qza1e|qza1b|qza1e"
    ],
    ("router/given.py", "f'\\\\b(?:{either(key, whole=True)})(?!\\\\w)|{either(key, whole=False)}'"): [
        rf"\b(?:{each})(?!\w)" for each in _OF_GIVEN
    ],
    ("router/given.py", "f'\\\\b(?=\\\\w)(?:{words})'"): [rf"\b(?=\w)(?:{each})" for each in _OF_GIVEN],
    ("prompts/catalogue.py", "f'(?<!\\\\$)\\\\$(?:(?:{names})\\\\b|\\\\{{(?:{names})\\\\}})'"): [
        "(?<!\\$)\\$(?:(?:a|b)\\b|\\{(?:a|b)\\})"
    ],
    ("strategies/document/quoting.py", "f'(?<!\\\\w){exact}(?!\\\\w)'"): ["(?<!\\w)the\\ rent(?!\\w)"],
    ("strategies/document/quoting.py", "exact"): ["the\\ rent"],
    ("strategies/fields/record_plan.py", "f'(?<![\\\\w]){spaced}(?![\\\\w])'"): ["(?<![\\w])care[ _]plan(?![\\w])"],
    ("strategies/rewrite/kept_text.py", "f'\\\\n(?!{indent})[ \\\\t]*(?=\\\\S)'"): ["\\n(?!    )[ \\t]*(?=\\S)"],
    ("strategies/items/layout.py", "f'^[\\\\s*_]*{self._number}[.)][*_]*\\\\s+(?=\\\\S)'"): [
        "^[\\s*_]*12[.)][*_]*\\s+(?=\\S)"
    ],
    ("strategies/items/layout.py", "f'[*_]*(?P<number>1|{self.first})[.)][*_]*\\\\s+(?=\\\\S)'"): [
        "[*_]*(?P<number>1|5)[.)][*_]*\\s+(?=\\S)"
    ],
    # Of the caller: a response_format, the script of a test. The first is compiled only to see whether it can be.
    ("foundation/json_schema.py", "str(pattern)"): [],
    ("strategies/structured/fitting.py", "pattern"): [],
    ("testing/backend.py", "pattern"): [],
    ("testing/server.py", "rule.pattern"): [],
}
