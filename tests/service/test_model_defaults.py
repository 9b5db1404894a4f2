"""Sampling parameters that a request leaves open are those that its model's checkpoint states."""

from __future__ import annotations

import pytest

from inference.messages import AskedSampling, Sampling
from tests.service.cast import principal
from tests.service.work import make_worker
from webtrace import journey
from webtrace.accounts.models import User
from webtrace.api.openai import DEFAULTS
from webtrace.client_events import ResponseCreate
from webtrace.conversations.models import Response
from webtrace.dispatch.models import Worker
from webtrace.gateway.incoming import Incoming
from webtrace.pages.views import _models

STATED = {"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.1}


def worker(name: str, place: int, stated: dict[str, float]) -> None:
    Worker.objects.filter(pk=make_worker(name).pk).update(model=name, model_info={"place": place, "sampling": stated})


def kept(owner: User, model: str, asked: AskedSampling, defaults: Sampling) -> Sampling:
    """The parameters that the worker reads of this request."""
    Response.objects.all().delete()
    message = ResponseCreate("e", "Tell me one", model=model, sampling=asked)
    outcome = journey._admit(Incoming(message, "websocket", "{}", (), False, defaults), principal(owner), True)
    assert isinstance(outcome, journey.Admitted), outcome
    stored = Response.objects.get(pk=outcome.response_id).sampling
    return Sampling(**{name: value for name, value in stored.items() if name != "seed"})


@pytest.mark.django_db
@pytest.mark.parametrize("defaults", [Sampling(), DEFAULTS])
def test_what_is_left_open_is_as_the_model_has_it(owner: User, defaults: Sampling) -> None:
    worker("second", 1, {"top_p": 0.5})
    worker("first", 0, STATED)
    assert [model["sampling"] for model in _models()] == [STATED, {"top_p": 0.5}], "and a page is told of it"
    expected = {name: getattr(defaults, name) for name in Sampling.__struct_fields__}
    asked = AskedSampling(top_k=0, temperature=1.5)
    assert kept(owner, "auto", AskedSampling(), defaults) == Sampling(**expected | STATED)
    assert kept(owner, "first", asked, defaults) == Sampling(**expected | STATED | {"top_k": 0, "temperature": 1.5})
    assert kept(owner, "second", AskedSampling(), defaults) == Sampling(**expected | {"top_p": 0.5})
