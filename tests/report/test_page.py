"""The report: its claims, outcomes and numbers are those of the verdict files, and it is one
safe, small file.
"""

import contextlib
import html
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from icl import registry
from icl.core import plain_yaml, records
from icl.core.records import RecordError
from icl.core.table import rows
from icl.evidence import ledger, sensitivity
from icl.evidence.intervals import summarise
from icl.evidence.judging import OUTCOMES, Part, Verdict, judge
from icl.evidence.ledger import Bound, Claim
from icl.evidence.sensitivity import Drawn, Searched
from icl.evidence.significance import INTERVALS
from icl.pipeline.plan import Plan
from icl.report import (
    compare,
    constants,
    drawing,
    entries,
    formatting,
    formulas,
    gallery,
    history,
    page,
    results,
)
from icl.report.cards import (
    APART,
    OUT_OF,
    ROBUST,
    ROWS,
    UNLIMITED,
    WORST_FIRST,
    Card,
    counts,
    tally,
)
from icl.report.entries import Entry

PLAN = Plan("smoke")
MEND = "run `snakemake gallery_text`"


@pytest.fixture(scope="module")
def shown() -> list[Entry]:
    with contextlib.chdir(ROOT):
        return entries.from_gallery()


@pytest.fixture(scope="module")
def whole(shown: list[Entry]) -> str:
    with contextlib.chdir(ROOT):
        return page.html(shown, root="../")


@pytest.fixture(scope="module")
def texts(shown: list[Entry]) -> dict[Path, str]:
    with contextlib.chdir(ROOT):
        return page.texts(shown)


def test_statements_are_no_markdown_and_no_html_on_the_pages(texts: dict[Path, str]) -> None:
    """On GitHub `<w, x>` would be a tag, and `l*` may begin an emphasis."""
    text = formatting.markdown("<script> *a* _b_ `c` [d](e) $f$ | ~~g~~ &lt; \\ \n# h")
    assert re.findall(r"(?<!\\)(?:\\\\)*[`*<>&|\[\]$~#]|(?<!\w|\\)_|\n", text) == []
    written = re.sub(r"```.*?```", "", "".join(texts.values()), flags=re.DOTALL)
    assert set(re.findall(r"(?<!\\)<(/?[^\s>]*)", written)) <= {"a", "/a", "img", "br", "!--"}


def cards(text: str) -> dict[str, tuple[str, list[str]]]:
    """Claim -> outcome and the lines of its bounds, as a page shows them."""
    section = (
        r'class="claim [^"]*" id="([^"]+)" data-outcome="([^"]+)"(.*?)'
        r'(?:Second sample|<p class="commands">)'
    )
    bound = r"<p>([^<>]* against [^<>]*)</p>"
    found = re.findall(section, text, re.DOTALL)
    return {name: (outcome, re.findall(bound, body)) for name, outcome, body in found}


def test_outcomes_and_numbers_are_those_of_the_verdict_files(
    whole: str, shown: list[Entry]
) -> None:
    lines = filter(gallery.is_first, gallery.read(ROOT / gallery.VERDICTS))
    judged = {(line["claim"], line["scale"]): Verdict.read(line) for line in lines}
    made = [(entry.plan.scale, card.claim) for entry in shown for card in entry.cards]
    found = cards(whole)
    assert sorted(found) == sorted(claim.id for _, claim in made)
    assert sorted(re.findall(r'<tr data-claim="([^"]+)"', whole)) == sorted(found)
    for scale, claim in made:
        outcome, parts = found[claim.id]
        verdicts = [judged.get((claim.id, one)) for one in (scale, *claim.scales)]
        first = next(filter(None, verdicts), None)
        if first is None:
            assert (outcome, parts) == ("not tested", []) and scale not in claim.scales
            continue
        assert outcome == first.outcome
        for part, text in zip(first.parts, parts, strict=True):
            assert text.startswith(f"{formatting.interval(part)} against ")
            assert f": {part.outcome}; " in text


def test_the_committed_pages_are_current(whole: str, texts: dict[Path, str]) -> None:
    assert {path: (ROOT / path).read_text("utf-8") for path in texts} == texts, MEND
    assert cards((ROOT / "gallery/report.html").read_text("utf-8")) == cards(whole), MEND


