"""Chatting in a real browser, against a service whose engine speaks a given text."""

from __future__ import annotations

import json
import os
import re
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SPOKEN, Open, ask, await_end, await_streaming, last_state
from tests.service.site import Site
from tests.service.test_kill import engine_of

pytestmark = pytest.mark.browser


def conversation_of(page: Page) -> dict[str, Any]:
    """What the service itself says of the open conversation, asked by the page's own session."""
    found = re.fullmatch(r"(.*)/c/([0-9a-f-]+)(#.*)?", page.url)
    assert found is not None
    reply = page.request.get(f"{found[1]}/api/v1/conversations/{found[2]}")
    assert reply.ok, reply.text()
    conversation: dict[str, Any] = reply.json()
    return conversation


@contextmanager
def held_engine(site: Site) -> Iterator[None]:
    """The engine stands still meanwhile."""
    engine = engine_of(site)
    os.kill(engine, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(engine, signal.SIGCONT)


def test_first_visit_says_what_will_be_seen_and_an_example_starts_it(site: Site, open_page: Open) -> None:
    page = open_page(site, width=360, height=640)
    expect(page.get_by_role("heading", name="Watch a language model answer")).to_be_in_viewport()
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator(".examples button").first).to_have_text("Tell me a political joke")
    page.locator(".examples button").first.click()
    expect(page.locator(".message-user .message-text")).to_have_text("Tell me a political joke")
    await_streaming(page)
    await_end(page)
    expect(page.locator(".answer-text.prose")).to_contain_text("That was all of it.")
    assert conversation_of(page)["messages"][1]["content"] == SPOKEN
    expect(page.locator(".rail-row > a")).to_have_text(["Tell me a political joke"])


WITHOUT_MODELS = """
  const parse = JSON.parse;
  JSON.parse = (text) => {
    const value = parse(text);
    return value?.num_models ? { ...value, models: [] } : value;
  };
"""  # what the page was given, as it is while a worker starts


def test_a_page_opened_before_a_model_is_loaded_says_so_and_fills_later(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "Hello")
    await_end(page)

    page.add_init_script(WITHOUT_MODELS)
    page.route("**/page/models", lambda route: route.fulfill(json={"models": []}))
    page.goto(re.sub("#.*", "", page.url) + "#stage=embeddings")
    page.reload()
    stage = page.locator("#stage-embeddings")
    expect(stage.locator(".stage-state")).to_contain_text("still being loaded")
    expect(stage.locator(".stage-sentence")).to_be_hidden()
    page.unroute("**/page/models")
    expect(stage).to_have_attribute("data-state", "done", timeout=30_000)
    expect(stage.locator(".stage-sentence")).to_contain_text("one row of a table")


def test_the_journey_fills_while_the_answer_comes(site: Site, open_page: Open) -> None:
    page = open_page(site)
    expect(page.locator(".station")).to_have_count(28)
    assert set(page.locator(".station").evaluate_all("all => all.map(one => one.dataset.state)")) == {"waiting"}
    ask(page, "hello")
    await_streaming(page)
    expect(page.locator("[data-slug=tokens]")).to_have_attribute("data-state", "done")
    expect(page.locator("[data-slug=storage]")).to_have_attribute("data-state", "waiting")
    expect(page.locator("[data-slug=append]")).to_have_attribute("data-state", "running")
    await_end(page)
    states = page.locator(".station").evaluate_all("all => all.map(one => one.dataset.state)")
    assert set(states) == {"done", "skipped"}
    assert page.locator("[data-slug=retrieval]").get_attribute("data-state") == "skipped"
    num_steps = len(page.locator(".answer-tokens .token").all())
    # The last step is the end token, which says nothing: the one before it is looked at.
    expect(page.locator(".scrubber-place")).to_have_text(f"step {num_steps - 2} of 0–{num_steps - 1}")


