"""The benchmark's report: its contents, and that it is one file."""

import re
import sys
from itertools import pairwise

import pytest

from eagre.latency.histogram import CURVE
from eagre_bench.cli import _boundary_table
from eagre_bench.errors import BenchError
from eagre_bench.report import write_report
from eagre_bench.report.canvas import apart
from eagre_bench.results import ratios, summary

REFUSED = "Spark's Real-Time Mode runs no Python"
MARKUP = '<script src="https://evil.example/x.js"></script> & more'
HERE = {
    "schema": 1,
    "eagre": "0.1.0",
    "date": "2026-11-15 08:00 UTC",
    "commit": "1493076",
    "machine": {
        "cpu": "Some CPU",
        "cores": 2,
        "memory_gb": 24,
        "system": "Linux x86_64",
        "python": "3.11.7",
        "java": "25",
    },
    "options": {"rounds": 2, "rate": None, "recovery": False, "slow_checkpoint_ms": 0},
}


def trial(p50, **changed):
    """Return the figures of one trial, around a median."""
    return {
        "p50_ms": p50,
        "p95_ms": 2 * p50,
        "p99_ms": 4 * p50,
        "p999_ms": 8 * p50,
        "p9999_ms": 9 * p50,
        "max_ms": 10 * p50,
        "mean_ms": 1.2 * p50,
        "records": 6000,
        "lost": 0,
        "repeated": 0,
        "wrong": 0,
        "negative": 0,
        "curve": [p50 * (0.5 + at / 10) for at in range(len(CURVE))],
        "series": [
            {"second": at, "p50_ms": p50, "p99_ms": 4 * p50, "max_ms": 9 * p50, "records": 2000}
            for at in range(3)
        ],
        "links": {"topic": 0.3, "engine": p50, "reader": 0.2},
        "late_p50_ms": 0.1,
        "late_p99_ms": 1.0,
        "cpu_s_per_million": 40.0,
        "rss_mb": 900,
        "start_s": 9.0,
        "recovery_ms": None,
        "checkpoints": [1.5],
        "gaps_ms": [9 * p50],
        "problems": [],
        **changed,
    }


def run(**more):
    """Return a run of one workload: systems that differ, that do not differ, and invalid ones."""
    results = {
        "floor": summary([trial(0.6), trial(0.7)]),
        "eagre": summary([trial(1.0), trial(1.2)]),
        "spark-micro-batch": summary([trial(400.0, checkpoints=[at / 9 for at in range(27)])] * 2),
        "flink": summary([trial(1.05)] * 2),
        "kafka-streams": summary([trial(1.0, lost=7, problems=["7 events were not answered"])]),
        "pyflink": summary([{"failed": MARKUP, "problems": [MARKUP]}]),
        "quix": {"valid": False, "refused": REFUSED},
        **more,
    }
    noise = dict.fromkeys((*trial(1), "cpu_s_per_million"), 1.3)
    control = {"system": "eagre", "noise": noise, "trials": [trial(1.3)]}
    workload = {
        "name": "count",
        "title": "Count and sum per key",
        "statement": "Each payment updates its card's count.",
        "rate": 2000.0,
        "warmup": 15.0,
        "seconds": 3.0,
        "trigger": "500 ms",
        "epoch": "5 minutes",
        "partitions": 1,
        "cards": 1000,
    }
    systems = {name: {"title": name, "settings": {"linger.ms": "0"}} for name in results}
    return {
        **HERE,
        "kind": "run",
        "workloads": {"count": workload},
        "systems": systems,
        "results": {"count": results},
        "control": {"count": control},
        "ratios": {"count": ratios(results, control)},
    }


def sweep(kind, values):
    """Return a sweep with one invalid point and one without figures."""
    system = "spark-micro-batch" if kind == "trigger" else "eagre"
    points = [
        {
            "label": f"{ms} ms",
            "value_ms": ms,
            "system": system,
            **summary([trial(20 + ms / 2), trial(22 + ms / 2)]),
            "recovery_ms": 5000.0 + ms,
            "repeated": ms,
        }
        for ms in values
    ]
    points[1] |= {"valid": False, "problems": ["the load generator was 60 ms late at p99"]}
    broken = summary([{"failed": "NO_RESULT", "problems": ["NO_RESULT"]}])
    points[2] = {"label": "none", "value_ms": values[2], "system": system, **broken}
    real_time = {"label": "real time", "system": "eagre", **summary([trial(1.0)])}
    return {
        **HERE,
        "kind": "sweep",
        "sweep": kind,
        "workload": "count",
        "title": f"The {kind} swept",
        "points": points,
        "baseline": real_time if kind == "trigger" else None,
    }


