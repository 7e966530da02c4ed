"""Detects requests that need all items at once or in sequence and must not be split.

The patterns are English, and in part of other European languages. They are broad on purpose: a request that is refused
wrongly is answered in one piece, a request that is split wrongly is answered wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FLAGS = re.IGNORECASE
EACH = re.compile(
    r"\b(?:each|every(?: one)?|apiece|individually|separately|respectively|one by one|one at a time"
    r"|jede[nrsm]?|jeweils|einzeln|chaque|chacun(?:e)?|cada(?: un[oa])?|ogni|ciascun[oa]?|elke?|ieder[e]?|każd\w+"
    r"|кажд\w+|varje)\b"
    r"|每[个個一条條句]|各[々単文語項]|それぞれ",
    _FLAGS,
)

_ALWAYS = re.compile(
    r"\b(?:different\b(?! words)|distinct\b|unique\b|no two|without repeat\w*|no repeat\w*|(?:do not|don't"
    r"|never) repeat\w*|alternat(?:e|ing)"
    r"|how they (?:relate|differ|interact|fit|compare|work)|(?:of|in|for|from) (?:one|a single) (?:novel|story|book"
    r"|film|play|world|scene)"
    r"|relative to|the (?:others|rest)\b|among (?:them|these)|of (?:them|these) all|of the lot|priorit\w+|allocat\w+"
    r"|distribut\w+|share out"
    r"|assign (?:\w+ ){1,6}to (?:an? |the |one )?(?:\w+ )?(?:team|person|member|people|student|group|room|day|slot)s?"
    r"|conclu(?:sion|de)\w*|introduction|at the end|finally|in the end|(?:and|then) summari[sz]e\b(?! each)"
    r"|(?:and|then) (?:tell me|say|decide|explain) which (?:one|of|is|are)|"
    r"sort(?:ed|ing)?\b|rank(?:s|ed|ing)?\b|compar(?:e|es|ed|ing|isons?)\b(?! (?:of each|form))|contrast\b"
    r"|versus|vs\b"
    r"|(?:re)?order (?:these|them|the|by|of)|put (?:these|them|the \w+"
    r"|the following(?: \w+)?) in(?:to)? (?:\w+ )?order"
    r"|(?:in|into) (?:\w+ ){0,2}order\b(?! given)|alphabeti[sz]e|alphabetical(?:ly)?|best to worst|worst to best"
    r"|easiest to hardest|oldest to \w+"
    r"|smallest to \w+|largest to \w+|sum(?: up)? (?:of|these|them|the)|sum up|add (?:up|these|them|together)"
    r"|totals?\b|subtotal|averages?\b|the mean of|median of"
    r"|mode of|range of|product of|maximum|minimum|how many of|count how many|count the|number of (?:items|these"
    r"|them)|overall|altogether"
    r"|group (?:these|them|the|all|by|together|each)|groups? of|cluster|bucket|dedup\w*|duplicates?|unique (?:values"
    r"|items|entries|ones)"
    r"|choose|pick (?:the|one|out|a|your|which|two|three)|select (?:the|one|which|two|three|all)|best of|odd one out"
    r"|which (?:one|ones)\b(?! \w+ each)"
    r"|(?:have|has|in) common|common (?:theme|denominator|thread|factor)\w*|differences? (?:between|among)"
    r"|distinguish(?:es)? between|similarit\w+"
    r"|relationships?|relate (?:to|these|them)|related to each other|pairs?\b(?! of (?:shoes|glasses|scissors))"
    r"|pairwise|match (?:these|them|each|every|the|up)|each other|one another"
    r"|combin\w+|merg(?:e|ed|ing)\b|join(?:ed)? (?:these|them|the|into)|connect (?:these|them|the)|link (?:these"
    r"|them) |mind ?map|together"
    r"|(?:in|into|as) (?:one|a single|1) (?:single |short |coherent )?(?:paragraph|text|essay|summary"
    r"|sentence (?:using|with|from|containing))(?! (?:(?:about|for|on|per) )?each| apiece)|rhym\w+"
    r"|so (?:that )?(?:they|all)"
    r"|(?:in|into) one sentence\b(?=[^.\n]*\b(?:these|all|them)\b)"
    r"|us(?:e|ing) (?:all )?(?:of )?(?:these|each|every|the following|the words?|all)|(?:contain|includ"
    r"|incorporat)(?:s|es|e|ing) (?:all )?(?:of )?(?:these|the following|the words?|each|every)"
    r"|made (?:up )?(?:from|of|with) (?:these|the following)|with (?:these|the following|the) (?:words|ingredients"
    r"|characters|elements|items)"
    r"|based on (?:these|the following|each other)|from these (?:words|ingredients|facts|notes|points|details|data"
    r"|numbers)"
    r"|previous|preceding|one before|build(?:s|ing)? on (?:the|each)|in (?:sequence|turn from)"
    r"|step by step through all|chain\b|continu(?:e|es|ing|ation)"
    r"|proportions?|percentages? of the total|share of|probabilit\w+|correlat\w+|trends?\b|outliers?|budget for"
    r"|schedule\b|timeline|itinerary|plan (?:for|with|from)"
    r"|csv|xml|yaml|toml|latex|spreadsheet|only (?:the )?(?:ones|those|items)|remove (?:the|all|any|those)|filter\b"
    r"|delete|keep only|drop the|exclude"
    r"|sortier\w*|vergleich\w*|summe|durchschnitt\w*|gruppier\w*|reihenfolge|insgesamt|gemeinsam\w*|unterschied\w*"
    r"|ordne"
    r"|trie[rz]?|compare[rz]?|somme|moyenne|regroupe[rz]?|différences?|ensemble|ordre"
    r"|orden(?:a|ar|e|en)|compara(?:r|n|d)?|suma(?:r|n)?|promedio|agrupa\w*|diferencias?|en orden|juntos|en común"
    r"|ordina(?:re|te)?|confronta\w*|somma|raggruppa\w*|differenz[ae]|in comune"
    r"|orden[ea]|agrup[ea]|soma|diferenças?|em comum|sorteer\w*|vergelijk\w*|gemiddelde|groepeer\w*|verschil\w*"
    r"|volgorde|samen"
    r"|отсортир\w*|сравни\w*|сумм\w*|средне\w*|сгруппир\w*|сортув\w*|posortuj|porównaj|suma)(?!\w)"
    r"|排序|排列|比较|比較|总和|總和|平均|分组|分組|合計|並べ(?:替|て)|まとめ|共通|区别|區別",
    _FLAGS,
)
_UNLESS_EACH = re.compile(
    r"\b(?:which (?:of|is|are|was|were|has|have|do|does|word|item)|who (?:is|was|are) the|summar(?:y|i[sz]e\w*)"
    r"|conclu\w+|overview|synthesi[sz]e|pros and cons"
    r"|(?:story|poem|essay|letter|e-?mail|song|article|speech|dialogue|conversation|recipe|dish|meal|menu|script"
    r"|report|blog|review of|presentation|table of contents)"
    r"|(?:larg|small|high|low|long|short|old|young|fast|slow|cheap|heav|light|bigg|great|few|strong|weak|new|near"
    r"|close|b|wor)(?:i?est|st)\b"
    r"|paragraphs?|most|least|more|less|better|worse|same|all correct|multiple[- ]choice|(?:explain|describe"
    r"|translate|rate|define|summari[sz]e|simplify|answer|correct|convert|label|classify|tag) (?:it|this"
    r"|that)(?! (?:list|set)\b)"
    r"|(?:an?|one) (?:\w+ ){1,3}(?:for|about|with|from|on) (?:all (?:of )?)?(?:these|the following)"
    r"|system of equations|simultaneous|program|function|class|code|app|website"
    r"|fasse?|zusammenfass\w*|résume\w*|resum\w+|riassum\w+|samenvat\w*|总结|總結|要約)\b",
    _FLAGS,
)
_SINGULAR = re.compile(
    r"\b(?:following|this|the|below) (?:\w+ )?(?:text|passage|paragraph|poem|essay|story|article|dialogue"
    r"|conversation|e-?mail|letter|song|lyrics|speech|document"
    r"|transcript|code|program|proof|equation|recipe|itinerary|argument|table|sentence|problem|question|case|scenario"
    r"|message)\b(?!s)",
    _FLAGS,
)
_NO_ITEMS = re.compile(
    r"\b(?:requirements?|constraints?|rules?|criteria|criterion|conditions?|guidelines?|instructions?|notes?"
    r"|consider(?:ing|ations?)?|includ(?:e|es|ing)|cover(?:s|ing)?|mention(?:s|ing)?"
    r"|address(?:es|ing)?|contain(?:s|ing)?|must|should|shall|points?|topics|aspects|elements|information|details"
    r"|features|sections|steps|keywords|ingredients|structure|(?:following|this|output) format"
    r"|characteristics|based|given|using|use|such as|e\.g\.|i\.e\.|for example|examples?|options|choices|answers"
    r"|variables|assum\w+|where|because|since|facts|data|context|background|with (?:the|these) following"
    r"|specification\w*|tasks?|goals?|objectives?|anforderung\w*|hinweise?|regeln?|exigences|règles|requisitos|reglas"
    r"|requisiti|regole|vereisten|regels)\b",
    _FLAGS,
)
_REFERS = re.compile(
    r"\b(?:same as|the (?:previous|preceding|above|former|latter)|previous (?:one|item|question|answer|sentence|part"
    r"|result)|as (?:above|before)|see above|ibid\.?|idem|ditto"
    r"|aforementioned|from (?:part|question|step|item) \(?\w\)?|(?:part|question|step|item|number|sentence|line"
    r"|no\.?) (?:#|\()?[\da-e]\)?(?:$|[\s,.;?!])"
    r"|(?:siehe|wie) oben|das vorige|ci-dessus|précédente?|anterior|precedente|vorige|hierboven)(?!\w)|同上|上記|前の"
    r"|см\. выше",
    _FLAGS,
)
_LEANS = re.compile(
    r"^(?:then|hence|thus|therefore|so|next|finally|now|afterwards|also|and|but|otherwise|using (?:this|that|it)"
    r"|if so|why\?|how so|what about|dann|danach|ensuite|puis|luego|poi|então|daarna)\b",
    _FLAGS,
)
_PRONOUN = re.compile(
    r"\b(?:it|its|they|their|them|this|that|these|those|he|she|his|her|such|er|sie|ihr\w*|il|elle|leur)\b", _FLAGS
)
_QUESTIONS = re.compile(
    r"(?<!the )(?<!your )(?<!into )\b(?:answer|questions?|solve|work out|beantwort\w*|répond\w*|respond\w*"
    r"|rispond\w*)\b",
    _FLAGS,
)


def needs_all(instruction: str, introduction: str) -> str | None:
    """Why an instruction cannot be applied item by item; ``None`` if it can.

    ``introduction`` is the line before the list; it may show that the list does not consist of items.
    """
    if found := _ALWAYS.search(instruction):
        return f'it asks for something that needs all items together ("{_shown(found)}")'
    if EACH.search(instruction):
        told = _NO_ITEMS.search(introduction) if not EACH.search(introduction) else None
    elif found := _UNLESS_EACH.search(instruction) or _SINGULAR.search(instruction):
        return f'it asks for one result ("{_shown(found)}")'
    else:
        told = _NO_ITEMS.search(introduction)
    return f'the list is not one of items ("{_shown(told)}")' if told else None


def refer_to_each_other(instruction: str, items: Sequence[str]) -> str | None:
    """Why items cannot be understood on their own; ``None`` if they can."""
    asking = bool(_QUESTIONS.search(instruction)) or sum(item.rstrip().endswith("?") for item in items) * 2 > len(items)
    supplied = _QUESTIONS.search(instruction) is not None
    for item in items:
        found = _REFERS.search(item) or (_LEANS.match(item) if asking else None)
        found = found or (_PRONOUN.search(item) if supplied else None)
        if found:
            return f'items refer to each other ("{_shown(found)}")'
    return None


def _shown(found: re.Match[str]) -> str:
    words = " ".join(found[0].split())
    return words if len(words) <= 40 else words[:37] + "..."
