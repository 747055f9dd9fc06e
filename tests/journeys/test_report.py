"""`zlaunch report`: pages of real runs, opened in a browser."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Chromium
from journeys import Journey

RECORDINGS = Path(__file__).parents[1] / "recordings"
HOSTILE = "</script></pre><script>window.hacked=1</script><img src=x onerror=window.hacked=2>"
NAME = "</h1><script>window.hacked=3</script>"

# Rank 0 tells its loss; rank 1 fails, once it has told enough, in each attempt.
FAILS = f"""
import os, pathlib, time
told = pathlib.Path("told" + os.environ["ZLAUNCH_RESTART_COUNT"])
if os.environ["RANK"] == "0":
    for step in range(1, 31):
        print(f"step {{step}}/90 loss {{3 / step:.4f}} lr {{step * 1e-5:.2e}}", flush=True)
    told.touch()
    time.sleep(600)
while not told.exists():
    time.sleep(0.01)
raise RuntimeError({HOSTILE!r})
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def page_of(journey: Journey, *args: str) -> Path:
    done = journey.zlaunch("report", *args)
    assert done.code == 0, done.text
    return Path(done.out.strip())


def points(browser: Chromium, figure: str, trace: str) -> int:
    """How many points of a trace are kept in a plot."""
    return browser.eval(
        f"document.querySelector('[data-figure=figure-{figure}]').data"
        f".find(trace => trace.name == {trace!r}).y.length"
    )


def assert_quiet(browser: Chromium, page: Path) -> None:
    """Nothing was complained of, nothing was fetched, nobody's words were run."""
    assert browser.complaints == []
    assert browser.requests == [page.as_uri()]
    assert browser.eval("typeof window.hacked") == "undefined"


def test_a_run_that_failed_in_two_attempts(journey: Journey, browser: Chromium) -> None:
    script = journey.script(FAILS)
    run = journey.zlaunch(
        "run", "--cpu", "2", "--max-restarts", "1", "--healthy-after", "0", "--name", NAME,
        "--set", f"csv_monitor.job_name={HOSTILE}", "--set", "gradient_clipping=0.5",
        script, HOSTILE,
    )  # fmt: skip
    assert run.code == 1, run.text
    page = page_of(journey)
    assert page == journey.latest / "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600

    browser.show(page)
    assert_quiet(browser, page)
    shown = browser.eval("document.body.innerText")
    assert NAME in shown
    assert shown.count(HOSTILE) >= 3  # the command, the cause, the config
    assert "restarted 1 time" in shown and "gradient_clipping" in shown
    drawn = browser.eval(
        "[...document.querySelectorAll('.plot:has(.main-svg)')].map(p => p.dataset.figure)"
    )
    assert {"figure-timeline", "figure-loss", "figure-lr"} <= set(drawn)
    assert points(browser, "loss", "attempt 0") == points(browser, "loss", "attempt 1") == 30
    assert points(browser, "timeline", "failed") == 2
    assert browser.eval("document.querySelectorAll('td.failed a[href^=\"#cause-\"]').length") == 1
    buttons = browser.eval(
        "[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)"
    )
    assert buttons and not any("hare" in button for button in buttons)  # plotly's would upload it


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_telephone_in_light_and_in_the_dark(
    journey: Journey, browser: Chromium, dark: bool
) -> None:
    log = str(RECORDINGS / "overflow_stage2.log")
    page = journey.folder / "page.html"
    assert journey.zlaunch("report", "--file", log, "-o", str(page)).code == 0

    browser.show(page, width=400, dark=dark)
    assert_quiet(browser, page)
    assert browser.eval("document.documentElement.scrollWidth") == 400
    colours = "getComputedStyle({}).{}.match(/[0-9]+/g).slice(0, 3).map(Number)"
    behind = browser.eval(colours.format("document.body", "backgroundColor"))
    text = browser.eval(colours.format("document.querySelector('.plot text')", "fill"))
    assert (sum(behind) < 300, sum(text) > 500) == (dark, dark)


def test_a_recording_with_overflows(journey: Journey, browser: Chromium) -> None:
    log = str(RECORDINGS / "overflow_stage2.log")
    assert journey.zlaunch("report", "--file", log).code == 0
    page = journey.folder / "report.html"

    browser.show(page)
    assert_quiet(browser, page)
    assert points(browser, "loss-scale", "overflow") == 13
    assert "13 overflows were told" in browser.eval("document.body.innerText")


def test_a_script_that_got_into_the_page_is_not_run(journey: Journey, browser: Chromium) -> None:
    log = str(RECORDINGS / "overflow_stage2.log")
    page = journey.folder / "page.html"
    assert journey.zlaunch("report", "--file", log, "-o", str(page)).code == 0
    evil = "<script>window.hacked = 1; fetch('http://127.0.0.1:9/')</script>"
    page.write_text(page.read_text("utf-8").replace("<main>", "<main>" + evil), "utf-8")

    browser.show(page)
    assert browser.eval("typeof window.hacked") == "undefined"
    assert any("Content Security Policy" in said for said in browser.complaints)