def operators():
    """Return a sweep of operators: one compared, one invalid."""
    wrong = summary([trial(1.0, wrong=2, problems=["2 results were wrong"])])
    compared = {"p50_ratio": 1.5, "p99_ratio": 1.25}
    return {
        **sweep("trigger", [2000, 500, 100]),
        "sweep": "operators",
        "points": [
            {"label": "rolling", "system": "eagre-rolling", "workload": "count"}
            | summary([trial(1.5)])
            | compared,
            {"label": "lookup", "system": "eagre-lookup", "workload": "enrich"} | wrong,
        ],
        "baseline": {"label": "count", "system": "eagre", **summary([trial(1.0)])},
    }


def boundary():
    """Return a sweep of boundaries: one workload compared, one where Flink is invalid."""
    wrong = summary([trial(1.0, wrong=2, problems=["2 results were wrong"])])
    measured = [
        ("eagre", "stateless", summary([trial(2.0, gaps_ms=[60.0, 90.0]), trial(2.0)])),
        ("flink", "stateless", summary([trial(1.0, gaps_ms=[])])),
        ("eagre", "count", summary([trial(1.5)])),
        ("flink", "count", wrong),
    ]
    points = [
        {"label": "10 s", "system": system, "workload": workload, "value_ms": 10_000} | figures
        for system, workload, figures in measured
    ]
    points[0] |= {"p50_ratio": 2.0, "p99_ratio": 2.5, "gap_ratio": 2.75}
    return {
        **sweep("epoch", [2000, 500, 100]),
        "sweep": "boundary",
        "workload": "stateless, count",
        "points": points,
    }


@pytest.fixture
def written(tmp_path):
    def write(document):
        path = tmp_path / "report.html"
        write_report(document, path)
        return path.read_text(encoding="utf-8")

    return write


@pytest.mark.parametrize(
    "document",
    [run(), sweep("trigger", [2000, 500, 100, 0]), sweep("epoch", [5000, 10000, 30000, 60000])],
    ids=["run", "trigger", "epoch"],
)
def test_a_report_loads_nothing_from_outside(written, document):
    page = written(document)
    assert not re.findall(r"<(?:script|link|img|iframe|object)\b", page)
    assert not re.findall(r"(?:src|href)=\"(?!#)|url\((?!#)|@import", page)
    assert not re.findall(r"=\"https?://", page)
    assert page.count("<svg ") == page.count("</svg>") > 0
    assert "#fe00" not in page
    assert "nan" not in re.findall(r"[\w.]+", page)


def test_a_report_names_invalid_systems_and_the_reason(written):
    page = written(run())
    rows = re.findall(r"<tr class=\"void\">.*?</tr>", page, flags=re.DOTALL)
    badges = [re.findall(r"</span>([\w-]+) <span class=\"badge.*?>(.*?)<", row)[0] for row in rows]
    assert badges == [("kafka-streams", "invalid"), ("pyflink", "failed"), ("quix", "not run")]
    assert "7 events were not answered" in page
    assert REFUSED.replace("'", "&#39;") in page


def test_invalid_systems_are_not_compared(written):
    table = re.search(r"<table class=\"ratios\">.*?</table>", written(run()), flags=re.DOTALL)[0]
    assert "eagre" in table
    assert "kafka-streams" not in table


def test_small_differences_are_printed_as_no_difference(written):
    page = written(run())
    against_flink = page.partition("against flink</th>")[2].partition("</tbody>")[0]
    eagre = re.search(r"eagre</th>.*", against_flink)[0]
    assert re.findall(r">([^<>]+)</td>", eagre) == ["no difference"] * 6
    assert "364x faster" in page
    assert "eagre measured 3 times differs from itself by a factor of up to p50 1.3x" in page


def test_a_missing_control_is_mentioned(written):
    document = run()
    document["control"]["count"] = {"system": "eagre", "noise": {}, "trials": []}
    assert "No system was measured twice" in written(document)


def test_markup_in_the_output_of_a_system_is_escaped(written):
    page = written(run())
    assert MARKUP not in page
    assert "&lt;script src=" in page


