"""Labelling: what a person means by what they say after an answer, by rules alone. Pure.

The rules are words and shapes of a dozen languages. They abstain where they are not sure: then a model can be asked.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Label = Literal["accepted", "rejected", "redo", "continues", "unrelated", "unknown"]

MAX_CHARACTERS = 2_000
"""How much of the beginning of a message is looked at."""
_MAX_OTHER = 2  # words that say nothing, in a clause that praises
_MAX_REDO = 8  # words besides those that ask for another try
_LONG = 6  # from so many words on a message may stand alone


def _join(pattern: str) -> re.Pattern[str]:
    """A pattern that is written over several lines."""
    return re.compile(pattern.replace("\n", ""), re.MULTILINE)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


_GOOD = frozenset(
    _words("""
perfect perfectly perfekt parfait parfaite perfecto perfeito perfetto great awesome excellent brilliant amazing lovely
fantastic wonderful beautiful superb super toll prima klasse genial genau exactly exactement exacto exato esatto nice
good cool neat sweet solid nickel impeccable bravo ottimo otimo excelente gut bien bueno bom bene lgtm approved correct
correcto correto right richtig stimmt passt kudos thanks thank thx ty tysm thankyou cheers danke merci gracias obrigado
obrigada valeu grazie dzieki dziekuje bedankt tack takk kthx kthxbye lifesaver works worked working done ta fixed
solved green passes passed passing pass happy funktioniert lauft klappt funciona funciono fonctionne marche dziala
funziona dobrze swietnie compiles runs match matches merged merging shipped shipping fine yay bingo nailed impressive
renders builds spotless flawless
""")
)
_MILD = frozenset(
    _words("""
