import pytest

from experiments.figure import Figure, Option, Setting, Terms
from experiments.results import Job

FIGURE = Figure(
    name="toy",
    content="",
    claim="",
    settings=(
        Setting("a", ("random", "epig"), {"quick": 1, "standard": 2}, {"quick": 3, "standard": 30}),
        Setting("b", ("epig",), {"standard": 3}, {"standard": 10}),
    ),
    run=lambda job, terms, past: iter(()),
    draw=lambda results: None,
    verdict=lambda results: "",
    options={"labels": Option(("probit", "logistic"), "the link")},
)


def test_jobs_come_seed_by_seed():
    jobs = FIGURE.jobs(Terms())
    assert jobs[:3] == [Job("a", "random", 0), Job("a", "epig", 0), Job("b", "epig", 0)]
    assert [job.seed for job in jobs] == [0, 0, 0, 1, 1, 1, 2]


def test_seeds_can_be_given_but_what_an_effort_leaves_out_stays_out():
    assert FIGURE.jobs(Terms("quick"), seeds=2) == [
        Job("a", score, seed) for seed in (0, 1) for score in ("random", "epig")
    ]
    assert FIGURE.jobs(Terms("full")) == []


def test_steps_of_a_run():
    assert FIGURE.steps(Job("b", "epig", 0), Terms()) == 10


def test_options_that_are_the_default_name_the_same_terms():
    assert FIGURE.terms("standard", {"labels": "probit"}) == Terms()
    other = FIGURE.terms("standard", {"labels": "logistic"})
    assert other.name == "standard+labels=logistic"
    assert (FIGURE.option(Terms(), "labels"), FIGURE.option(other, "labels")) == ("probit", "logistic")


@pytest.mark.parametrize(
    ("options", "words"), [({"link": "probit"}, "one of toy's .labels."), ({"labels": "none"}, "probit, logistic")]
)
def test_unknown_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        FIGURE.terms("standard", options)
