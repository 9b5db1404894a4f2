"""What a response's prompt is made of."""

from __future__ import annotations

from tests.service.cast import make_response
from tests.service.work import make_waiting
from webtrace.accounts.models import User
from webtrace.conversations.models import Response
from webtrace.turns import turns_of


def test_an_earlier_answer_comes_with_the_tokens_this_model_wrote_it_with(owner: User) -> None:
    first = make_response(owner)
    Response.objects.filter(pk=first.pk).update(token_ids=[1, 2, 3, 40, 50], num_prompt_tokens=3, model="tiny")
    second = make_waiting(owner, conversation_id=str(first.conversation_id))
    for model, written in (("tiny", (40, 50)), ("another", ())):
        second.model = model
        asked, answered = turns_of(second).history
        assert (asked.role, asked.token_ids) == ("user", ())
        assert (answered.role, answered.text, answered.token_ids) == ("assistant", first.text, written)
