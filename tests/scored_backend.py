"""A scripted model that reports log-probabilities."""

from stretto.backends.base import Capabilities, Chunk
from stretto.testing import ScriptedBackend
from stretto.values.token_records import TokenLogprob


class ScoredBackend(ScriptedBackend):
    """Every token of an answer has the same log-probability; ``scores`` has others by words of the question."""

    def __init__(self, script, logprob=-0.1, *, name="own:small", scores=None, **able):
        super().__init__(script, name=name, capabilities=Capabilities(logprobs=True, **able))
        self.logprob, self.scores = logprob, scores or {}

    async def _chunks(self, prompt, options, reply):
        asked = prompt.messages[-1].content
        logprob = next((score for words, score in self.scores.items() if words in asked), self.logprob)
        async for chunk in super()._chunks(prompt, options, reply):
            wanted = chunk.text and options.logprobs is not None
            scores = (TokenLogprob(token=chunk.text, logprob=logprob),) if wanted else ()
            yield Chunk(chunk.text, chunk.usage, chunk.finish_reason, logprobs=scores)
