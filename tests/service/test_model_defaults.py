"""Sampling parameters that a request leaves open are those that its model's checkpoint states."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.messages import AskedSampling, Sampling
from tests.service.cast import principal
from tests.service.work import make_worker, take
from webtrace import journey
from webtrace.accounts.models import User
from webtrace.api.openai import DEFAULTS
from webtrace.client_events import ResponseCreate
from webtrace.conversations import log, services
from webtrace.conversations.models import Response
from webtrace.dispatch import jobs
from webtrace.dispatch.models import Worker
from webtrace.gateway.incoming import Incoming
from webtrace.pages.views import _models

STATED = {"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.1}


def worker(name: str, place: int, stated: dict[str, float]) -> Worker:
    Worker.objects.filter(pk=make_worker(name).pk).update(model=name, model_info={"place": place, "sampling": stated})
    return Worker.objects.get(pk=name)


def kept(owner: User, model: str, asked: AskedSampling, defaults: Sampling) -> Sampling:
    """The parameters that are kept of this request."""
    return unseeded(admitted(owner, model, asked, defaults).sampling)


def admitted(owner: User, model: str, asked: AskedSampling, defaults: Sampling) -> Response:
    Response.objects.all().delete()
    message = ResponseCreate("e", "Tell me one", model=model, sampling=asked)
    outcome = journey._admit(Incoming(message, "websocket", "{}", (), False, defaults), principal(owner), True)
    assert isinstance(outcome, journey.Admitted), outcome
    return Response.objects.get(pk=outcome.response_id)


def unseeded(stored: dict[str, Any]) -> Sampling:
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


@pytest.mark.django_db
@pytest.mark.parametrize("defaults", [Sampling(), DEFAULTS])
@pytest.mark.parametrize("known", [None, {"top_p": 0.5, "temperature": 0.3}])
def test_what_is_left_open_is_as_the_model_that_answers_has_it(
    owner: User, defaults: Sampling, known: dict[str, float] | None
) -> None:
    """Where no worker, or only one with another model, was known when the request was admitted."""
    if known is not None:
        worker("known", 0, known)
    response = admitted(owner, "auto", AskedSampling(top_k=7, seed=3), defaults)
    expected = {name: getattr(defaults, name) for name in Sampling.__struct_fields__} | {"top_k": 7}
    assert unseeded(response.sampling) == Sampling(**expected | (known or {}))

    taken = take(response, worker("taker", 1, STATED))
    told = json.loads(log.read(response.pk)[-1].text)
    response.refresh_from_db()
    assert unseeded(response.sampling) == Sampling(**expected | STATED | {"top_k": 7})
    assert response.sampling["seed"] == 3
    assert taken.response.sampling == response.sampling == told["sampling"], "what is computed with is what is told"
    assert response.conversation is not None
    assert response.conversation.sampling == response.sampling, "and its conversation goes on with it"


@pytest.mark.django_db
def test_a_conversation_keeps_what_its_newest_request_asked_for(owner: User) -> None:
    response = admitted(owner, "auto", AskedSampling(), Sampling())
    assert response.conversation is not None
    newest = {**response.conversation.sampling, "temperature": 1.5}
    type(response.conversation).objects.update(sampling=newest)
    take(response, worker("taker", 0, STATED))
    response.refresh_from_db()
    assert response.sampling["temperature"] == STATED["temperature"]
    assert response.conversation.sampling == newest


@pytest.mark.django_db
def test_another_answer_leaves_open_what_its_own_request_does(owner: User) -> None:
    first = admitted(owner, "auto", AskedSampling(top_k=7), Sampling())
    again, _ = services.start_response(
        owner=owner,
        message=ResponseCreate(
            "again", [], conversation_id=str(first.conversation_id), parent_id=str(first.user_message_id),
            sampling=AskedSampling(temperature=1.5),
        ),
        sampling=Sampling(temperature=1.5, seed=1),
        transport="websocket",
    )  # fmt: skip
    jobs.enqueue(again, asked_from="192.0.2.1")
    settled = take(again, worker("taker", 0, STATED)).response.sampling
    assert (settled["temperature"], settled["top_k"]) == (1.5, STATED["top_k"])