def test_the_page_is_small_and_loads_nothing_else(whole: str) -> None:
    assert len(whole.encode()) <= 4_000_000
    body = re.sub(r"<script>.*?</script>", "", whole, flags=re.DOTALL)
    assert whole.count("<script") == 1 and "url(" not in body and "@import" not in body
    images = re.findall(r"<img [^>]*>", body)
    assert len(images) >= len(registry.figures())
    sized = re.compile(r' width="\d+" height="\d+".* src="data:image/webp')
    assert all(map(sized.search, images))
    anchors = re.findall(r'\sid="([^"]+)"', body)
    assert len(anchors) == len(set(anchors))
    links = set(re.findall(r'href="((?!https://arxiv.org/abs/|data:,)[^"]+)"', body))
    files = links - {f"#{anchor}" for anchor in anchors}
    assert all((ROOT / "gallery" / link).is_file() for link in files)


def test_markup_in_data_stays_text_and_equal_entries_give_equal_bytes(
    figure9: results.Found,
) -> None:
    (entry,), (again,) = (entries.from_disk(PLAN, figure9.records) for _ in range(2))
    assert page.html([entry], "../../", "smoke") == page.html([again], "../../", "smoke")
    mark = '"><script>alert(1)</script>'
    (card,) = entry.cards
    texts = ("source", "says", "premise", "tested", "why", "not_shown", "unit")
    part = replace(card.verdict.parts[0], bound=Bound(observable=mark, at_least=0.0))
    claim = card.claim.model_copy(update=dict.fromkeys(texts, mark))
    card = replace(card, claim=claim, verdict=replace(card.verdict, parts=(part,)), date=mark)
    about = {"revision": mark, "clean": False, "python": mark, "versions": {mark: mark}}
    of_figure: Any = {"about": about, "table": mark, "diverged": [mark], "costs": {mark: (1, 1, 1)}}
    text = page.html([replace(entry, cards=[card], **of_figure)], "../../", mark, [mark], mark)
    assert text.count("<script") == 1 and text.count(escape(mark)) > len(texts)


def test_a_page_of_results_shows_what_is_made_and_names_the_rest(figure9: results.Found) -> None:
    assert figure9.missing == ["figure12"] and not figure9.problems
    (entry,) = entries.from_disk(PLAN, figure9.records)
    text = page.html([entry], "../../", PLAN.folder, figure9.missing)
    ((outcome, parts),) = cards(text).values()
    assert outcome == "inconclusive"
    expected = [formatting.interval(part) for part in entry.cards[0].verdict.parts]
    assert [part.split(" against")[0] for part in parts] == expected
    for words in ("1 figures are not made yet: figure12;", entry.table, "SCALE=smoke"):
        assert words in text, words
    links = re.findall(r'href="([^"#]*(?:/figures/|verdicts/)[^"#]*)"', text)
    assert links and all((Path(PLAN.results) / link).is_file() for link in links)


def test_changes_against_other_results_are_marked(figure9: results.Found, tmp_path: Path) -> None:
    (verdict,) = figure9.records["figure9"]["verdicts"]
    verdicts = [verdict | {"outcome": "contradicted"}]
    theirs = {**figure9.records["figure9"], "verdicts": verdicts}
    records.write(tmp_path / "before/smoke/verdicts/figure9.json", "verdicts", theirs)
    for folder in (tmp_path / "before", tmp_path / "before/smoke"):
        changes = list(compare.changes(figure9.records, results.of_folder(folder, "smoke")))
        made = entries.from_disk(PLAN, figure9.records, changes)
        text = page.html(made, "", PLAN.folder, (), "before")
        for words in ("Changed since before:", 'value="changed"', "data-changed"):
            assert words in text
    assert compare.changed_verdicts(changes) == {"A-P1b": "contradicted → inconclusive"}
    same = compare.changes(figure9.records, figure9.records)
    assert not entries.from_disk(PLAN, figure9.records, same)[0].cards[0].news
    with pytest.raises(RecordError, match="holds no verdicts of laptop"):
        results.of_folder(tmp_path / "before", "laptop")


Ends = tuple[float, float, float]
ONE = (1.0, 0.9, 1.1)


