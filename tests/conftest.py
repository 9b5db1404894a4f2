"""Fixtures every test may ask for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from tests.require import can_run_native, missing, required
from tests.services import Services, ServicesMissing, running_services

# The same examples on every run, so that a change is judged by what it changed; HYPOTHESIS_PROFILE=default looks for
# new ones. How long one takes says more about the machine than about the code.
settings.register_profile("default", deadline=None)
settings.register_profile("same", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Three groups of about the same length for three processes (`-n 3 --dist loadgroup`): what a browser looks at on
    the site with the model, what it looks at elsewhere, and the rest. So none needs another's sites, engines and
    services, and each is started once."""
    unfit = [] if can_run_native() else [item for item in items if "native" in item.keywords]
    if unfit:
        config.hook.pytest_deselected(items=unfit)
        items[:] = [item for item in items if item not in unfit]
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    if "browser" not in item.keywords:
        return "rest"
    return "model" if "real_site" in getattr(item, "fixturenames", ()) else "browser"


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """Redis and PostgreSQL, started when the first test asks for them. Mark such tests with `services`."""
    try:
        with running_services() as running:
            yield running
    except ServicesMissing as why:
        missing("services", str(why))


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the system's Chromium. Mark such tests with `browser`."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    missing("browser", "Chromium is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With `no-skips` in WEBTRACE_REQUIRE a skipped test has failed, unless it is marked `gpu`."""
    report = yield
    if report.skipped and required("no-skips") and "gpu" not in item.keywords:
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {call.excinfo and call.excinfo.value}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole files that skip themselves."""
    report = yield
    if report.skipped and required("no-skips"):
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} skipped itself where nothing may be skipped"
    return report