def test_a_run_that_goes_on_and_one_that_is_lost(journey: Journey, browser: Chromium) -> None:
    script = journey.script("import time\nprint('step 1/9 loss 2.5', flush=True)\ntime.sleep(600)")
    live = journey.start("run", "--cpu", "1", script)
    live.until("loss 2.5")
    page = page_of(journey)
    browser.show(page)
    assert_quiet(browser, page)
    assert "This run still goes on" in browser.eval("document.body.innerText")
    assert points(browser, "timeline", "running") == 1

    live.send(signal.SIGKILL)
    live.end()
    journey.assert_gone()
    browser.show(page_of(journey))  # in the place of the first
    assert "The launcher of this run is gone" in browser.eval("document.body.innerText")
    assert points(browser, "timeline", "lost") == 1


def test_where_there_is_nothing_to_plot_it_says_so(journey: Journey) -> None:
    assert journey.zlaunch("run", "--cpu", "1", journey.script("print('hello')")).code == 0
    page = page_of(journey).read_text("utf-8")

    assert "There are no plots: no rank printed a loss" in page
    assert "There are no plots: it was not written down" in page


def test_secrets_stay_out_of_it(journey: Journey) -> None:
    script = journey.script("import os\nraise ValueError('bad key ' + os.environ['MY_API_KEY'])")
    env = {**os.environ, "MY_API_KEY": "sesame-sesame"}
    journey.zlaunch("run", "--cpu", "1", script, env=env)
    done = journey.zlaunch("report", "-o", "-", env=env)

    assert "bad key ***" in done.out
    assert "sesame" not in done.out


def test_it_is_written_over_nothing_of_the_users(journey: Journey) -> None:
    script = journey.script("print('hello')")
    assert journey.zlaunch("run", "--cpu", "1", script, "no text: \udcff").code == 0
    mine = journey.folder / "mine.html"
    mine.write_text("mine")

    refused = journey.zlaunch("report", "-o", str(mine))
    assert refused.code == 2 and "--force" in refused.err
    assert mine.read_text() == "mine"
    assert journey.zlaunch("report", "-o", str(mine), "--force").code == 0
    assert "no text: \\udcff" in mine.read_text("utf-8")
    both = journey.zlaunch("report", "latest", "--file", "x.log")
    assert both.code == 2 and "two things" in both.err


def test_without_its_libraries_it_says_how_to_get_them(journey: Journey) -> None:
    assert journey.zlaunch("run", "--cpu", "1", journey.script("print('hello')")).code == 0
    without = (
        "import sys; sys.modules['plotly'] = None; from zlaunch.cli.main import main; "
        "main(['report'])"
    )
    live = journey.start(command=(sys.executable, "-c", without)).end()

    assert live.code == 2
    assert "needs plotly\n  hint: pip install 'zlaunch[report]'" in live.err


def test_many_ranks_and_a_long_run_make_no_large_page(journey: Journey, browser: Chromium) -> None:
    assert journey.zlaunch("run", "--cpu", "1", journey.script("print('hello')")).code == 0
    run = journey.latest
    record = json.loads((run / "run.json").read_text())
    begun, ranks = record["started"], range(256)
    record |= {"world_size": 256}
    record["plan"]["workers"] = [
        {"rank": r, "host": f"<b>gpu{r // 8:02}", "slot": r} for r in ranks
    ]
    (run / "run.json").write_text(json.dumps(record))
    events = [{"event": "Started", "at": begun, "rank": r, "pid": r} for r in ranks]
    told = [
        {"at": begun + step, "attempt": 0, "rank": 0, "source": "print", "step": step,
         "loss": 99.0 if step == 20_000 else 1.0 + step % 7}
        for step in range(40_000)
    ]  # fmt: skip
    used = [
        {"at": begun + at, "attempt": 0, "rank": r, "source": "system", "gpu_memory": 1 << 30}
        for at in range(0, 4000, 50)
        for r in ranks
    ]
    for name, lines in (("events.jsonl", events), ("metrics.jsonl", [*told, *used])):
        (run / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = page_of(journey)
    page = path.read_text("utf-8")
    figure = json.loads(page.split('id="figure-loss">')[1].split("</script>")[0])
    rows = json.loads(page.split('id="figure-timeline">')[1].split("</script>")[0])

    assert len(page) < 6_000_000  # of which 4.8 million are plotly's
    assert 99.0 in figure["data"][0]["y"]
    assert len(rows["data"][0]["y"]) == 32  # hosts
    assert "256 ranks: at each time the highest" in page
    browser.show(path)
    assert_quiet(browser, path)
    labels = browser.eval("document.querySelector('[data-figure=figure-timeline]').innerText")
    assert "<b>gpu00" in labels and "<b>gpu31" in labels