def record(ends: Ends, outcome: str = "supported", observable: str = "a", runs: int = 5) -> Any:
    part = Part(Bound(observable=observable, at_least=0.0), *ends, runs, "supported")
    return {"verdicts": [Verdict("X", "smoke", outcome, (part,)).plain()]}


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (ONE, ONE, compare.SAME),
        (ONE, (math.nan, math.nan, math.nan), compare.UNKNOWN),
        (ONE, (1.15, 1.05, 1.25), compare.WITHIN),
        (ONE, (1.2, 1.1, 1.3), compare.WITHIN),
        (ONE, (1.3, 1.2, 1.4), compare.BEYOND),
        ((1.3, 1.2, 1.4), ONE, compare.BEYOND),
        ((1.0, 1.0, 1.0), (1.0 + 1e-12,) * 3, compare.BEYOND),
    ],
)
def test_numbers_are_apart_when_their_intervals_are(ours: Ends, theirs: Ends, kind: str) -> None:
    (change,) = compare.changes({"f": record(ours)}, {"f": record(theirs)})
    assert change.kind == kind and change.is_news == (kind not in (compare.SAME, compare.WITHIN))


def test_equal_numbers_of_other_runs_are_not_identical() -> None:
    ours = {"f": record(ONE)}
    for runs, said in ((5, "identical"), (20, "not identical")):
        found = compare.changes(ours, {"f": record(ONE, runs=runs)})
        assert compare.agreement(list(found)).startswith(said)


def test_unmatched_bounds_and_changed_outcomes_are_news() -> None:
    theirs = {"f": record(ONE, observable="b"), "g": record(ONE)}
    found = compare.changes({"f": record(ONE)}, theirs)
    kinds = [("f", "a", compare.ADDED), ("f", "b", compare.REMOVED), ("g", "a", compare.REMOVED)]
    assert [(one.figure, one.bound.observable, one.kind) for one in found] == kinds
    (change,) = compare.changes({"f": record(ONE)}, {"f": record(ONE, "contradicted")})
    assert (change.is_news, change.kind) == (True, compare.SAME)
    assert change.outcomes == "contradicted → supported"
    assert "1 numbers: 1 the same. 1 verdicts changed.\n\n| figure |" in compare.summary([change])


def judged(claim: Claim, outcome: str, second: str = "") -> Card:
    first, again = (Verdict(claim.id, "laptop", one, ()) for one in (outcome, second))
    return Card(claim, first, again if second else None)


@pytest.mark.parametrize(
    ("values", "bound", "reason"),
    [
        ([0, 2, 0, 2, 0], {"at_most": 1}, "contains an end of the bound"),
        ([0, 2, 0, 2, math.nan], {"at_most": 1}, "no value"),
        ([0] * 4, {"at_most": 1}, "too few runs"),
        ([0] * 5, {"at_most": 1, "statistic": "median"}, "too few runs"),
        ([0] * 5, {"at_most": 1}, "equal values"),
        ([0.9, 1, 1.1, 1, 1.1], {"at_least": 0, "equals": 1.2, "at_most": 2}, "the named value"),
    ],
)
def test_the_page_says_why_nothing_is_decided(
    values: list[float], bound: dict[str, Any], reason: str
) -> None:
    table = summarise("figure9", "laptop", rows("y", range(len(values)), values))
    verdict = judge("A", [Bound(observable="y", **bound)], table)
    assert verdict.outcome == "inconclusive"
    assert reason in formatting.undecided(verdict.parts[0])


PAIR = [ledger.claims(name)[0] for name in ("figure8", "figure9")]
FRAGILE = {PAIR[0].id: "yes", PAIR[1].id: "no"}
AGAIN = "repeated by other seeds, of those trained again"


def counted(
    outcomes: Any, second: Any = ("", ""), reduced: Any = (), **about: Any
) -> dict[str, int]:
    """Return the counts of PAIR, as claims of one statement, by the name of the row."""
    about |= {"kind": "figure", "statement": "shared"}
    claims = [claim.model_copy(update=about) for claim in PAIR]
    text = counts(list(map(judged, claims, outcomes, second)), reduced)
    assert "2 claims test these 1 statements." in text
    header, _, *rows = [line.split(" | ") for line in text.splitlines() if line.startswith("|")]
    place = header.index("published figures")
    names = [row[0].removeprefix("| ").removeprefix("of the supported: ") for row in rows]
    return {name: int(row[place].split(" ")[0]) for name, row in zip(names, rows, strict=True)}


