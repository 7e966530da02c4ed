"""One question, one answer; the embedded model, no key, no network."""

from stretto import Stretto

with Stretto("local:pocket") as stretto:
    answer = stretto.ask("How do I look after a bicycle?")
    print(answer)
    print(answer.route.reason)
    print(f"{answer.timeline.total_s:.2f} s, {answer.usage.completion_tokens} tokens in {answer.usage.calls} calls")
