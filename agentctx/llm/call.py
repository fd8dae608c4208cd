"""One LLM call as the injector sees it: what its body asks for, and the body with its blocks. No I/O."""

from __future__ import annotations

from typing import Protocol, TypeVar

from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.content import Body
from agentctx.llm.injection import InjectionPlan, InjectionRequest, inject, injection_request, plan
from agentctx.wire.protocol import InjectionPosition

B_co = TypeVar("B_co", covariant=True)


class ModelCall(Protocol[B_co]):
    """A call whose body is parsed where that blocks no other request. Call `read` before `inject`.

    Both may raise anything; the call then goes out unchanged.
    """

    @property
    def body(self) -> B_co:
        """The original body."""

    async def read(self) -> InjectionRequest: ...

    async def inject(self, position: InjectionPosition, given: Conversation, new: str | None) -> B_co:
        """Return the body with its blocks, or the same object if no block is added."""


class ParsedCall:
    """A `ModelCall` on a body that is already parsed."""

    def __init__(self, dialect: Dialect, body: Body) -> None:
        self._dialect = dialect
        self._plan: InjectionPlan | None = None
        self.body = body

    async def read(self) -> InjectionRequest:
        return self.asked()

    async def inject(self, position: InjectionPosition, given: Conversation, new: str | None) -> Body:
        return self.with_blocks(position, given, new)

    def asked(self) -> InjectionRequest:
        """Synchronous version of `read`."""
        planned = self._plan = plan(self._dialect, self.body)
        return injection_request(self._dialect, self.body, planned)

    def with_blocks(self, position: InjectionPosition, given: Conversation, new: str | None) -> Body:
        """Synchronous version of `inject`."""
        planned = self._plan or plan(self._dialect, self.body)
        return inject(self._dialect, self.body, position=position, planned=planned, given=given, new=new)