def test_a_statement_counts_once_with_its_worst_outcome_and_limits_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sensitivity, "is_fragile", FRAGILE.get)
    for outcomes in itertools.product(OUTCOMES, repeat=2):
        worst = min(outcomes, key=WORST_FIRST.index)
        # A contradiction has a row of its own if all claims that give it are fragile or reduced.
        for reduced in ((), ("figure9",)):
            is_apart = reduced or outcomes[1] != "contradicted"
            row = APART if worst == "contradicted" and is_apart else worst
            found = counted(outcomes, reduced=reduced)
            assert {one: found[one] for one in ROWS} == {one: int(one == row) for one in ROWS}
    both = ("supported", "supported")
    limited = counted(both, both, ["figure9"], unit="sets of prompts of one training")
    plain = counted(both)
    assert limited["one training"] == limited["reduced"] == limited[AGAIN] == 1
    assert plain["one training"] == plain["reduced"] == 0 and AGAIN not in plain
    assert counted(both, ("supported", "inconclusive"))[AGAIN] == 0
    assert counted(both, ("supported", ""))[AGAIN] == 1


@pytest.mark.parametrize(
    ("changed", "searched", "drawn", "expected"),
    [
        ({}, "no", "", 1),
        ({"second": ("supported", "")}, "no", "", 1),
        ({}, "no", "supported", 1),
        ({}, "no", "inconclusive", 0),
        ({}, "yes", "", 0),
        ({}, "undecided", "", 0),
        ({}, "not searched", "", 0),
        ({}, "one of two", "", 0),
        ({"second": ("inconclusive", "")}, "no", "", 0),
        ({"reduced": ["oswald_weights"]}, "no", "", 0),
        ({"unit": "sets of prompts of one training"}, "no", "", 0),
        ({"fitted": "the learning rate"}, "no", "", 0),
    ],
)
def test_a_statement_is_without_limits_if_none_is_known_and_its_constants_were_searched(
    changed: dict[str, Any],
    searched: str,
    drawn: str,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = "no" if searched == "one of two" else searched
    monkeypatch.setattr(sensitivity, "is_fragile", lambda _: found)
    tried = [] if searched == "not searched" else ["clip"]
    of_claim = Searched("supported", 20, [], tried)
    monkeypatch.setattr(sensitivity, "searches", lambda: {one.id: of_claim for one in PAIR})
    inferred = frozenset({"clip", "noise"} if searched == "one of two" else {"clip"})
    monkeypatch.setattr(constants, "inferred", lambda _: inferred)
    random = {one.id: Drawn(drawn, 40, 36, 30) for one in PAIR}
    monkeypatch.setattr(sensitivity, "draws", lambda: random if drawn else {})
    about = {"figure": "oswald_weights", "fitted": ""} | changed
    assert counted(("supported", "supported"), **about)[UNLIMITED] == expected


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("supported", "supported"), "1 of 1"),
        (("supported",), "1 of 1"),
        (("supported", "inconclusive"), "0 of 1"),
        (("contradicted",), "0 of 1"),
        ((), ""),
    ],
)
def test_a_statement_is_supported_with_random_settings_if_all_its_drawn_claims_are(
    outcomes: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {one.id: Drawn(said, 40, 36, 30) for one, said in zip(PAIR, outcomes, strict=False)}
    monkeypatch.setattr(sensitivity, "draws", lambda: found)
    monkeypatch.setattr(sensitivity, "is_fragile", FRAGILE.get)
    about = {"kind": "figure", "statement": "shared"}
    claims = [claim.model_copy(update=about) for claim in PAIR]
    text = counts([judged(claim, "supported") for claim in claims], ())
    row = f"| of the supported: {ROBUST}, of those with draws | 0 of 0 | 0 of 0 | {expected} |"
    assert (row in text) == bool(expected) == (ROBUST in text)
    assert ("random settings: " in constants.dependence(claims[0])) == bool(expected)


def test_the_summary_of_repetition_names_what_changes_and_what_was_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sensitivity, "is_fragile", FRAGILE.get)

    def summary(figure: str, second: str) -> str:
        claim = ledger.claims(figure)[0]
        return counts([judged(claim, "supported", second)], ())

    moved = "another outcome: A-P1a (figure: supported, then inconclusive)."
    assert moved in summary("figure8", "inconclusive")
    assert not any("another outcome" in summary("figure8", second) for second in ("supported", ""))
    varied = "fragile (flips for one plausible setting), of those with a decided search"
    for words in (varied, AGAIN):
        row = f"| of the supported: {words} | 0 of 0 | 0 of 0 | 1 of 1 | 0 of 0 | 0 of 0 |"
        assert row in summary("figure8", "supported")
        assert words not in summary("zheng_heatmap", "")


