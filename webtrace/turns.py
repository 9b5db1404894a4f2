"""What a response's prompt is made of: instructions, the branch above it, and the messages its request brought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from webtrace.conversations import selectors
from webtrace.conversations.models import Response
from webtrace.prompt import Turn
from webtrace.reporting.service_reports import Source

SOURCES: dict[str, Source] = {
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "user": "user",
    "assistant": "history",
}


@dataclass(frozen=True)
class Turns:
    """What the prompt is made of. `to_judge`: all of it that this request brought and no model wrote, and the
    instructions, wherever they stand."""

    instructions: list[Turn]
    history: list[Turn]
    newest: list[Turn]
    to_judge: str


def turns_of(response: Response) -> Turns:
    """Instructions of the request or its conversation, the branch above it, and the messages it brought.

    Of the messages brought, leading system and developer ones are instructions and those up to the last answer are
    history, so that a client which sends everything each time gets the same prompt as a stored conversation.
    """
    asked = response.request
    instructions: list[Turn] = []
    text = asked["instructions"] or (response.conversation.instructions if response.conversation else "")
    if text:
        instructions.append(Turn("system", text, "system"))
    parent_id = asked["parent_id"]
    stored = selectors.branch(message_id=UUID(parent_id) if parent_id else None)
    written = selectors.written_tokens(messages=stored, model=response.model)
    history = [
        Turn(one.role, one.content, "history", str(one.pk), written.get(one.pk, ())) for one in stored if one.content
    ]
    given = [Turn(one["role"], one["content"], SOURCES[one["role"]]) for one in asked["input"]]
    while given and given[0].role in ("system", "developer"):
        instructions.append(given.pop(0))
    answers = [index for index, turn in enumerate(given) if turn.role == "assistant"]
    first_new = answers[-1] + 1 if answers else 0
    history += [replace(turn, source="history") for turn in given[:first_new]]
    brought = [one["content"] for one in asked["input"] if one["role"] != "assistant"]
    return Turns(instructions, history, given[first_new:], "\n\n".join([*filter(None, [text]), *brought]))