def test_stop_freezes_the_text_at_once_and_the_next_answer_is_its_own(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "first")
    await_streaming(page, 5)
    frozen = page.evaluate(
        """() => {
          document.querySelector(".composer-send button[type=button]").click();
          const field = document.getElementById("composer-input");
          field.value = "second";
          field.dispatchEvent(new Event("input"));
          return new Promise((resolve) => requestAnimationFrame(() => {
            const frozen = document.querySelector(".answer-text.growing").textContent;
            field.form.requestSubmit();
            resolve(frozen);
          }));
        }"""
    )
    expect(page.locator(".message-user")).to_have_count(2)
    await_end(page)
    messages = conversation_of(page)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    _, stopped, second, whole = messages
    assert stopped["response"]["finish_reason"] == "cancelled"
    assert SPOKEN.startswith(stopped["content"])
    assert frozen
    assert stopped["content"].startswith(frozen)
    assert len(stopped["content"]) < len(SPOKEN)
    assert second["parent_id"] == stopped["id"]
    assert whole["content"] == SPOKEN
    expect(page.locator(".answer-state").first).to_contain_text("Stopped")


def test_escape_stops(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_streaming(page, 3)
    with held_engine(site):
        search = page.get_by_label("Search conversations")
        search.fill("nothing")
        expect(page.locator(".rail-state")).to_contain_text("No conversation has")
        search.press("Escape")  # that is the search's own
        expect(search).to_have_value("")
        page.get_by_label("More for hello").click()
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Rename")).to_be_hidden()
        assert "Streaming" in last_state(page)
        page.get_by_label("Prompt", exact=True).focus()
        page.keyboard.press("Escape")  # a held engine catches up at once when it goes on: it must hear of it before
        expect(page.locator(".answer-state").last).to_contain_text("Stopping")
        conversation_of(page)  # what was sent before this is known to the service
    await_end(page, "Stopped")


def test_a_reload_in_the_middle_goes_on(site: Site, open_page: Open) -> None:
    page = open_page(site)
    page.get_by_title("Settings of the next answer").click()
    page.get_by_label("Temperature").fill("0.3")
    page.keyboard.press("Escape")
    ask(page, "hello")
    await_streaming(page, 20)
    with held_engine(site):  # however long the reload takes
        page.reload()
        await_streaming(page, 20)
        so_far = page.locator(".answer-text.growing").evaluate("node => node.textContent")
        assert so_far
        assert SPOKEN.startswith(so_far)
    await_end(page)
    expect(page.locator(".answer-text.prose")).to_contain_text("That was all of it.")
    assert conversation_of(page)["messages"][1]["content"] == SPOKEN
    expect(page.locator(".settings-summary")).to_contain_text("T 0.3")
    expect(page.locator("[data-slug=storage]")).to_have_attribute("data-state", "done")


def test_a_finished_conversation_opens_with_its_journey(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    num_steps = page.locator(".answer-tokens .token").count()
    page.goto(page.url.split("#")[0] + "#stage=sampling&step=7")
    page.reload()
    expect(page.locator("#stage-sampling")).to_be_visible()
    expect(page.locator(".scrubber-place")).to_have_text(f"step 7 of 0–{num_steps - 1}")
    expect(page.locator(".answer-tokens .token-selected")).to_have_attribute("data-step", "7")
    assert page.locator(".answer-tokens .token").count() == num_steps
    assert "Complete" in last_state(page)


def test_edit_and_answer_again_make_versions_side_by_side(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "one")
    await_end(page)
    page.get_by_role("button", name="Edit and send again").click()
    page.get_by_label("Edit your message").fill("two")
    page.keyboard.press("Enter")
    expect(page.locator(".message-user .message-text")).to_have_text("two")
    await_end(page)
    expect(page.locator(".message-user .versions")).to_contain_text("2 of 2")
    page.get_by_role("button", name="Older version").click()
    expect(page.locator(".message-user .message-text")).to_have_text("one")
    page.get_by_role("button", name="Answer again").click()
    await_end(page)
    expect(page.locator(".message-answer .versions")).to_contain_text("2 of 2")
    expect(page.locator(".message-user .versions")).to_contain_text("1 of 2")
    messages = conversation_of(page)["messages"]
    assert [message["content"] for message in messages if message["role"] == "user"] == ["one", "two"]
    assert {message["parent_id"] for message in messages if message["role"] == "user"} == {None}
    first = messages[0]["id"]
    assert [message["parent_id"] for message in messages if message["role"] == "assistant"].count(first) == 2


def test_a_wrong_setting_gets_the_services_words_at_its_field(site: Site, open_page: Open) -> None:
    page = open_page(site)
    page.get_by_title("Settings of the next answer").click()
    page.get_by_label("Top-p").fill("0")
    page.keyboard.press("Escape")
    ask(page, "hello")
    await_end(page, "Refused by the gateway")
    expect(page.get_by_label("Top-p")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#setting-top_p-error")).to_contain_text("top_p")
    expect(page.locator("[data-slug=gateway]")).to_have_attribute("data-state", "ended")
    expect(page.locator("[data-slug=tokens]")).to_have_attribute("data-state", "skipped")
    page.get_by_label("Top-p").fill("0.9")
    page.keyboard.press("Escape")
    ask(page, "hello again")
    await_end(page)


def test_what_is_not_a_number_never_leaves_the_page(site: Site, open_page: Open) -> None:
    page = open_page(site)
    page.get_by_title("Settings of the next answer").click()
    page.get_by_label("Temperature").fill("")
    page.keyboard.press("Escape")
    ask(page, "hello")
    expect(page.locator("#setting-temperature-error")).to_have_text("Temperature must be a number.")
    expect(page.locator(".message")).to_have_count(0)
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("hello")


def test_drafts_and_instructions_survive(site: Site, open_page: Open) -> None:
    page = open_page(site)
    page.get_by_title("Settings of the next answer").click()
    page.get_by_label("Instructions for this conversation").fill("Answer in rhyme.")
    page.keyboard.press("Escape")
    ask(page, "hello")
    await_end(page)
    page.get_by_label("Prompt", exact=True).fill("half a thou")
    page.reload()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("half a thou")
    page.get_by_title("Settings of the next answer").click()
    expect(page.get_by_label("Instructions for this conversation")).to_have_value("Answer in rhyme.")
    assert conversation_of(page)["instructions"] == "Answer in rhyme."
    page.keyboard.press("Escape")
    page.get_by_role("link", name="New conversation").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("")


def test_each_conversation_keeps_its_own_settings(site: Site, open_page: Open) -> None:
    page = open_page(site)
    summary = page.locator(".settings-summary")
    for text, temperature in (("first", "0.3"), ("second", "1.2")):
        page.get_by_role("link", name="New conversation").click()
        page.get_by_title("Settings of the next answer").click()
        page.get_by_label("Temperature").fill(temperature)
        page.keyboard.press("Escape")
        ask(page, text)
        await_end(page)
    assert conversation_of(page)["sampling"]["temperature"] == 1.2
    assert conversation_of(page)["sampling"]["seed"] is None
    page.locator(".rail-row > a", has_text="first").click()
    expect(summary).to_contain_text("T 0.3")
    page.reload()
    expect(summary).to_contain_text("T 0.3")
    page.get_by_role("link", name="New conversation").click()
    expect(summary).to_contain_text("T 1.2")  # what was used last


def test_code_is_coloured_and_copied(site: Site, open_page: Open) -> None:
    page = open_page(site)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, "hello")
    await_end(page)
    code = page.locator(".answer-text.prose pre")
    string = code.locator("[class^=s]").first
    plain = code.evaluate("node => getComputedStyle(node).color")
    assert string.evaluate("node => getComputedStyle(node).color") != plain
    code.hover()
    code.get_by_role("button", name="Copy the code").click()
    expect(code.get_by_role("button")).to_have_attribute("data-done", "copied")
    assert page.evaluate("navigator.clipboard.readText()") == "print('one')\n"


def test_conversations_are_found_renamed_exported_and_deleted(site: Site, open_page: Open) -> None:
    page = open_page(site)
    for text in ("alpha beta", "gamma delta"):
        page.get_by_role("link", name="New conversation").click()
        ask(page, text)
        await_end(page)
    expect(page.locator(".rail-row > a")).to_have_text(["gamma delta", "alpha beta"])
    page.get_by_label("Search conversations").fill("alpha")
    expect(page.locator(".rail-row > a")).to_have_text(["alpha beta"])
    page.get_by_label("More for alpha beta").click()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Title").fill("<b>alpha</b> renamed")
    page.keyboard.press("Enter")
    expect(page.locator(".rail-row > a")).to_have_text(["<b>alpha</b> renamed"])
    page.get_by_label("More for").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    exported = json.loads(download.value.path().read_text())
    assert exported["title"] == "<b>alpha</b> renamed"
    assert exported["messages"][0]["content"] == "alpha beta"
    page.get_by_label("More for").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("<b>alpha</b> renamed")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".rail-row")).to_have_count(0)
    expect(page.locator(".rail-state")).to_contain_text("alpha")
    page.get_by_label("Search conversations").fill("")
    expect(page.locator(".rail-row > a")).to_have_text(["gamma delta"])


