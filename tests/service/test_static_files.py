"""What is sent for a static file."""

from __future__ import annotations

import gzip
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from tests.require import missing
from webtrace import esbuild
from webtrace.published import publish
from webtrace.static_files import StaticFilesMiddleware

OURS = Path(__file__).parents[2] / "static"
SCRIPT = "js/parts.js"


@pytest.fixture
def with_esbuild() -> None:
    if shutil.which("esbuild") is None:
        missing("browser", "esbuild is not installed")


@pytest.fixture
def without_esbuild(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    esbuild.version.cache_clear()
    yield
    esbuild.version.cache_clear()


def answer(settings: LazySettings, folder: Path, url: str, **headers: str) -> HttpResponse:
    settings.DATA_DIR = folder

    def nothing(request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=404)

    response: HttpResponse = StaticFilesMiddleware(nothing)(RequestFactory().get(url, headers=headers))
    return response


def body(response: HttpResponse) -> bytes:
    return b"".join(response)


def test_it_is_compressed_for_who_can_read_that(settings: LazySettings, tmp_path: Path) -> None:
    response = answer(settings, tmp_path, f"/static/{SCRIPT}", accept_encoding="gzip")
    assert response["Content-Encoding"] == "gzip"
    assert gzip.decompress(body(response)) == body(answer(settings, tmp_path, f"/static/{SCRIPT}"))


def test_while_developing_it_is_sent_from_its_source(settings: LazySettings, tmp_path: Path) -> None:
    settings.DEBUG = True
    response = answer(settings, tmp_path, f"/static/{SCRIPT}")
    assert body(response) == (OURS / SCRIPT).read_bytes()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plotly/plotly.min.js", "admin/js/core.js"])
def test_files_of_others_are_sent_as_they_are(settings: LazySettings, tmp_path: Path, name: str) -> None:
    sent_as_written(settings, tmp_path, name)


@pytest.mark.usefixtures("without_esbuild")
def test_where_there_is_no_esbuild_a_file_is_sent_as_it_is_written(settings: LazySettings, tmp_path: Path) -> None:
    sent_as_written(settings, tmp_path, SCRIPT)


def sent_as_written(settings: LazySettings, tmp_path: Path, name: str) -> None:
    found = finders.find(name)
    assert found is not None
    assert body(answer(settings, tmp_path, f"/static/{name}")) == Path(found).read_bytes()


@pytest.mark.usefixtures("with_esbuild")
def test_scripts_and_styles_are_sent_without_what_only_readers_need(tmp_path: Path) -> None:
    script = tmp_path / "a.js"
    script.write_text("""
        /** What a reader should know. */
        export function greeting(name) { return `Dear  ${name ? `${name},  you` : "reader"}: 日本`; }
    """)
    sent = publish(script, tmp_path / "published").read_text()
    assert sent.startswith("export function greeting(")
    assert "Dear  ${" in sent
    assert "},  you`" in sent
    assert "日本" in sent
    assert "What a reader" not in sent
    style = tmp_path / "a.css"
    style.write_text("/* calm */\nbody {\n    color: light-dark(black, white);\n}\n")
    assert publish(style, tmp_path / "published").read_text() == "body{color:light-dark(black,white)}\n"


@pytest.mark.usefixtures("with_esbuild")
def test_a_script_that_esbuild_cannot_read_is_sent_as_it_is_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = tmp_path / "a.js"
    script.write_text("export const = 1;\n")
    with caplog.at_level(logging.WARNING):
        assert publish(script, tmp_path / "published").read_text() == "export const = 1;\n"
    assert "a.js is sent as it is written" in caplog.text


def test_a_file_that_is_edited_while_the_site_runs_goes_on_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "a.js"
    script.write_text("export const one = 1; // one\n")
    before = publish(script, tmp_path / "published")
    sent = before.read_bytes()
    script.write_text("export const two = 2; // two\n")
    after = publish(script, tmp_path / "published")
    assert before.read_bytes() == sent
    assert after != before
    assert b"two" in after.read_bytes()
