"""The report in German, French and Spanish: whole, rebuilt by `verify`, and usable in a browser."""

from pathlib import Path
from typing import get_args

import pytest
from axe_playwright_python.sync_playwright import Axe

from localjudge import Run
from localjudge.analysis import labels
from localjudge.metrics import catalog
from localjudge.metrics.metric import about_of
from localjudge.report import html_page
from localjudge.report.made_again import check_report
from localjudge.report.sentences import in_words
from localjudge.report.translation import Words
from localjudge.types import Language
from tests.analysis.conftest import JudgedRun, human_of, judged_run, label
from tests.analysis.labelled_runs import METRIC, run_of, same_judge
from tests.conftest import ScriptedRun
from tests.report.conftest import Open, PageReader

__all__ = ["judged_run"]
LANGUAGES: list[Language] = [language for language in get_args(Language) if language != "en"]
NAMES = [name.replace("@k", "@3") for name in catalog.names()]
GATES = [f"{METRIC}>=0.2", f"{METRIC}>0.75", f"{METRIC}<=0.9", "faithfulness>=0.5", f"{METRIC}.delta>=-0.9"]
MORE_GATES = [f"{METRIC}.delta<0.05", f"{METRIC}.delta>=0", "faithfulness.delta>0"]


def disputed(words: str) -> int:
    return 1 - human_of(words) if len(words) % 4 else human_of(words)


@pytest.fixture
def runs(judged_run: JudgedRun) -> tuple[Run, Run]:
    """A baseline without labels, and a run with labels of three annotators, two of whom often differ."""
    before = judged_run("before", metrics=[METRIC, "faithfulness"], samples=30)
    after = judged_run("after", metrics=[METRIC, "faithfulness", "context_precision", "refusal"])
    label(after, human_of, 50, "ann", metrics=[METRIC])
    label(after, disputed, 5, "bo", metrics=[METRIC], again=True)
    label(after, lambda _: 1, 5, "cy", metrics=["faithfulness"])
    return before, after


@pytest.mark.parametrize("language", LANGUAGES)
def test_reports_are_whole_in_each_language(
    runs: tuple[Run, Run], scripted_run: ScriptedRun, language: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gates, a baseline, labels, disputes and failures. Only reasons that files of the run state stay English."""
    before, after = runs
    words = Words(language)
    monkeypatch.setattr(html_page, "Words", lambda _: words)
    page = after.report(gates=[*GATES, *MORE_GATES], baseline=before, undecided="pass", language=language)
    text = PageReader(page.read_text()).text
    before.report(language=language, gates=[f"{METRIC}>=0.5"])
    failing = scripted_run("failing", [{"reference": "One.", "retrieved_contexts": ["A."]}] * 2, {"One.": "no"})
    failing.report(language=language, gates=[f"{METRIC}>=0.5"])
    label(run_of(scripted_run, "small", samples=4)).report(language=language)
    assert words.missing == set()
    english = ("According", "Annotators", "In an average", " interval ", "samples", "by the judge", "not significant")
    assert [part for part in english if part in text] == [], [
        text[text.index(p) - 200 : text.index(p) + 100] for p in english if p in text
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_labels_lack_is_said_in_each_language(language: Language) -> None:
    remarks = (labels.NO_SHARE, labels.NOT_DRAWN, labels.TOO_SMALL, labels.NO_SAVING)
    words = Words(language)
    assert [remark for remark in remarks if words.sentence(remark) == remark] == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_metric_has_its_sentence_and_questions_in_each_language(language: Language, name: str) -> None:
    words, about = Words(language), about_of(catalog.ours(name))
    question = about.headline.format("how many")
    for text in (in_words(name, 0.5, (0.25, 0.75)), f"{question[:1].upper()}{question[1:]}?"):
        assert words.sentence(text) != text
    assert about.unit == "none" or about.question in words.table
    assert about.counted in ("", *words.table)


@pytest.mark.parametrize("language", LANGUAGES)
def test_verify_rebuilds_a_report_in_its_language(scripted_run: ScriptedRun, language: Language) -> None:
    run = run_of(scripted_run, "run", samples=12)
    path = run.report(language=language)
    assert f'<html lang="{language}">' in path.read_text()
    assert run.verify(engine=same_judge(run)).result == "bit-identical"
    path.write_text(path.read_text().replace('"language": "', '"language": "x'))
    assert check_report(run).problem == "its inputs are missing or invalid"


@pytest.mark.engine
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (380, "dark")])
def test_the_report_in_another_language_in_a_browser(
    open_page: Open, runs: tuple[Run, Run], language: Language, width: int, scheme: str, tmp_path: Path
) -> None:
    before, after = runs
    path, table = (
        after.report(tmp_path / "report.html", baseline=before, gates=GATES, language=language),
        Words(language).table,
    )
    page = open_page(path, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.get_by_label(table["Outcome"]).select_option("scored")
    page.locator(".opener").first.press("Enter")
    page.locator("tr.details .sample").wait_for()
    assert page.get_by_role("status").inner_text().startswith(table["{n} of {total} samples"].format(n=40, total=40))
    text = page.locator("#samples").inner_text()
    english = (
        "Search",
        "Reset",
        "scored",
        "worst first",
        "Retrieved",
        "Previous",
        "Scores;",
        "probability",
        "baseline",
    )
    assert [words for words in english if words in text] == []
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