def test_an_invalid_round_is_mentioned(written):
    late = trial(1.0, problems=["the load generator was 65 ms late at p99"])
    page = written(run(bytewax=summary([late, trial(1.0)])))
    assert "1 of 2 rounds do not count: the load generator was 65 ms late" in page


def test_many_commits_are_not_drawn(written):
    few, many = trial(1.0, checkpoints=[1.1]), trial(1.0, checkpoints=[at / 9 for at in range(27)])
    document = run()
    results = document["results"]["count"] = {"eagre": summary([few])}
    document["ratios"] = {"count": {}}
    marked = written(document)
    results["eagre"] = summary([many])
    assert written(document).count("<path") == marked.count("<path") - 1


def test_a_run_without_links_or_ratios_is_written(written):
    document = run()
    document["results"]["count"] = {"eagre": summary([trial(1.0, links={})])}
    document["ratios"] = {"count": {}}
    assert "Second by second" in written(document)


def test_a_run_with_nothing_valid_is_written(written):
    document = run()
    document["results"]["count"] = {"eagre": summary([{"failed": "no", "problems": ["no"]}])}
    document["ratios"] = {"count": {}}
    assert "<svg " not in written(document)


def test_recovery_has_its_column(written):
    killed = trial(1.0, recovery_ms=6400.0, repeated=812)
    document = run(eagre=summary([killed]))
    assert "recovery ms" not in written(document)
    document["options"] = {**document["options"], "recovery": True}
    page = written(document)
    assert "recovery ms" in page
    assert '<td class="begins">6,400</td>' in page
    assert 'fault">812' not in page


def test_the_trigger_sweep_compares_real_time_with_micro_batch(written):
    page = written(sweep("trigger", [2000, 500, 100, 0]))
    assert "with a trigger of 0 ms, reach a p50 of 21 ms" in page
    assert "21x and 21x less" in page
    assert "half the interval" in page


def test_the_epoch_sweep_has_three_plots(written):
    page = written(sweep("epoch", [5000, 10000, 30000, 60000]))
    assert page.count("<svg ") == 3
    assert "5,000 against 60,000 rows replayed" in page


def test_operators_are_reported_as_multiples_of_count(written):
    page = written(operators())
    assert "Operators against workload count" in page
    assert "p50 of 1.0 ms and a p99 of 4.0 ms in this run" in page
    assert "rolling with 1.50 times its p50 and rolling with 1.25 times its p99" in page
    assert page.count("1.50x</td>") == page.count("1.25x</td>") == 1
    assert "2 results were wrong" in page


def test_boundaries_are_reported_as_multiples_of_flink(written):
    page = written(boundary())
    assert "Epoch boundaries on stateless, count" in page
    assert "On stateless with epochs of 10 s, the median gap at 3 boundaries is 60 ms" in page
    assert "2.75 times Flink" in page
    assert "On count" not in page
    assert [page.count(f"{times}x</td>") for times in ("2.00", "2.50", "2.75")] == [1, 1, 1]
    assert page.count("<small>stateless, epochs of 10 s</small>") == 2
    assert "<small>18\N{EN DASH}90</small>" in page
    assert "2 results were wrong" in page


def test_the_boundaries_on_the_console():
    head, *rows = [line.split() for line in _boundary_table(boundary()).strip().splitlines()]
    assert head[:8] == ["system", "workload", "epoch", "p50", "p99", "p99.9", "gap", "boundaries"]
    figures = ["2.0", "8.0", "16", "60", "3", "2.00x", "2.50x", "2.75x"]
    assert rows[0] == ["eagre", "stateless", "10", "s", *figures]
    assert rows[1] == ["flink", "stateless", "10", "s", "1.0", "4.0", "8.0", "0"]
    assert rows[3][:3] == ["flink", "(invalid)", "count"]
    assert " ".join(rows[4]) == "flink, count, 10 s: 2 results were wrong"


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named(monkeypatch, tmp_path, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BenchError, match="REPORT_NEEDS_BENCH_EXTRA") as caught:
        write_report(run(), tmp_path / "report.html")
    assert module in caught.value.problem
    assert "eagre[bench]" in caught.value.hint


def test_labels_are_moved_apart_and_stay_in_order():
    placed = apart([0.0, 1.0, 1.5, 80.0], 10)
    assert all(b - a >= 10 for a, b in pairwise(placed))
    assert placed[-1] == 80.0
