"""Every message a client may send on the WebSocket, as types."""

from __future__ import annotations

from typing import Literal

import msgspec

from inference.messages import AskedSampling

Role = Literal["system", "developer", "user", "assistant", "tool"]


class InputMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Role
    content: str


class StepPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Right after this step's token has been chosen; steps count from 0."""

    step: int


class Branch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another answer to the prompt of `response_id`: the same tokens before `step`, `token` at it, then new ones."""

    response_id: str
    step: int
    token: int


Breakpoint = str | StepPoint  # a stage's slug: right after the stage has been reported


class ResponseCreate(msgspec.Struct, frozen=True, tag="response.create", forbid_unknown_fields=True):
    """Ask for an answer. Only `event_id` and `input` are required.

    `model` is "auto" or a model's name; `trace` false leaves out the trace events; `parent_id` names the message
    the new one answers under (null: the newest of the conversation). At each of `breakpoints` (stages by their slug,
    steps) the response is held until `response.continue`, others running on. A stage inside the model holds after
    step 0, as it stands, one that is reported at the end, there.

    With an empty list as `input` the message that `parent_id` names is answered again, and with a `branch` the one
    that the branched response answered: the answer becomes a version beside the ones before.
    """

    event_id: str
    input: str | list[InputMessage]
    conversation_id: str | None = None
    instructions: str | None = None
    model: str = "auto"
    sampling: AskedSampling = AskedSampling()
    retrieval: bool = False
    trace: bool = True
    parent_id: str | None = None
    breakpoints: list[str | StepPoint] = []
    branch: Branch | None = None


class ResponseCancel(msgspec.Struct, frozen=True, tag="response.cancel", forbid_unknown_fields=True):
    event_id: str
    response_id: str


class ResponseResume(msgspec.Struct, frozen=True, tag="response.resume", forbid_unknown_fields=True):
    """Watch a response (again): every event after (`epoch`, `after`) is sent, then live ones."""

    event_id: str
    response_id: str
    epoch: int = 0
    after: int = 0


class ResponseContinue(msgspec.Struct, frozen=True, tag="response.continue", forbid_unknown_fields=True):
    """Leave a hold. `until` names where to hold next: "next" is the next stage or step, a stage or step further on is
    one more breakpoint, and "end" holds nowhere any more. Breakpoints that lie before it hold as well; `breakpoints`
    take the place of those there were (null: they stay)."""

    event_id: str
    response_id: str
    until: str | StepPoint = "next"
    breakpoints: list[str | StepPoint] | None = None


class TraceWatch(msgspec.Struct, frozen=True, tag="trace.watch", forbid_unknown_fields=True):
    """Send `trace.attention` of one head while the response grows, to this socket alone. Another watch takes the place
    of the one before; without a layer and head it ends."""

    event_id: str
    response_id: str
    layer: int | None = None
    head: int | None = None


ClientMessage = ResponseCreate | ResponseCancel | ResponseResume | ResponseContinue | TraceWatch
