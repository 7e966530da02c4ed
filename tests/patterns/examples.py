"""Patterns that are made while the program runs: by the file and the words that make it, some that are like them."""

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[tuple[str, str], Sequence[str]] = {
    ("backends/local/tools.py", "f'\\\\b{re.escape(name)}\\\\b'"): ["\\benable_thinking\\b"],
    ("backends/providers/redaction.py", "f'(?<!\\\\w){re.escape(secret)}(?!\\\\w)'"): ["(?<!\\w)sk\\-a1(?!\\w)"],
    ("language/listing.py", "split"): ["[;；]", "\\s[/|]\\s", ",\\s+|[、，]\\s*|,(?=[^\\W\\d])"],
    # Of the adapter's own folder, which the user chose.
    ("local_engine/model/low_rank.py", "f\"(?:.*\\\\.)?(?:{pattern.removeprefix('^')})\""): ["(?:.*\\.)?(?:q_proj)"],
    ("local_engine/text/chat_template.py", "'|'.join(longest_first) or '(?!)'"): [
        "<\\|im_start\\|>|<\\|im_end\\|>|</s>"
    ],
    ("local_engine/text/chat_template.py", "f'{token}|{self._begin}|{self._end}'"): [
        "qza1b(<s>|</s>)qza1e|qza1b|qza1e"
    ],
    ("prompts/catalogue.py", "f'(?<!\\\\$)\\\\$(?:(?:{names})\\\\b|\\\\{{(?:{names})\\\\}})'"): [
        "(?<!\\$)\\$(?:(?:a|b)\\b|\\{(?:a|b)\\})"
    ],
    ("strategies/document/quoting.py", "f'(?<!\\\\w){exact}(?!\\\\w)'"): ["(?<!\\w)the\\ rent(?!\\w)"],
    ("strategies/document/quoting.py", "exact"): ["the\\ rent"],
    ("strategies/items/entries.py", "f'^[\\\\s*_]*{self._number}[.)][*_]*\\\\s+(?=\\\\S)'"): [
        "^[\\s*_]*12[.)][*_]*\\s+(?=\\S)"
    ],
    ("strategies/items/entries.py", "f'[*_]*(?P<number>1|{self.first})[.)][*_]*\\\\s+(?=\\\\S)'"): [
        "[*_]*(?P<number>1|5)[.)][*_]*\\s+(?=\\S)"
    ],
    # Of the caller: a response_format, the script of a test. The first is compiled only to see whether it can be.
    ("foundation/json_schema.py", "str(pattern)"): [],
    ("strategies/fitting.py", "pattern"): [],
    ("testing/backend.py", "pattern"): [],
    ("testing/server.py", "rule.pattern"): [],
}
