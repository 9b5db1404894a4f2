"""The people of the service tests, and short ways to make what they own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.test import Client

from inference.messages import Sampling
from webtrace.accounts.models import ApiKey, User
from webtrace.client_events import ResponseCreate
from webtrace.conversations import endings, log, services
from webtrace.conversations.endings import Ending
from webtrace.conversations.models import Response
from webtrace.events import ResponseCreated, TextDelta, Usage
from webtrace.gateway.principal import Principal
from webtrace.reporting import service_summaries

PASSWORD = "correct horse battery"


def make_user(name: str, password: str | None = None, **fields: Any) -> User:
    """Without a password unless one is given: hashing them is slow on purpose."""
    return User.objects.create_user(name, password=password, **fields)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def with_key(user: User) -> Client:
    """A program: no cookie, a key in the header."""
    _, key = ApiKey.make(user=user)
    return Client(headers={"Authorization": f"Bearer {key}"})


def principal(user: User, address: str = "192.0.2.1") -> Principal:
    return Principal(user, "guest" if user.is_guest else "user", address)


def make_response(owner: User, text: str = "A political joke.", **message: Any) -> Response:
    """A finished response in a conversation of its own, with a log of three events."""
    response, _ = services.start_response(
        owner=owner,
        message=ResponseCreate(event_id=f"e{Response.objects.count()}", **{"input": "Tell me one", **message}),
        sampling=Sampling(seed=1),
        transport="websocket",
    )
    numbering = log.Numbering(response.pk, log.START)
    lines = [
        numbering.line(ResponseCreated, **service_summaries.created(response, Sampling(seed=1))),
        numbering.line(TextDelta, delta=text),
    ]
    ending = Ending("stop", text, Usage(30, 5, 0))
    lines.append(endings.end_line(response_id=response.pk, place=log.Place(0, 3), ending=ending))
    assert endings.end_response(response_id=response.pk, epoch=0, lines=lines, ending=ending)
    response.refresh_from_db()
    return response


def path(response: Response, rest: str = "") -> str:
    return f"/api/v1/responses/{response.pk}{rest}"


def conversation_path(identifier: UUID | None, rest: str = "") -> str:
    return f"/api/v1/conversations/{identifier}{rest}"
