"""Choose the turns of a conversation that are worth remembering, and the text to keep. No I/O.

A turn is kept if the user states a fact, or if the answer contains something specific: a reason, a decision,
a rule, a name or a number. Acknowledgements, announcements of the next step, requests without a fact, dumps
of files and output, and messages from the client itself are not kept.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from agentctx.agents.hooks.injected_text import without_injected

Part = Literal["prompt", "answer"]
MAX_PROMPT_CHARS: Final = 2_000
MAX_ANSWER_CHARS: Final = 6_000
_FENCE: Final = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_MAX_FENCED_LINES: Final = 6
"""A shorter snippet is part of the statement; a longer one is a file or output."""
_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MIN_CHARS: Final = 24
_MIN_CJK: Final = 8


def remembered_parts(prompt: str, answer: str, *, is_typed: bool = False) -> dict[Part, str]:
    """Return what to remember: a question with its answer, and plain statements only if typed."""
    prompt, answer = _prose(without_injected(prompt)), _prose(without_injected(answer))
    if CLIENT.match(answer) or CLIENT.match(prompt):
        return {}
    parts: dict[Part, str] = {}
    question = f"User: {prompt[:MAX_PROMPT_CHARS]}" if prompt else ""
    if _states(prompt, is_typed=is_typed):
        parts["prompt"], question = question, ""
    if _informs(answer):
        parts["answer"] = f"{question}\n\nAssistant: {answer[:MAX_ANSWER_CHARS]}".strip()
    return parts


def _prose(text: str) -> str:
    """Remove long code blocks and runs of dumped lines from the text."""
    most = _MAX_FENCED_LINES + 1
    lines = _FENCE.sub(lambda match: match[0] if match[0].count("\n") <= most else "", text).split("\n")
    dumped = [bool(DUMPED.match(line)) for line in lines]
    kept = [
        line for at, line in enumerate(lines) if not dumped[at] or sum(dumped[max(0, at - 3) : at + 4]) < 4
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _states(prompt: str, *, is_typed: bool) -> bool:
    """Return whether the user states something that holds beyond this turn."""
    return any(
        _is_long_enough(sentence)
        and not sentence.rstrip("\u3002 ").endswith(("?", "\uff1f", "か"))
        and not REQUEST.match(sentence)
        and bool(WEIGHTY.search(sentence) or (is_typed and _declares(sentence)))
        for sentence in _sentences(prompt)
    )


def _declares(sentence: str) -> bool:
    """Return whether a sentence is a statement, and not about the moment."""
    is_else = PASSING.search(sentence) or OFFER.search(sentence) or ANNOUNCEMENT.match(sentence)
    return bool(DECLARATIVE.search(sentence)) and not (is_else or STATUS.match(sentence))


def _informs(answer: str) -> bool:
    """Return whether the answer says something specific."""
    weight = 0
    for sentence in _sentences(answer):
        if not _is_long_enough(sentence) or sentence.rstrip().endswith(("?", "\uff1f", ":", "\uff1a")):
            continue
        if ANNOUNCEMENT.match(sentence) or OFFER.search(sentence):
            continue
        weighty, specific = bool(WEIGHTY.search(sentence)), bool(SPECIFIC.search(sentence))
        if STATUS.match(sentence) and not weighty:
            continue
        weight += 2 * weighty + specific + 1
    return weight >= 2


def _sentences(text: str) -> list[str]:
    stripped = (re.sub(r"^[\s>*#\-•\d.)]+", "", each) for each in _SENTENCE.split(text))
    return [each for each in stripped if each]


def _is_long_enough(sentence: str) -> bool:
    return len(sentence) >= _MIN_CHARS or len(_CJK.findall(sentence)) >= _MIN_CJK


CLIENT: Final = re.compile(
    r"^(?:\[request interrupted|api error|error: \d{3}|caveat:|conversation compacted|no response requested|"
    r"this session is being continued|prompt is too long|credit balance|claude ai usage limit|"
    r"please run /login|invalid api key|stream (?:error|disconnected)|\(no content\)|continue from where)",
    re.IGNORECASE,
)
"""Messages from the client itself."""
ANNOUNCEMENT: Final = re.compile(
    r"^(?:(?:ok(?:ay)?|sure|alright|great|perfect|good|now|first|next|so|right|understood|certainly|"
    r"of course|klar|gut|alles klar|d'accord|bien|vale|claro|perfecto|хорошо|好的|はい|わかりました|"
    r"了解)[,.!:\uff0c\u3002\uff01\u3001 ]+)*(?:i['\u2019]ll|i will|i['\u2019]m (?:going to|now)|"
    r"i am (?:going to|now)|let me|let['\u2019]s|let us|i(?: can)? start|starting|i need to (?:see|look|"
    r"check|read|find)|reading|running|checking|looking|searching|working on|waiting|fetching|opening|"
    r"(?:here|this) (?:is|are|['\u2019]s) (?:the|your|my)|here['\u2019]s|below (?:is|are)|as requested|"
    r"ich (?:werde|schaue|sehe|prüfe|lese|starte|beginne|führe|öffne|suche)|lass mich|schauen wir|"
    r"jetzt (?:schaue|prüfe|lese)|je (?:vais|regarde|commence|lis|vérifie|lance)|laisse[- ]moi|voyons|voici|"
    r"voy a|déjame|vamos a|empiezo|estoy|aquí (?:está|tienes)|primero (?:voy|leo)|vou|deixe[- ]me|aqui está|"
    r"ora (?:leggo|guardo)|vado a|fammi|ecco|сейчас|давайте|я (?:посмотрю|проверю|начну|прочитаю|запущу)|"
    r"вот|我(?:来|先|会|将|现在|马上)|让我|现在我|以下是|まず|これから|では|確認します|次に|以下)",
    re.IGNORECASE,
)
"""Announcements of the agent's next step."""
OFFER: Final = re.compile(
    r"(?:let me know|feel free|happy to help|glad (?:i|to)|hope (?:this|that)|anything else|would you like|"
    r"do you want|shall i|should i (?:go|proceed|continue|also)|want me to|how can i (?:help|assist)|"
    r"what would you like|ready (?:to help|when you)|you['\u2019]re (?:welcome|right|absolutely)|"
    r"good (?:catch|question|point|idea)|great (?:question|idea)|sorry|apologi[sz]e|sounds good|no problem|"
    r"my pleasure|i understand|makes sense|thank|sag(?:en sie)? (?:mir )?bescheid|kann ich (?:sonst|noch|"
    r"ihnen|dir)|soll ich|möchtest du|möchten sie|gern geschehen|entschuldig|n['\u2019]hésite|souhaite[sz]|"
    r"voulez-vous|veux-tu|de rien|désolé|avec plaisir|dis-moi|dites-moi|avísame|quieres que|desea|de nada|"
    r"lo siento|perdón|con gusto|dime si|me avise|quer que|desculp|fammi sapere|vuoi che|prego|scusa|"
    r"дайте знать|обращайтесь|хотите|пожалуйста|извините|请告诉我|需要我|不客气|抱歉|还有什么|有什么可以|"
    r"お知らせください|どういたしまして|申し訳|よろしい)",
    re.IGNORECASE,
)
"""Courtesies and offers."""
STATUS: Final = re.compile(
    r"^(?:(?:it['\u2019]?s |that['\u2019]?s |everything(?:['\u2019]s| is) |all )?(?:done|finished|"
    r"complete[d]?|fixed|ready|committed|pushed|saved|set)\b|(?:all )?(?:\d+ )?(?:unit |the )?(?:tests?|"
    r"checks?|suite) (?:all )?(?:pass|passed|now pass|are (?:green|passing)|succeed)|"
    r"(?:the )?build (?:passes|"
    r"succeed|is green)|\d+ (?:passed|tests? passed)|no (?:issues|errors|problems) (?:were )?found|lint(?:er|"
    r"ing)? (?:is clean|passes)|the (?:file|files|changes?|code|function|tests?|documentation|readme|script|"
    r"config) (?:has|have) been \w+\W*$|i(?:['\u2019]ve| have) (?:now )?(?:made|finished|completed|"
    r"updated|applied|committed|pushed|fixed|done|created|added|removed|cleaned|formatted|renamed)\b|"
    r"(?:alles |ist )?(?:fertig|erledigt|gemacht)|alle (?:\d+ )?tests|ich habe (?:alles|die änderung|das)|"
    r"c['\u2019]est (?:fait|bon)|terminé|j['\u2019]ai (?:fini|terminé|mis à jour|fait)|tous les tests|listo|"
    r"hecho|he (?:terminado|actualizado|hecho)|todos los|todas las|pronto|feito|fatto|готово|сделано|"
    r"все тесты|已?完成|好了|搞定|所有测试|完了しました|できました|修正しました|すべてのテスト)",
    re.IGNORECASE,
)
"""Reports that something is done, without saying what or why."""
WEIGHTY: Final = re.compile(
    r"\b(?:every|each|daily|weekly|monthly|jede[nrs]?|chaque|cada|ogni|кажд\w+|because|since the|due to|"
    r"reason|caused?|root cause|the cause|so that|otherwise|instead of|rather than|unless|therefore|"
    r"means that|decid\w*|decision|agreed|chose|choose|always|never|must(?:n['\u2019]t)?|only|required?|"
    r"not allowed|forbidden|prefers?|preferred|rule|convention|policy|deadline|owner|owns|responsible|"
    r"expires?|limit(?:ed)?|depends on|breaks|broke|deprecated|migrat\w+|switch(?:ed)? to|replaced|"
    r"use[sd]? \S+ for|remember|from now on|already tried|we tried|don['\u2019]t|do not|avoid|"
    r"works? (?:only|if|when|with)|weil|damit|sonst|statt|grund|ursache|entschieden|beschlossen|immer|"
    r"niemals|nie|muss|müssen|darf|dürfen|nur|bevorzug\w+|regel|frist|liegt an|läuft (?:ab|auf|nur)|kein\w*|"
    r"parce que|car|puisque|afin|sinon|au lieu|raison|cause|décid\w+|toujours|jamais|doit|doivent|faut|"
    r"seulement|uniquement|préfér\w+|règle|expire|ne (?:pas|jamais)|porque|ya que|para que|si no|en lugar|"
    r"en vez|motivo|causa|decid\w+|siempre|nunca|debe\w*|hay que|solo|sólo|prefier\w+|regla|caduca|vence|"
    r"perché|poiché|invece|motivo|deciso|sempre|mai|deve|devono|solo|preferi\w+|regola|scade|pois|em vez|"
    r"decidi\w+|sempre|somente|apenas|regra|потому|поскольку|чтобы|иначе|вместо|причин\w+|решили|решено|"
    r"всегда|никогда|нужно|нельзя|должн\w+|только|предпочита\w+|правил\w+|истекает)\b|因为|由于|所以|否则|"
    r"而不是|原因|决定|总是|必须|不能|不要|只能|只|优先|规则|过期|因此|ため|ので|から|代わりに|理由|原因|"
    r"決め|決定|必ず|常に|だけ|のみ|禁止|ルール|期限|しないで|してください|때문|항상|절대|반드시|결정|만 ",
    re.IGNORECASE,
)
"""Reasons, decisions, rules, limits, preferences."""
DECLARATIVE: Final = re.compile(
    r"^(?:we|our|my|i|all|no|keep|ask)\b|\b(?:is|are|was|were|has|have|can|will|should|needs?|uses?|runs?|"
    r"lives?|belongs?|supports?|takes?|gets?|goes|keeps?|stays?|means?|contains?|costs?|drops|changes|ist|sind|"
    r"hat|haben|gilt|gelten|wird|werden|liegt|läuft|heißt|est|sont|ont|reste\w*|utilise\w*|es|son|está\w*|"
    r"tiene\w*|usamos|è|sono|ha|hanno|é|são|tem|fica|это|есть|находится)\b|[是在有]|です|ます|다\b",
    re.IGNORECASE,
)
"""Beginnings and verbs of statements."""
PASSING: Final = re.compile(
    r"\b(?:now|still|again|just|yet|today|currently|fail\w*|broken|wrong|crash(?:es|ed)|did|does|looks?|seems?|"
    r"thanks?|great|nice|perfect|cool|jetzt|noch|wieder|gerade|heute|danke|merci|encore|maintenant|gracias|"
    r"ahora|todavía|grazie|ancora|obrigad\w|ainda|agora|сейчас|ещё|опять|спасибо)\b|现在|还是|谢谢|まだ|今",
    re.IGNORECASE,
)
"""Words about the moment, or about what the agent did."""
SPECIFIC: Final = re.compile(
    r"`[^`\n]{2,}`|[\"“«「][^\"”»」\n]{3,}[\"”»」]|\b\w+[_./:-]\w+[\w_./:-]*\b|\b[a-z]+[A-Z]\w+\b|"
    r"\b[A-Z]{2,}\d*\b|\d"
)
"""Names, figures, quotations, code."""
REQUEST: Final = re.compile(
    r"^(?:(?:ok(?:ay)?|please|pls|now|and|then|also|great|thanks|cool|hey|hi|hello|so|bitte|und|dann|"
    r"s'il te plaît|por favor|per favore|пожалуйста|请|帮我)[,.!\uff0c ]*)*(?:can|could|would|will|how|what|"
    r"why|where|when|who|which|is|are|does|do you|did|show|list|print|open|read|run|fix|add|write|create|"
    r"make|update|change|implement|refactor|explain|check|look|find|search|delete|remove|rename|tell|give|"
    r"help|try|test|commit|push|continue|go|proceed|review|summari[sz]e|translate|generate|build|start|stop|"
    r"move|install|format|clean|debug|improve|optimi[sz]e|kannst|könntest|wie|was|warum|wo|wann|wer|welche|"
    r"zeig|lies|führe|schreib|erstelle|mach|prüfe|erkläre|füge|lösche|such|teste|peux|pourrais|comment|quoi|"
    r"que |qu['\u2019]|pourquoi|où|quand|qui|quel|montre|lis|lance|corrige|ajoute|écris|crée|explique|"
    r"vérifie|supprime|cherche|puedes|podrías|cómo|qué|por qué|dónde|cuándo|quién|cuál|muestra|lee|ejecuta|"
    r"arregla|añade|agrega|escribe|crea|explica|revisa|borra|busca|pode|como|o que|onde|quando|mostra|leia|"
    r"mostre|puoi|cosa|perché|dove|leggi|esegui|scrivi|можешь|как|что|почему|где|когда|покажи|прочитай|"
    r"запусти|исправь|добавь|напиши|проверь|объясни|怎么|什么|为什么|哪|看|读|运行|修复|写|检查|解释|"
    r"添加)(?:\b|(?<=[\u3040-\u9fff]))",
    re.IGNORECASE,
)
"""Openings of requests and questions."""
DUMPED: Final = re.compile(
    r"^\s*(?:[{}\[\]();]|[-drwx]{10}\s|[\w./-]+:\d+[: ]|\d+[:|→\t]|(?:import|from|def|class|return|const|"
    r"let|var|function|public|private|#include|package|use|fn|pub|func|export|if|for|while|else|try|except|"
    r"catch|SELECT|INSERT|CREATE)\b.*[:;{(,)]?\s*$|[+-]{1,3}[^\s-]|@@ |diff --git|at [\w.$]+\(|"
    r"\d{4}-\d\d-\d\d[ T]\d\d:|\[?\d\d:\d\d:\d\d|(?:INFO|DEBUG|WARN|ERROR|TRACE)\b|\"[^\"]+\":|"
    r"[\w.-]+ *= *\S|\$ |>>> |\|.*\||[├└│])"
)
"""Lines of files and program output."""
