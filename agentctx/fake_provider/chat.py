"""Chats: the answers, and the conversations that the vendor stores."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping

from agentctx.fake_provider.answers import FakeAnswer, echo
from agentctx.fake_provider.dialects.base import ChatEndpoint
from agentctx.fake_provider.exchange import FakeExchange
from agentctx.fake_provider.requests import Payload

_ID_DIGITS = 24
_KEPT_CONVERSATIONS = 1_000


class Chat:
    """Answer chat requests. `clock` returns milliseconds since the epoch."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Drop the stored conversations."""
        self._conversations: OrderedDict[str, list[Payload]] = OrderedDict()

    def exchange(
        self,
        provider: str,
        endpoint: ChatEndpoint,
        body: Payload,
        *,
        model: str,
        query: Mapping[str, str],
        choose: Callable[[], FakeAnswer | None],
    ) -> FakeExchange:
        """Return the reply to a request. For a valid request, `choose` is called for the scripted answer.

        Raises:
            Rejected: the vendor would refuse the request.
        """
        whole = endpoint.recall(body, self._conversations) if endpoint.recall else body
        request = endpoint.read(whole, model, query)
        request_id = digest(body)
        answer = FakeAnswer() if request.is_silent else choose() or echo(request.last_text, request.images)
        exchange = FakeExchange(request, _with_ids(answer, provider, request_id), request_id, self._clock())
        self._store(endpoint, exchange)
        return exchange

    def _store(self, endpoint: ChatEndpoint, exchange: FakeExchange) -> None:
        kept = endpoint.remember(exchange) if endpoint.remember else None
        if kept is None:
            return
        self._conversations[kept[0]] = kept[1]
        while len(self._conversations) > _KEPT_CONVERSATIONS:
            self._conversations.popitem(last=False)


def digest(body: Payload) -> str:
    """Hash the body, for use in ids: equal requests have equal ids."""
    raw = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode()
    return hashlib.sha256(raw).hexdigest()[:_ID_DIGITS]


def _with_ids(answer: FakeAnswer, provider: str, request_id: str) -> FakeAnswer:
    prefix = "toolu_" if provider == "anthropic" else "call_"
    calls = tuple(
        call if call.id else call.model_copy(update={"id": f"{prefix}{request_id}{number}"})
        for number, call in enumerate(answer.calls)
    )
    return answer.model_copy(update={"calls": calls})