def test_the_fidelity_is_that_of_the_farthest_panel_with_the_farthest_point() -> None:
    panels = [
        ("log10 ratio", 0.3, 0.4),
        ("log10 ratio", None, None),
        ("log10 ratio", 0.1, 1.0),
        ("magnitude", 0.012, 0.02),
        ("magnitude", 0.5, 0.7),
    ]
    rows = [dict(zip(("unit", "median", "maximum"), panel, strict=True)) for panel in panels]
    entry = Entry("figure9", PLAN, [], {}, distances=rows)
    assert entry.agreement == "factor 2 (at most 10), magnitude 0.5 (at most 0.7)"
    assert replace(entry, distances=()).agreement == ""


def test_every_contradicted_claim_has_a_likely_cause_and_every_number_the_names_of_its_claims(
    whole: str, shown: list[Entry]
) -> None:
    made = [card for entry in shown for card in entry.cards]
    against = [card.claim for card in made if card.outcome == "contradicted"]
    assert against and [claim.id for claim in against if not claim.cause] == []
    assert all(str(escape(claim.cause[1:])) in whole for claim in against)
    totals = tally(made, [entry.name for entry in shown if entry.is_reduced]).items()
    sizes = sorted(len(tests) for (_, name), tests in totals if name not in OUT_OF.values())
    named = re.findall(r'<details class="ids"><summary>(\d+)</summary>(.*?)</details>', whole)
    assert sorted(text.count(", ") + 1 for _, text in named) == sizes
    assert sorted(int(number) for number, _ in named) == sizes


def test_the_values_of_a_second_sample_are_shown(shown: list[Entry]) -> None:
    entry = next(one for one in shown if one.name == "figure9")
    cards = [replace(card, again=card.verdict) for card in entry.cards]
    made = page.html([replace(entry, cards=cards)], "../")
    for part in (part for card in cards for part in card.verdict.parts):
        assert made.count(f"<p>{formatting.interval(part)} against ") == 2
    assert "Second sample" in made


def test_the_history_ends_with_the_outcome_that_is_shown(shown: list[Entry]) -> None:
    """Also of a claim that is judged above the laptop scale alone, as G11."""
    outcomes = {card.claim.id: card.outcome for entry in shown for card in entry.cards}
    moved = outcomes.keys() & history.moved()
    assert "G11" in moved
    assert all(f", now {outcomes[name]}; " in history.line(name) for name in moved)


def test_a_searched_constant_has_one_value_in_use() -> None:
    """icl_theorems has a training with another norm of the patterns, which the search keeps."""
    moved = sensitivity.searches()["A-P1b-SGD"].moved
    (search,) = (one for one in moved if one.constant == "pattern_norm")
    assert constants.in_use(Plan("laptop"), "icl_theorems", search) == {2.0}


def test_a_theorem_is_counted_once() -> None:
    for claim in map(ledger.claim, ("A-T3a-SGD", "A-T3b-SGD", "A-T3c-m")):
        assert (claim.kind, claim.tests) == ("theorem", "Li et al. 2024, theorem 3")


