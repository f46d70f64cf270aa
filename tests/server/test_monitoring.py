"""What operators watch with: `/metrics` of a real server, alert rules, a dashboard and their page agree."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ficha import Ficha, Plan
from ficha.core import alerts
from ficha.server.metric_table import METRICS
from ficha.server.serving import PortTaken
from ficha.server.supervisor import CHILD_NAME
from ficha.server.worker_metrics import metrics_served
from tests.support.counting_process import count
from tests.support.server_process import NO_TLS, Served, served
from tests.support.shop import add_up_figures
from tests.support.waiting import until_sync

pytestmark = pytest.mark.req("E8")

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/alerts.yml"
GUIDE = (ROOT / "docs/monitoring.md").read_text()
PARTS = re.compile(r"_(bucket|sum|count)$")
STREAM = {"Accept": "text/event-stream"}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return group["rules"]


def dashboard() -> dict[str, Any]:
    return json.loads((ROOT / "deploy/grafana/ficha.json").read_text())


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def named(expression: str) -> Iterator[str]:
    """The metrics that an expression reads."""
    for name in re.findall(r"\b(?:ficha|process)_\w+", expression):
        bare = PARTS.sub("", name)
        yield bare if bare in METRICS and METRICS[bare].kind == "histogram" else name


def labelled(expression: str) -> Iterator[tuple[str, str]]:
    """Metrics with the labels that an expression picks."""
    for name, labels in re.findall(r"\b(ficha_\w+)\{([^}]*)\}", expression):
        bare = name if name in METRICS else PARTS.sub("", name)
        yield from ((bare, label) for label in re.findall(r"(\w+)=", labels))


def promtool(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    found = shutil.which("promtool")
    assert found is not None, "promtool is in Debian's package prometheus"
    return subprocess.run([found, *arguments], cwd=RULES.parent, input=text, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def scrape(request: pytest.FixtureRequest) -> str:
    """What Prometheus reads after some work."""
    server: Served = request.getfixturevalue(f"server_on_{request.param}")
    key = server.account("watched", credits=100)
    with server.client(key) as user, server.client(server.admin) as admin, server.client(server.service) as service:
        job = user.post("/api/jobs", json={"tool": "paint", "payload": {"prompt": "x"}}).json()["job_id"]
        with user.stream("GET", f"/api/jobs/{job}/events", headers=STREAM) as events:
            # (The stream is closed with its iterator.)
            parts = events.iter_bytes()
            next(parts)
            assert "ficha_streams 1.0" in service.get("/metrics").text
        lease = server.take(job)
        told = service.post("/api/worker/finish", json={**lease, "outcome": "completed", "result": {"picture": "x"}})
        assert told.status_code == 200, told.text
        admin.get("/no/such/page")
        admin.request("PROPFIND", "/healthz")
        admin.post("/api/system/recover-stuck").raise_for_status()
        until_sync(lambda: 'ficha_jobs_finished_total{end="completed"' in service.get("/metrics").text)
        return service.get("/metrics").text


def test_a_scrape_has_every_metric_and_no_other(scrape: str) -> None:
    families = {family.name: family for family in text_string_to_metric_families(scrape)}
    own = {name for name in families if name.startswith("ficha_")}
    assert own == {name.removesuffix("_total") for name in METRICS}
    for metric in METRICS.values():
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        labels = {*metric.labels, *(("le",) if metric.kind == "histogram" else ())}
        assert {name for sample in family.samples for name in sample.labels} <= labels, metric.name


def test_promtool_finds_nothing_wrong_with_a_scrape(scrape: str) -> None:
    done = promtool("check", "metrics", text=scrape)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_process_counts_under_its_number_and_not_its_pid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that replaces another goes on in its files; streams that were open when that died are over."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    (tmp_path / "gauge_livesum_1.db").write_bytes(b"of a process that died")
    child = multiprocessing.get_context("spawn").Process(target=count, args=(str(tmp_path), 3), name=f"{CHILD_NAME}1")
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert (tmp_path / "told").read_text() == "3 requests, 1 streams"
    assert {path.name for path in tmp_path.glob("*.db")} == {"counter_1.db", "gauge_livesum_1.db", "histogram_1.db"}


@pytest.mark.long
def test_a_scrape_of_several_processes_tells_of_all_of_them(tmp_path: Path) -> None:
    def children() -> set[int]:
        assert server.process is not None
        pid = server.process.pid
        found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return {child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}

    def requests() -> float:
        # A new connection, which any of the processes may take.
        with server.client(server.service) as service:
            text = service.get("/metrics").text
        assert "process_resident_memory_bytes" not in text
        # That of the parent and its children: more than any of them has alone.
        [memory] = [float(line.split()[1]) for line in text.splitlines() if line.startswith("ficha_memory_bytes ")]
        assert memory > 2 * 40_000_000
        [line] = [line for line in text.splitlines() if 'route="/healthz"' in line and line.startswith("ficha_http")]
        return float(line.split()[1])

    with served(f"sqlite:///{tmp_path / 'ficha.db'}", "--processes", "2") as server:
        for _ in range(8):
            with server.client(None) as anybody:
                anybody.get("/healthz").raise_for_status()
        assert [requests() for _ in range(6)] == [8] * 6
        before = until_sync(lambda: len(found := children()) == 3 and found)  # A spare too, which takes no requests.
        for child in before:
            os.kill(child, signal.SIGKILL)
        until_sync(lambda: len(children() - before) == 3)
        with server.client(None) as anybody:
            until_sync(lambda: anybody.get("/healthz").status_code == 200)
        assert requests() >= 9


async def test_a_worker_serves_the_same_where_no_server_runs(tmp_path: Path) -> None:
    async with Ficha(f"sqlite:///{tmp_path / 'ficha.db'}", plans=[Plan("pro")]) as app:
        await app.open_account("ana", plan="pro", credits=100)
        await add_up_figures(app)
        async with metrics_served(app, "127.0.0.1", 0) as port:
            url = f"http://127.0.0.1:{port}/metrics"
            text = (await asyncio.to_thread(httpx.get, url, trust_env=False, verify=NO_TLS)).text
            with pytest.raises(PortTaken, match="--metrics-port"):
                async with metrics_served(app, "127.0.0.1", port):
                    pass
    assert "ficha_credits_granted_total 100.0" in text
    assert "ficha_build_info" in text
    assert "process_cpu_seconds_total" in text
    assert re.search(r"^ficha_memory_bytes [1-9]", text, re.MULTILINE)
    assert "ficha_http" not in text


def test_what_anybody_can_send_makes_no_label_of_its_own(scrape: str) -> None:
    requests = [line for line in scrape.splitlines() if line.startswith("ficha_http_requests_total{")]
    assert any('route="/api/jobs/{job_id}/events"' in line for line in requests)
    assert any('method="GET",route="other",status="404"' in line for line in requests)
    assert any('method="other"' in line for line in requests)
    assert "PROPFIND" not in scrape
    assert "such" not in scrape
    assert "watched" not in scrape


@pytest.mark.req("E8")
@pytest.mark.parametrize(
    ("verb", "files"), [("check", ["alerts.yml"]), ("test", ["alerts_test.yml", "alerts_days_test.yml"])]
)
def test_promtool_accepts_the_rules_and_their_tests(verb: str, files: list[str]) -> None:
    done = promtool(verb, "rules", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_says_what_is_the_matter_and_where_to_read_what_to_do() -> None:
    tests = "".join(path.read_text() for path in RULES.parent.glob("alerts_*test.yml"))
    headings = {line.removeprefix("### ") for line in GUIDE.splitlines() if line.startswith("### ")}
    found = rules()
    assert len(found) > 15
    for rule in found:
        name = rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"docs/monitoring.md#{name.lower()}"
        assert name in headings
        assert name in tests or re.search(r"Ficha\.\*Late|FichaVerify\.\*", tests)
    assert {heading for heading in headings if heading.startswith("Ficha")} == {rule["alert"] for rule in found}


@pytest.mark.req("E8")
def test_the_rules_have_the_numbers_of_the_console() -> None:
    """More than 10 stuck: warning. An average above 120 s where 45 s is usual: warning. No heartbeat for 15 minutes:
    critical."""
    found = {rule["alert"]: (" ".join(rule["expr"].split()), rule["labels"]["severity"]) for rule in rules()}
    late_s, late = alerts.LATE_MS // 1_000, alerts.LATE_MOST
    assert found["FichaJobsStuck"] == (f"max by (job) (ficha_jobs_stuck) > {alerts.STUCK_JOBS}", "warning")
    assert found["FichaRunsLong"][0].endswith(f") > {alerts.LONG_RUN_S}")
    assert found["FichaRunsLong"][1] == "warning"
    times = f") > {alerts.LONG_RUN_S} / {alerts.USUAL_RUN_S} and "
    assert times in found["FichaRunsLongerThanUsual"][0]
    assert f">= {alerts.SLOW_RUNS} and" in found["FichaRunsLongerThanUsual"][0]
    assert found["FichaRunsLongerThanUsual"][0].endswith(f") > {alerts.SLOW_S:g}")
    assert found["FichaNoHeartbeat"][0].endswith(f"(ficha_pool_seen_timestamp_seconds) > {alerts.SILENT_S}")
    assert found["FichaNoHeartbeat"][1] == "critical"
    assert found["FichaWorkerSilent"][0].endswith(f"> {alerts.SILENT_S}")
    assert found["FichaDeadLettersRising"][0].endswith(f">= {alerts.RISING}")
    assert found["FichaFiguresLate"][0].endswith(f"> {alerts.FIGURES_LATE_S}")
    for what in ("webhooks", "hooks"):
        expression = found[f"Ficha{what.capitalize()}Late"][0]
        assert f"(ficha_{what}_lag_seconds) > {late_s} and" in expression
        assert expression.endswith(f"(ficha_{what}_pending) > {late}")
    assert f"_timestamp_seconds) > {alerts.SILENT_S} and" in found["FichaHeldJobsSilent"][0]
    assert f"[5m])) > {alerts.WAIT_S} and" in found["FichaOldestWaitLong"][0]
    assert f"_wait_seconds) > {alerts.WAIT_TIMES} * " in found["FichaOldestWaitLong"][0]
    for name in ("FichaJobsFailing", "FichaProviderFailing"):
        assert f") > {alerts.FAILING_SHARE} and" in found[name][0]
        assert found[name][0].endswith(f">= {alerts.FAILING}")
    assert f") > {alerts.SERVER_ERROR_SHARE} and" in found["FichaServerErrors"][0]
    assert found["FichaServerErrors"][0].endswith(f">= {alerts.SERVER_ERRORS}")
    assert f") > {alerts.SLOW_ANSWER_S} and" in found["FichaServerSlow"][0]
    assert (alerts.STUCK_JOBS, alerts.LONG_RUN_S, alerts.USUAL_RUN_S, alerts.SILENT_S) == (10, 120, 45, 900)


@pytest.mark.req("E8")
def test_rules_and_dashboard_use_only_metrics_that_a_server_has(scrape: str) -> None:
    there = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in text_string_to_metric_families(scrape)
    }
    expressions = [*(rule["expr"] for rule in rules()), *queries()]
    used = {name for expression in expressions for name in named(expression)}
    assert len(used) > 30
    assert used <= there
    for expression in expressions:
        for name, label in labelled(expression):
            assert label == "job" or label in METRICS[name].labels, expression


def test_every_metric_of_the_database_is_on_the_dashboard_or_in_a_rule() -> None:
    used = {name for text in (*queries(), *(rule["expr"] for rule in rules())) for name in named(text)}
    unused = {"ficha_provider_cost_total", "ficha_provider_probing", "ficha_provider_wait_seconds"}
    assert set(METRICS) - used == unused


def test_the_dashboard_is_one_that_grafana_reads() -> None:
    found = dashboard()
    assert (found["uid"], found["schemaVersion"]) == ("ficha", 41)
    assert [one["name"] for one in found["templating"]["list"]] == ["datasource", "job"]
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids) > 25
    source = {"type": "prometheus", "uid": "${datasource}"}
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        assert panel["type"] in ("stat", "timeseries")
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in ("short", "s", "reqps", "bytes")
        assert defaults["thresholds"]["steps"][0]["value"] is None
        assert panel["datasource"] == source
        assert all(target["datasource"] == source and target["refId"] for target in panel["targets"])
        assert all('job="$job"' in target["expr"] for target in panel["targets"])
        place = panel["gridPos"]
        columns, rows = (range(place[at], place[at] + place[size]) for at, size in (("x", "w"), ("y", "h")))
        cells = {(x, y) for x in columns for y in rows}
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


def test_every_metric_is_in_the_guide_with_its_words_and_labels() -> None:
    rows = re.findall(r"^\| `(ficha_\w+)` \| (\w+) \| (.*) \| (.*) \|$", GUIDE, re.MULTILINE)
    documented = {name: (kind, labels, words) for name, kind, labels, words in rows}
    assert documented == {
        metric.name: (metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help)
        for metric in METRICS.values()
    }