ok okay k yes yep yeah yup ja oui si sim tak alright sure wow oh ah hey hm well so ya ca c est das ist es that thats
this it its the a an i we you u is was are were be to of and in on at me my mine as all both very really much what
wanted needed asked had mind imagined mir vorgestellt hab ich looks look looking seems reads job work now jetzt finally
again test tests build ci numbers output code same they them too man mate sir team thing here there pls please esto
esta isto ficou muito tout muy already got get see makes sense does do did have has quick quickly every everything for
your help ayuda hilfe aide por la le
""")
)
_BAD = _join(r"""
\b(but|however|except|apart|besides|although|though|yet|only|not|never|nor|wrong|missing|miss(ed|es)|forgot(ten)?|
broken?|breaks?|fail(s|ed|ing|ure|ures)?|crash(es|ed)?|hangs|incorrect|bugs?|buggy|instead|without|lost|dropped|
delet\w+|remov\w+|ignor\w+|skip\w*|duplicat\w+|invent\w+|disabl\w+|swallow\w*|hardcod\w+|garbage|useless|worse|worst|
ugly|nobody|nothing|nichts|undo|revert|break\w*|still|(is|are|was|were|do|does|did|ca|wo|could|should|would|has|
have)nt|cannot|if|because|unless|until|where|when|should|aber|nicht|keine?|falsch|fehl\w+|kaputt|leider|statt|sondern|
nur|noch|mais|pas|manque|faux|sauf|pero|falta\w*|mal|no|nao|mas|errado|nie|ale|brakuje|zle|sbagliato|manca|niet|maar|
fout|ontbreekt|off|almost|casi|presque|quase|stop|wtf|ffs|error)\b
""")
# "No errors", "nothing to add", "not bad": what is good by what it denies.
_DENIED = _join(r"""
\b(error|problem|issue|bug|warning|crash|flake|fehler)s? (is|are|ist|sind) (gone|fixed|solved|away|weg)\b|\b(works?|
reads?) (well|nicely|like a charm)\b|\breally (like|love)\b|\bcouldnt be better\b|\bchecks out\b|\bspot on\b|\b(much|
way|far) better\b|\b(did|does) the trick\b|\bthat did it\b|\b(no|zero|without|nothing|none|cant|cannot|keine?|nichts|
sans|rien|sin|nada|sem|nic|not)(\s(more|further|any|find|see|anything|nothing|have|got|single|at|to|else|of|to|a|zu|
more))*\s(errors?|complaints?|problems?|issues?|objections?|questions?|comments?|remarks?|notes?|worries|wrong|add|
change|complain|fault|bad|fehler|einwande|probleme?|problemes?|redire|quejas|problemas?|uwag)\b
""")
_FAILED = _join(r"""
^traceback \(most|^ *([\w.]*(error|exception)|error\[\w+\]|fatal|panic|thread '.{1,40}' panicked)\b.{0,3}:|
\b[1-9]\d* (failed|failing|failures?|errors?)\b|\bexit(ed)? (with )?(code|status) [1-9]|\*\*\* |segmentation fault|
^ *expected\b.{0,200}\n?.{0,200}\b(got|received|actual|but was)\b|^(failed|fail) \S+
""")
# Praise of what is to come, or of what was asked.
_OF_A_PLAN = re.compile(
    r"\b(sounds|good|great|nice|fair|cool) (good|great|nice|idea|question|point|plan|to know|luck|start)\b"
)
_PASSED = _join(r"""
\b[1-9]\d* (tests? )?(passed|passing|ok|green)\b|\ball (tests? |\d+ )?(pass|green|passed|good)\b
""")
_AGAIN = _join(r"""
\b(again|redo|retry|regenerate|anew|afresh|do over|start (over|fresh)|from scratch|from the (top|beginning|start)|(one|
once) more( (time|try|take|go))?|another (one|go|try|take|attempt|version|shot|round|stab|think)|second (try|time|
attempt|go)|different (version|one|take)|have a?nother go|noch ?(ein)?mal|von vorne|neu|encore une fois|de nouveau|
recommence\w*|reessaie\w*|otra vez|de nuevo|de novo|outra vez|di nuovo|ancora|jeszcze raz|opnieuw|nog een keer|redo|
repeat|better than that)\b|もう一度|もう1回|やり直|再来|重新|再试|다시
""")
_OTHER_TOPIC = _join(r"""
\b(new|different|other|another|separate|next|unrelated|random|quick) (task|topic|thing|question|session|bug|issue|note|
q|subject)\b|\bunrelated\b|\bby the way\b|^btw\b|\bforget (\w+ ){0,3}for\b|\b(switch|moving) (to|on|topics?)\b|
\bcambiando de tema\b|\botra cosa\b|\bautre chose\b|\bandere[sr]? (frage|thema|sache)\b|\binna sprawa\b|
\bmudando de assunto\b|別件|ところで|另外|换个话题
""")
_NEXT = _join(r"""
^((ok|okay|good|great|right|alright|yes|and|so|please|pls|then|danke|bon|bien) )*(next\b|on to\b|(clos|merg|push|shipp|
tagg|open|mov|deploy|releas)ing\b|(now|then|also|jetzt|nun|dann|ahora|agora|maintenant|ensuite|teraz|poi)\b(?! (it|its|
the|this|that|you|we|i|they|everything|nothing|half|all|ist|is|sind|fehlt|without|no)\b)|(can|could|would|will) (you|
we|u)\b|kannst\b|peux\b|puedes\b|continue|go (on|ahead)|proceed|carry on|weiter\b|sigue\b|continua|do the same)\b
""")
_MOVES_ON = re.compile(r"(please |pls )*(tag|open|release|commit|push|ship|deploy|close|publish)\b")
_KEEP = _join(r"""
^((ok|okay|yes|yep|ja|oui|si|great|good|alright|then|now|and|so|please|pls|no|hm+|just|lets|go) )*((merge|commit|push|
ship|keep|leave|publish|approve|land)( (and|it|this|that|them|one|as|is|now|then|pls|please|like|push|merge|commit|so|
the (pr|branch|version)|version|way|to (main|master)))*|looks? \w+( to me)?|(we|i|all)(re|m)? (are )?(done|good|
set)( here)?( then)?|y[eu]p thats it)$|\bkeep (it|this|that)$
""")
_WITHDRAWN = _join(r"""
\bi take (it|that) back|\bmy (bad|mistake|fault)\b|\b(you|u) (were|are|was) right\b|\byours is (right|correct|fine)\b|
\bi stand corrected\b
""")
_CONTRAST = _join(r"""
\b(but|however|except|apart from|though|although|only thing|(one|tiny|small|little|minor) (thing|nit|detail)|nit|
just not|aber|nur|allerdings|mais|sauf|pero|salvo|mas|porem|ale|maar|ma|tyle ze)\b(?=(\W+\w+){2})
""")
# What speaks of the answer, or of who gave it, wherever it stands.
_WRONG = _join(r"""
^(hm+|wow|ok|jesus|ugh|sorry|wait|uh)?\W*((no|nope|nah|nein|non|nie|nee|nao)[,.:!-]* |(almost|close|nearly|casi|
presque|quase|prawie|fast|not quite) *[,.:!-]+ )(?!(no|we|there|thats|problem|worries|need|thanks|rush|hurry|idea|
preference|one|its|keep|leave|go|mind)\b)\w+\W+\w+|^(no|nope|nah|nein|non), (?!thanks?|another|again)\w+$|
\bnot what (i|we)\b|\bthe opposite\b|(?<!what )\b(i|we) (had )?(said|asked|told|meant|wanted|expected|agreed|
specified)\b(?! it to)|\bas i (said|wrote)\b|\bdidnt i\b|\bi thought we\b|\bwe (say|dont|never|always|sort)\b|\byou(ve|
 have)? (just )?(forgot|miss\w*|dropped|broke|deleted|removed|changed|ignored|skip\w*|invented|put|left|overwrote|
renamed|hardcoded|swapped|mixed|duplicated|only|never|didnt|did it again|force)\b|\b(still|same) (\w+ ){0,2}(error|
problem|issue|bug|null|broken|failing|red|wrong|nothing|not|fails|hangs|crash\w*|missing)\b|\bother way (a)?round\b|
\bid rather\b|\bwould you mind (using|not)\b|\bcan (you|we) not\b|\bwhy (on earth |the hell )?(did|would|have|are|
do) you\b|^(please )?(stop|quit) \w+ing\b|^(please )?(undo|revert|roll back|put back|bring back)\b|\b(undo|revert) (it|
this|that)\b|\bwho (asked|told) you\b|\bwhere (did|are|is|have) (the|all|my|our)\b.*\b(go|gone)\b|
\bwhat happene?d to\b|^(are you|r u|you) (sure|kidding|serious)\b|\b(redo|again)( (it|that|this))? (with|without|
but)\b|\b(warum|wieso) hast\b|\bwollte ich|ich wollte|je voulais|pourquoi tu|yo queria|volevo|vergessen|oublie|
olvid\w+|esquec\w+|dimenticat\w+|mialo byc
""")
# What speaks of a thing that is wrong, which may be one that is to be mended.
_FAULTY = _join(r"""
\b(should|must|has to|have to|needs to|supposed to|want it to) (not )?(be|have|go|come|say|read|use|return|start|begin|
never|end|contain|stay)\b(?! (fine|good|ok|enough|all))|\b(is|are|was|were|look|looks|seems?|its|thats) (still |just |
completely |totally |all |now )*(wrong|broken|missing|off|incorrect|dead|empty|null|too|outdated|backwards|invalid|
useless|garbage|not|worse|a duplicate|in the wrong)\b|\b(still|it|this|that|which|now) (still )?(fails?|breaks?|
crash(es)?|hangs?|errors|throws|times out|freezes|wipes|loses|drops)\b|\b(does|do|did|wo|ca|could)(nt| not) (work|
compile|run|build|do|start|match|exist|help|fit|parse|load|render|show)\b|\bno such\b|\bthats the old\b|\b(get|got|
getting|see|says|returns|shows|throws) (an? |the |this )?(\w+ )?(error|exception|[45]\d\d|undefined|null|blank)\b|
\btoo (long|short|verbose|many|few|slow|big|small|formal|casual|complicated|wordy|vague|generic)\b|\bwrong (?!window|
chat|channel|tab)\w+|\binstead of\b|, not \w|^not \W?\w+\W+ ?,? ?(we|its|but|use)\b|\b(are|is|was|were)nt\W|
^(please )?(dont|do not|never) (?!forget|worry|push|bother|mind|stop|you)\w+|\bwhy (is|are|does|do|did|was) (the|there|
it|this|that|these)\b|^(and |but |so |hm )?(shouldnt|isnt|arent|wasnt|doesnt|didnt|werent|couldnt|wouldnt) (it|this|
that|the|you|we|i|they|\w+ (in|a|an|the))\b|\b(fehlt|fehlen|falsch|kaputt|sondern|il manque|cest faux|falta|faltan|
deberia|brakuje|sbagliat\w|manca|errad\w|ontbreekt|verkeerd)\b|\b(geht|stimmt|klappt|passt|lauft|funktioniert|
kompiliert|startet) (\w+ )?nicht\b|\b(no|nao|non) (compila|funciona|funziona|va|anda|es|era|sirve|e)\b|\b(ne|
n) ?\w+ pas\b|^c\w+ pas\b|\bnie (dziala|to)\b
""")
# How a request begins that may be about something else.
_REQUEST = _join(r"""
((ok|okay|hi|hey|hello|please|pls|so|now|and|also) )*((find|write|explain|fix|add|make|create|compare|look|check|show|
list|give|draft|generate|convert|build|set|sort|summari[sz]e|translate|review|estimate|implement|plan|need|tell|remind|
search|test|debug|investigate)|i (need|have|want|am|get)|im|my|our|customers?|users?|people|someone|we (have|need|
want)|how|what|when|which|who|where|why|is|are|do|does|isnt there|arent there|can|could|would|theres?|here|heres|
never mind|the (\w+ )?(job|page|server|app|site|build|pipeline))\b
""")
# A question about the answer, or a wish for it.
_ABOUT_IT = _join(r"""
(and |so |ok )*(why|how|is|are|i) (is|are|does|do|did|was|this|that|it|the|there|am|get|want it)\b
""")
_UNSURE = _join(r"""
\b(curious|explain|understand|preference|in general|general|works?|all of a sudden|out of interest|how do i|how can i|
my new|here is|heres|any idea)\b
""")
_TYPOS = {word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]: word
          for word in (*_GOOD, "wrong") for at in range(1, len(word)) if len(word) >= 4}  # fmt: skip
_TYPOS |= {word[:at] + word[at + 1 :]: word for word in _GOOD for at in range(1, len(word) - 1) if len(word) >= 6}
_TYPOS = {typo: word for typo, word in _TYPOS.items() if typo not in _GOOD}
_IS_YES = re.compile("yes|yep|ja,|oui|si,")
_SIGN = re.compile("^\\+1$|[👍👎🎉✅👌🙏😡]")
_MAX_SIGN = 12
# Scripts without spaces, and Cyrillic.
_FAR_GOOD = _join(r"""
谢谢|感谢|多谢|很好|太好|完美|不错|可以了|没问题|搞定|ありがと|完璧|素晴|助かり|動きました|直りました|고마|감사|완벽|좋아|спасибо|отлично|супер|работает
""")
_FAR_BAD = _join(r"""
不对|不是|错|没有|缺|应该|不要|但|違|ちが|間違|ません|ではな|てください|落ちて|失敗|아니|틀렸|\bне\b|\bнет\b|неправ|ошиб|\bно\b
""")
_POINTS_BACK = _join(r"""
\b(it|its|this|that|thats|these|those|them|they|same|also|too|instead|das|es|dies\w*|ca|cela|eso|esto|isso)\b
""")


def label_reaction(text: str, answer: str = "") -> Label:
    """What a message says of the `answer` before it: `redo` asks for another try, `unrelated` begins something else."""
    plain = unicodedata.normalize("NFKD", text[:MAX_CHARACTERS].lower().replace("ł", "l"))
    plain = re.sub("[\u0300-\u036f'’`]", "", plain).strip()
    plain = unicodedata.normalize("NFC", plain)
    if sign := _SIGN.search(plain):
        return "accepted" if len(plain) <= _MAX_SIGN and sign[0] not in "👎😡" else "unknown"
    is_other, is_unsure = bool(_OTHER_TOPIC.search(plain)), bool(_UNSURE.search(plain))
    if _FAILED.search(plain):
        return "unknown" if is_unsure or is_other else "rejected"
    is_far, is_far_bad = bool(_FAR_GOOD.search(plain)), bool(_FAR_BAD.search(plain))
    if is_far or is_far_bad:
        is_clear = is_far != is_far_bad and not (is_other or _AGAIN.search(plain))
        return "unknown" if not is_clear else "accepted" if is_far else "rejected"
    plain = _DENIED.sub("flawless", _PASSED.sub("flawless", _OF_A_PLAN.sub("ok", plain)))
    # Two letters that changed places, or one that is missing.
    plain = re.sub(r"[^\W\d_]{4,}", lambda word: _TYPOS.get(word[0], word[0]), plain)
    clauses = [" ".join(_words(part)) for part in re.split(r"[.!?,;:\n()]+|\s[-–—]+\s", plain)]
    clauses = [clause for clause in clauses if clause]
    words, praise = " ".join(clauses), [_praise(clause) for clause in clauses]
    # Clauses at the beginning that praise, or say nothing; then there is the rest.
    n_first = praise.index(None) if None in praise else len(praise)
    is_praised, rest = any(praise[:n_first]), clauses[n_first:]
    is_request = bool(_REQUEST.match(words)) and not is_praised
    is_wrong = _WRONG.search(plain) or (_FAULTY.search(plain) and (not is_request or _ABOUT_IT.match(words)))
    contrast = _CONTRAST.search(plain)
    is_again = _AGAIN.search(words) and len(_AGAIN.sub(" ", words).split()) <= _MAX_REDO
    if is_again and not (_WRONG.search(words) or contrast):
        return "redo"
    if _WITHDRAWN.search(words):
        return "accepted"
    if contrast and not is_request:
        before, after = set(_words(plain[: contrast.start()])), set(_words(plain[contrast.end() :]))
        if before & _GOOD and not after & _GOOD:
            return "rejected"
    # Of what a person was asked, "no" and "yes" are answers.
    was_asked = answer.rstrip().endswith("?")
    if not rest:
        return "accepted" if (is_praised or _KEEP.search(words)) and not was_asked else "unknown"
    if is_wrong and not (is_unsure or _IS_YES.match(plain) or (was_asked and plain.startswith("no"))):
        return "rejected"
    if "flawless" in words and not _BAD.search(words) and "?" not in plain:
        return "accepted"
    if is_praised:
        tail = " ".join(rest)
        is_next = _NEXT.match(tail) or _MOVES_ON.match(tail) or _OTHER_TOPIC.search(tail) or praise[-1]
        return "accepted" if is_next and not _BAD.search(rest[0]) else "unknown"
    ends_well = _KEEP.search(words) or (praise[-1] and len(rest) > 1 and "?" not in plain)
    if ends_well and not (is_wrong or is_request):
        return "accepted"
    return "unrelated" if is_other else "continues" if _NEXT.match(words) else "unknown"


def stands_alone(text: str) -> bool:
    """Whether a message may be a task of its own: long enough, and its beginning does not point back."""
    words = text[:MAX_CHARACTERS].lower().split()
    return len(words) >= _LONG and not _POINTS_BACK.search(" ".join(words[:_LONG]))


def _praise(clause: str) -> bool | None:
    """True for a clause that praises, False for one that says nothing, None for all others."""
    words = clause.split()
    n_other = sum(word not in _GOOD and word not in _MILD for word in words)
    is_good = not _GOOD.isdisjoint(words)
    return None if _BAD.search(clause) or n_other > (_MAX_OTHER if is_good else 0) else is_good