def test_the_page_says_what_a_number_of_runs_could_have_shown() -> None:
    def part(statistic: str, least: float, values: list[float]) -> Part:
        bound = Bound(observable="o", at_least=least, statistic=statistic)
        interval = INTERVALS[statistic](np.array(values))
        return Part(bound, *interval, len(values), "supported", values=tuple(values))

    for statistic in ("mean", "median"):
        assert formatting.power(part(statistic, 0.0, [1.0] * 6)) == "; the same value in all runs"
    assert not part("median", 0.0, [0.0, *[1.0] * 8, 2.0]).is_saturated
    half = part("mean", 0.0, [1.0, 2.0, 3.0, 2.0, 2.0])
    assert half.least_violation == pytest.approx(half.high - half.estimate)
    assert "so few runs cannot" in formatting.power(part("share", 0.5, [1.0] * 5))
    assert "so few runs cannot" in formatting.power(part("mean", 0.0, [1.0, 2.0, 3.0, 2.0]))
    # Of ten runs, two or fewer contradict a share of one half: P(B(10, 1/2) <= 1) = 0.011.
    assert part("share", 0.5, [1.0] * 10).least_violation == pytest.approx(0.4)


@pytest.mark.parametrize(("claim", "expected"), [
    ("A-T3c-random", "Theorem 3 (pruning large neurons), theorem 3 (c)"),
    ("A-P1a", "proposition 1 (a)"), ("G10", ""),
])  # fmt: skip
def test_a_claim_is_found_by_its_statement_and_the_part_of_the_theorem(
    claim: str, expected: str
) -> None:
    assert page.names(ledger.claim(claim)) == expected


numbers = st.floats(-1e6, 1e6) | st.floats(1e-9, 1e3)


@given(
    st.tuples(numbers, numbers, numbers),
    st.lists(numbers, max_size=9),
    st.sampled_from([["at_least"], ["at_most"], ["at_least", "at_most"]]),
)
def test_a_drawing_holds_all_that_it_shows(
    values: tuple[float, ...], runs: list[float], bounded: list[str]
) -> None:
    low, estimate, high = sorted(values)
    ends = {"at_least": low - 1, "at_most": high + 1}
    bound = Bound(observable="x", **{name: ends[name] for name in bounded})
    part = Part(bound, estimate, low, high, len(runs), "supported", values=tuple(runs))
    made: Any = drawing.drawing(part)
    shown = (low, estimate, high, *runs, *(end for end, _ in made.ends))
    places = [*map(made.place, shown), *made.inside]
    assert all(0 <= place <= drawing.WIDTH for place in places)
    assert made.inside[0] < made.inside[1]
    assert made.is_logarithmic <= (min(low, *runs, estimate) > 0)
    assert drawing.drawing(replace(part, estimate=math.nan)) is None


@given(st.text("abcxyz+-=<>&0123456789\\{}$", min_size=1, max_size=20))
def test_a_formula_is_shown_as_mathml_or_refused(text: str) -> None:
    assert "<mfrac>" in formulas.mathml(r"\lVert W \rVert_F \le \frac{1}{N}")
    with contextlib.suppress(formulas.FormulaError):
        shown = formulas.mathml(text)
        assert "<script" not in shown and "http" not in shown
        assert shown.count("<math") == shown.count("</math>") == 1
    for wrong in (r"\notacommand x", r"\frac{1}{2", "}x{", "$x$"):
        with pytest.raises(formulas.FormulaError, match="formula"):
            formulas.mathml(wrong)


def graded(plan: Plan, figure: str, grade: str) -> list[str]:
    return [row["name"] for row in constants.rows(plan, figure) if row["grade"] == grade]


def test_changed_and_reduced_constants_are_graded_so_and_those_to_move_can_be_set(
    whole: str,
) -> None:
    changed = Plan("laptop", constants={"li_icl": {"relevant_fraction": 0.6}})
    assert graded(changed, "figure9", "changed") == ["relevant_fraction"]
    sources = {row["name"]: row["source"] for row in constants.rows(Plan("laptop"), "figure12")}
    assert sources["prompts"].endswith(" (default: 2000)")
    assert "(default" not in sources["relevant_fraction_test"]
    reduced = graded(Plan("laptop"), "garg_linear", "reduced")
    assert {"steps", "dimension", "learning_rate"} <= set(reduced)
    assert graded(Plan("paper"), "garg_linear", "reduced") == []
    commands = re.findall(r"make whatif FIGURE=(\w+) SET='(.*?)'", whole)
    assert commands
    for name, text in set(commands):
        given = plain_yaml.load(html.unescape(text), "SET")
        assert Plan("laptop", constants=given).sweeps(name) != Plan("laptop").sweeps(name)
