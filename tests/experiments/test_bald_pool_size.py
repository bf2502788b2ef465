from experiments.bald_pool_size import FIGURE, SIZES
from experiments.figure import Terms
from experiments.results import Job, Results
from experiments.two_d import FIGURE as TWO_D
from experiments.two_d import pool_name

COLUMNS = ("setting", "score", "seed", *FIGURE.columns)


def made_up(slope):
    rows = [
        (pool_name(size), "bald", seed, labels, 0.8 + slope * place + 0.001 * (seed % 2) * place, 0.5)
        for place, size in enumerate(SIZES)
        for seed in range(4)
        for labels in (4, 50)
    ]
    return Results.of(COLUMNS, rows)


def test_the_largest_pool_is_that_of_2d_data():
    jobs = FIGURE.jobs(FIGURE.terms("standard", {}))
    assert len(jobs) == 400
    shared = {*jobs} & {*TWO_D.jobs(TWO_D.terms("standard", {}))}
    assert shared == {Job(pool_name(100_000), "bald", seed) for seed in range(100)}
    assert FIGURE.family == TWO_D.family
    assert FIGURE.run is TWO_D.run
    assert FIGURE.options is TWO_D.options


def test_it_runs_is_drawn_and_judged():
    terms = Terms("quick")
    rows = []
    for size in (100, 1_000):
        for row, _ in zip(FIGURE.run(Job(pool_name(size), "bald", 0), terms, []), range(3), strict=False):
            rows.append((pool_name(size), "bald", 0, row["labels"], row["accuracy"], row["log_loss"]))
    results = Results.of(COLUMNS, rows)
    assert len(FIGURE.draw(results).axes[0].get_lines()) == 2
    assert "not decided in the pool of 1,000" in FIGURE.verdict(results)


def test_the_verdict_can_go_either_way():
    worse = FIGURE.verdict(made_up(-0.05))
    assert "worse**: holds in the pool of 1,000, the pool of 10,000, the pool of 100,000." in worse
    assert "| pool of 100,000 | 4 |" in worse
    assert "worse**: does not hold in the pool of 1,000" in FIGURE.verdict(made_up(0.05))