def test_a_conversation_that_is_not_there_says_so(site: Site, open_page: Open) -> None:
    page = open_page(site, "/c/00000000-0000-4000-8000-000000000000")
    expect(page.locator(".chat .notice")).to_be_visible()


def test_feedback_is_kept_and_can_be_taken_back(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    page.get_by_role("button", name="Good answer").click()
    page.get_by_label("Comment").fill("made me laugh")
    page.get_by_role("button", name="Send comment").click()
    expect(page.locator(".feedback")).to_contain_text("Saved")
    page.reload()
    expect(page.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Comment")).to_have_value("made me laugh")  # and can be changed
    kept = conversation_of(page)["messages"][1]["response"]["feedback"]
    assert kept == {"rating": 1, "comment": "made me laugh"}
    page.get_by_role("button", name="Good answer").click()
    expect(page.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_label("Comment")).to_be_hidden()
    page.route("**/feedback", lambda route: route.abort())
    page.get_by_role("button", name="Bad answer").click()
    expect(page.locator(".feedback")).to_contain_text("cannot be reached")
    page.unroute_all()
    page.get_by_label("Comment").fill("second thoughts")
    page.get_by_role("button", name="Send comment").click()
    expect(page.locator(".feedback")).to_contain_text("Saved")
    kept = conversation_of(page)["messages"][1]["response"]["feedback"]
    assert kept == {"rating": -1, "comment": "second thoughts"}


def test_a_guest_at_the_limit_is_told_when_more_comes_and_offered_an_account(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    site.python(
        "from webtrace.accounts.models import User\n"
        "guest = User.objects.filter(is_guest=True).latest('pk')\n"
        "guest.answers_per_hour = 1\nguest.save()\nresult = True"
    )
    ask(page, "the last one")  # a changed limit counts anew
    await_end(page)
    ask(page, "one more")
    await_end(page, "Refused by the gateway")
    expect(page.locator(".answer-state").last).to_contain_text(re.compile(r"Try again in \d+ (minutes|hour)"))
    expect(page.locator("[data-slug=gateway]")).to_have_attribute("data-state", "ended")
    left = page.url
    page.get_by_role("link", name="Sign up for a wider limit").click()
    page.get_by_label("Username").fill(f"user-{uuid.uuid4().hex[:8]}")
    for label in ("Password", "Password confirmation"):
        page.get_by_label(f"{label}:", exact=True).fill("wr4-kestrel-lamp")
    page.get_by_role("button", name="Sign up").click()
    expect(page).to_have_url(left)
    expect(page.locator(".answer-state").last).to_contain_text("Complete")  # with the conversation as it was


def test_nothing_in_prompt_title_or_answer_becomes_active(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, '<img src=x onerror=alert(1)> <script>alert(2)</script> [x](javascript:alert(3)) "><svg onload=alert(4)>')
    await_end(page)
    expect(page.locator(".rail-row > a")).to_contain_text("<img src=x")
    assert page.locator(".chat img, .rail img, .trace img, .chat script").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0
    for slug in ("request", "prompt", "tokens", "append", "detokenize"):
        page.locator(f"[data-slug={slug}]").click()
        expect(page.locator(f"#stage-{slug} .stage-sentence")).to_be_visible()
    assert page.locator(".trace img, .trace script").count() == 0
    # The fixture has watched for dialogs, errors and requests to other hosts.


def test_a_screen_reader_hears_the_beginning_and_the_end_only(site: Site, open_page: Open) -> None:
    page = open_page(site)
    expect(page.locator(".connection")).to_have_text("Connected")
    expect(page.locator(".rail-state")).to_contain_text("Nothing yet")
    page.evaluate(
        """() => {
          window.heard = [];
          for (const live of document.querySelectorAll("[aria-live], [role=status], [role=alert]")) {
            new MutationObserver(() => {
              if (live.textContent) window.heard.push(live.textContent);
            }).observe(live, { childList: true, characterData: true, subtree: true });
          }
        }"""
    )
    ask(page, "hello")
    await_end(page)
    expect(page.locator("#announcer")).to_have_text("Answer complete.")
    assert page.evaluate("window.heard") == ["Generating the answer.", "Answer complete."]


def test_direction_does_not_jump_while_streaming(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "سلام، hello را ترجمه کن")
    expect(page.locator(".message-user .message-text")).to_have_css("direction", "rtl")
    await_streaming(page, 2)
    seen = page.evaluate(
        """() => new Promise((resolve) => {
          const text = document.querySelector(".answer-text.growing");
          const seen = new Set();
          const look = () => {
            if (text.hidden) return resolve([...seen]);
            seen.add(getComputedStyle(text).direction);
            requestAnimationFrame(look);
          };
          look();
        })"""
    )
    assert seen == ["ltr"]
    expect(page.locator(".answer-text.prose p", has_text="سلام")).to_have_css("direction", "rtl")


def test_another_tab_hears_of_conversations_and_a_tab_is_named_by_its_own(site: Site, open_page: Open) -> None:
    page = open_page(site)
    expect(page).to_have_title("Webtrace")
    ask(page, "one")
    await_end(page)
    other = open_page(site, page.url.removeprefix(site.url).split("#")[0], context=page.context)
    expect(other.locator(".rail-row > a")).to_have_text(["one"])
    expect(other).to_have_title("one · Webtrace")
    page.get_by_role("link", name="New conversation").click()
    expect(page).to_have_title("Webtrace")
    expect(page.get_by_label("Prompt", exact=True)).to_be_focused()
    ask(page, "two")
    expect(other.locator(".rail-row > a")).to_have_text(["two", "one"])
    await_end(page)
    page.get_by_label("More for one").click()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Title").fill("first")
    page.keyboard.press("Enter")
    expect(other.locator(".rail-row > a")).to_have_text(["first", "two"])
    expect(other).to_have_title("first · Webtrace")
    page.get_by_label("More for first").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(other.locator(".rail-row > a")).to_have_text(["two"])
    expect(other.locator(".chat .notice")).to_contain_text("may have been deleted")


def test_two_tabs_on_one_conversation_agree(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    other = open_page(site, page.url.removeprefix(site.url), context=page.context)
    expect(other.locator(".message")).to_have_count(2)
    ask(page, "and again")
    expect(other.locator(".message-user .message-text").last).to_have_text("and again")
    await_end(page)
    await_end(other)
    expect(other.locator(".message")).to_have_count(4)
    expect(other.locator(".answer-text.prose").last).to_contain_text("That was all of it.")
