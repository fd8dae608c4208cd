"""A server that speaks the wire formats of embedding, rerank and chat providers, for tests and users.

It returns the vectors of `FakeProvider`, so rankings are meaningful, and fails exactly as configured.

    async with running(dimension=64) as server:
        server.script(HttpFault.with_status(429, hint="seconds", after_s=2, request=1))
        server.answer(FakeAnswer(text="Hello."))
        client = AsyncOpenAI(base_url=server.base_url("openai"), api_key="any")
"""
