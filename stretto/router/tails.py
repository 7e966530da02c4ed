"""What a question wants done with its finished list: rank it, choose from it, compare its entries, conclude from it.

Points that are written side by side do not know each other, so such a list is written straight through. "Explain each"
and "each with an example" ask for nothing of the kind.
"""

from __future__ import annotations

import re

from stretto.language.folding import fold
from stretto.router.reading import excerpt

_ORDINAL = r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|final|top|bottom)"
_PLACE = (
    rf"(?:{_ORDINAL}(?: (?:one|two|three|tip|way|reason|idea|point|item|option|entry|of (?:them|these|those|your)))?"
    rf"|(?:number|no\.?|#) ?\d+|(?:two|three) of (?:them|these|those)|winner|one (?:at|on) (?:the )?(?:top|bottom|end))"
)
_LIST = (
    r"(?:them|these|those|the (?:list|lot|two|three|four|five|six|seven|eight|nine|ten|\d+|results|options|ideas|tips"
    r"|reasons)\b)"
)
_LINK = re.compile(
    r"(?:\b(?:and|then|afterwards|finally|lastly|next|also|before you)\b,? |[,.;:!?\n] ?)(?:[a-z]+ ){0,3}$"
)
_LINK_REACH = 40  # characters
_BEST = r"(?:best|worst|favou?rite|winner|strongest|weakest|most \w+|least \w+|one\b|top|better|easiest|cheapest)"
_ENGLISH_LINKED = (  # behind "and", "then" or a new clause
    rf"(?:compare|contrast|weigh|connect|link|combine|merge) (?:them all|the {_PLACE}|the best\b|those (?:two|three)"
    r"|all of them|them (?:against|with each|to each))",
    rf"(?:rank|order|sort|score|rate|group|cluster|prioriti[sz]e|evaluate|cut|narrow)(?: down)? {_LIST}"
    r"(?! (?:into|by topic|under))",
    r"(?:choose|pick|select|crown|recommend|decide (?:on|between|for)|name) "
    rf"(?:(?:the|your|a|only|just|one as|between) )*(?:{_BEST}|them\b|which (?:one|of)\b|one of (?:them|these|those))",
    r"(?:which|who)(?: one)?(?: (?:of|among) (?:them|these|those|the \w+))"
    r"(?: is| are| was| would| do| did| should| you|,|\?| matter)",
    r"(?:say|tell me|state|explain|decide|show|argue) (?:which|who)"
    r" (?:of|one|two|is|are|was|would|wins|matter\w*|suits|you|i should)\b",
    r"conclude (?:which|who|from)\b|(?:verdict|ranking)\b",
)
_ENGLISH = (
    rf"(?:why|how) (?:the |your |you (?:put|chose|placed|ranked) )(?:the )?{_PLACE}"
    r"(?:,| (?:is|was|are|were|would|will|should|must|can|follows|matters|works|beats|comes|stands|wins|before|above"
    r"|disappoints?)\b|[.?!]?$)",
    r"(?:rank|put|place|sort|arrange) (?:them|these|those|the list)\b.{0,20}\b(?:order|from|according)\b",
    r"which (?:one )?(?:would|do|should|did) you (?:choose|pick|recommend|prefer|take|favou?r|start with)\b",
    r"which (?:one )?(?:is|was) (?:the )?(?:best|better|worst|strongest|weakest|most important)(?: one)?[.?!]?$",
    r"(?:draw|reach|come to) (?:a |an |your |one |some )?(?:\w+ )?conclusions?\b",
    rf"(?:than|with|and|to) the {_ORDINAL}(?: one| two)?[.?!]?$",
    r"(?:for|of|with|refute|answer) the (?:\w+est|best|most \w+|least \w+) of (?:them|these|those)\b",
    r"the one (?:you (?:think|find|chose)|at the (?:top|end|bottom))\b",
    r"then (?:eliminate|rule out|discard|drop|refute)\b|and then a summary\b",
    r"then\b[^.?!]{0,30}\b(?:the (?:best|worst|third|last|strongest)|one of (?:them|these)|into one)\b",
    r"what (?:they|these|those|all of them) (?:all )?have in common\b|what (?:they|these) show together",
    r"(?:which|what) (?:two|three)? ?of (?:them|these) contradict",
)
_LATIN = (  # German, French, Spanish, Italian, Dutch, Portuguese, Turkish
    r"warum (?:der|die|das) (?:erste|zweite|dritte|vierte|fünfte|letzte)\b|dann (?:ordne|sortiere|vergleiche)\b",
    r"welche[nrsm]? (?:davon|du (?:wählen|nehmen))|und vergleiche die (?:letzten|ersten|beiden)",
    r"ziehe? ein(?:en)? fazit",
    r"pourquoi (?:le|la) (?:premier|première|deuxième|troisième|quatrième|cinquième|dernier|dernière)\b",
    r"(?:puis|ensuite|et) (?:classe|compare)[\w-]* ?(?:les (?:deux|trois) (?:derni|premi)|-les)|classe-les\b",
    r"(?:laquelle|lequel) (?:tu choisirais|choisirais-tu|est (?:le|la) meilleur)|tire une conclusion",
    r"por qué (?:el|la) (?:primer|segund|tercer|cuart|quint|últim)|(?:luego|después|y) (?:ordénal|clasifícal)",
    r"compara (?:los|las) (?:dos|tres) (?:últim|primer)|cuál (?:elegirías|de (?:ellos|ellas)|es (?:el|la) mejor)",
    r"saca una conclusión|perché (?:il|la) (?:prim|second|terz|quart|quint|ultim)|poi (?:ordinal|confrontal)",
    r"quale sceglieresti|e confronta (?:gli|le) ultim|trai una conclusione",
    r"waarom de (?:eerste|tweede|derde|vierde|vijfde|laatste)\b|rangschik ze|welke (?:ervan|je zou)",
    r"por que (?:o|a) (?:primeir|segund|terceir|últim)|qual (?:você escolheria|deles|delas)",
    r"en iyisini|hangisi|son (?:iki|üç)s?ini|(?:birinci|ikinci|üçüncü|dördüncü|sonuncu)\w* neden|sırasına (?:koy|göre)",
    r"sonuç çıkar|aralarından|içlerinden|göre sırala",
)
_OTHER_SCRIPTS = (
    # Chinese, Japanese
    r"为什么第[一二三四五六七八九十\d]|(?:然后|再|并|最后|接着|，)(?:[^。！？，]{0,6})(?:排序|排名|排个|选出|选一|挑出|挑一)",
    r"比较(?:一下)?(?:最后|前面?)[两二三]|哪一?[个种条](?:最|更)|得出(?:一个)?结论|按重要性",
    r"(?:その|この|挙げた)(?:中|うち)(?:から|で)|順位(?:を|付け)|ランキング|結論を|どれが(?:一番|最も)|[二三四五2-5]番目が",
    r"最後の[2二3三]つを比|理由とともに1つ選|一番(?:良い|よい|いい|おすすめの)(?:もの|の)(?:を|は)",
    # Arabic, Hindi
    r"افضلها|افضلهم|رتبها|رتبهم|لماذا (?:الاول|الثاني|الثالث|الرابع|الخامس|الاخير)|قارن بين (?:اخر|اول|الاخير)",
    r"استنتج|استنتاج|ايها|ايهم|اختر (?:واحد|منها)",
    r"उनमें से|इनमें से|निष्कर्ष|(?:आखिरी|अंतिम|पहले) (?:दो|तीन) की तुलना",
    r"(?:तीसरा|दूसरा|पहला|आखिरी)[^।]{0,20}क्यों|क्रम में (?:रख|लगा)",
    # Russian
    r"почему (?:первы|второ|трети|четверт|пяты|последн)|выбери (?:из них|лучш|одн|сам)",
    r"как(?:ой|ая|ую|ое) из (?:них|этих)",
    r"расставь|ранжиру|упорядоч|отсортиру|сделай вывод|сравни (?:последни|первы|их)|как(?:ой|ую|ое) бы ты выбрал",
)
_LINKED = re.compile(rf"\b(?:{'|'.join(_ENGLISH_LINKED)})")
_ALONE = re.compile(rf"\b(?:{'|'.join(_ENGLISH)})")
_BEYOND_ENGLISH = re.compile(rf"\b(?:{'|'.join(_LATIN)})")
_BEYOND_LATIN = re.compile("|".join(_OTHER_SCRIPTS))


def wants_finished_list(text: str) -> str | None:
    """Return the words by which a text asks for something that only the finished points can give, or ``None``."""
    text = fold(excerpt(text)).strip()
    for found in _LINKED.finditer(text):
        if _LINK.search(text, max(0, found.start() - _LINK_REACH), found.start()):
            return found[0].strip(" ,?")
    other = _ALONE.search(text) or _BEYOND_ENGLISH.search(text)
    if other is None and not text.isascii():
        other = _BEYOND_LATIN.search(text)
    return other[0].strip(" ,.;:!?\n") if other else None
