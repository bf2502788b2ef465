# ruff: noqa: D102 - the names of the tests say what they show
"""What every store must do, as tests that users run on their own store too."""

import multiprocessing
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Any, ClassVar, TypeAlias

import cloudpickle
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askwell.seeds import rng_for
from askwell.store.records import Conflict, Record, Store, StoreError

__all__ = ["End", "Opener", "PrivateStoreContract", "StoreContract", "count_up", "elsewhere", "rest", "write"]

Opener: TypeAlias = Callable[[], Store]
End: TypeAlias = "Connection[Any, Any]"
"""Of a pipe to another process."""

TEXTS = [
    "plain",
    "",
    "ü 漢字 🦉",
    "quote \" and \\ and ' and %s {} ?",
    "line\nbreak\ttab",
    "'; DROP TABLE record; --",
    " ",
]
BODIES: list[dict[str, Any]] = [
    {},
    {"label": "cat", "sure": True, "score": 0.1 + 0.2, "none": None, "nested": {"list": [1, [2.5, "x"], {}]}},
    {"NUL": "\0", "surrogate": "\ud800", "🦉": "ü"},
    {"int": 2**80, "one": 1, "one point": 1.0, "small": 5e-324, "minus": -0.0},
]


def _record(
    key: str, run: str, body: Any = None, *, kind: str = "label", item: str | None = "17", who: str = ""
) -> Record:
    """A record to try things with."""
    return Record(key, run, kind, item, {} if body is None else body, who)


class PrivateStoreContract:
    """What a store must do that nobody else can open, such as one in memory."""

    @pytest.fixture
    def opener(self) -> Opener:
        """Override this: a function of no arguments that opens a store, empty at first, and the same one each time."""
        raise NotImplementedError("override the fixture `opener`")

    @pytest.fixture
    def store(self, opener: Opener) -> Iterator[Store]:
        """The store, open."""
        with closing(opener()) as store:
            yield store

    # ---- order and content -----------------------------------------------------------------------------------------

    def test_it_is_a_store_and_empty_at_first(self, store: Store) -> None:
        assert isinstance(store, Store)
        assert store.runs() == []
        assert store.read("run") == []

    def test_records_come_back_in_order(self, store: Store) -> None:
        before = time.time() - 3600
        first = store.append([_record("a", "run", {"n": 1}), _record("b", "run", {"n": 2})])
        second = store.append([_record("c", "run", {"n": 3})])
        found = store.read("run")
        assert found == first + second
        assert [stored.key for stored in found] == ["a", "b", "c"]
        assert 0 < found[0].seq < found[1].seq < found[2].seq
        assert all(before < stored.at < time.time() + 3600 for stored in found)
        assert store.read("run", after=found[0].seq) == found[1:]
        assert store.read("run", after=found[2].seq) == []

    def test_a_record_that_has_a_time_keeps_it(self, store: Store) -> None:
        old = Record("a", "run", "label", "17", {}, "ada", seq=77, at=1_600_000_000.25)
        (stored,) = store.append([old])
        assert (stored.at, stored.seq) == (old.at, store.read("run")[0].seq)
        assert store.read("run") == [stored] == store.append([_record("a", "run", who="ada")])
        with pytest.raises(ValueError, match="at must be"):
            store.append([Record("b", "run", "label", "17", {}, at=float("nan"))])
        assert store.read("run") == [stored]

    def test_runs_are_separate_and_listed_oldest_first(self, store: Store) -> None:
        for key, run in [("1", "zebra"), ("2", "apple"), ("3", "zebra")]:
            store.append([_record(key, run)])
        assert store.runs() == ["zebra", "apple"]
        assert [stored.key for stored in store.read("zebra")] == ["1", "3"]
        assert store.read("ZEBRA") == store.read("zebra ") == []

    @pytest.mark.parametrize("text", TEXTS)
    def test_texts_come_back_as_they_were(self, store: Store, text: str) -> None:
        name = text or "x"
        (stored,) = store.append([Record(name, name, name, text, {"text": text}, text)])
        assert store.read(name) == [stored]
        found = (stored.key, stored.run, stored.kind, stored.item, stored.body, stored.who)
        assert found == (name, name, name, text, {"text": text}, text)

    def test_no_item_is_not_an_empty_item(self, store: Store) -> None:
        store.append([_record("a", "run", item=None), _record("b", "run", item="")])
        assert [stored.item for stored in store.read("run")] == [None, ""]

    @pytest.mark.parametrize("body", BODIES)
    def test_bodies_come_back_as_they_were(self, store: Store, body: dict[str, Any]) -> None:
        store.append([_record("a", "run", body)])
        (found,) = store.read("run")
        assert found.body == body
        assert repr(sorted(found.body.items())) == repr(sorted(body.items()))  # 1 is not 1.0

    def test_big_bodies_and_long_items(self, store: Store) -> None:
        body, item = {"text": "ü漢" * 300_000, "many": list(range(50_000))}, "long " * 5_000
        store.append([_record("a", "run", body, item=item)])
        (found,) = store.read("run")
        assert (found.body, found.item) == (body, item)

    def test_many_records_at_once(self, store: Store) -> None:
        records = [_record(f"key {n}", "run", {"n": n}) for n in range(3_000)]
        stored = store.append(records)
        assert [found.body["n"] for found in stored] == list(range(3_000))
        assert store.read("run") == stored == store.append(records)

    def test_nothing_appended_is_nothing_stored(self, store: Store) -> None:
        assert store.append([]) == store.append([], after=0) == []
        assert store.runs() == []

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (_record("a", "run", {"score": float("nan")}), "body"),
            (_record("a", "run", {"score": [1.0, float("-inf")]}), "body"),
            (_record("a", "run", {1: "number"}), "key 1"),
            (_record("a", "run", {"set": {1}}), "body"),
            (_record("a", "run", ["no object"]), "body must be a JSON object"),
            (_record("", "run"), "key"),
            (_record("a", ""), "run"),
            (_record("a" * 3000, "run"), "key"),
            (_record("a\0b", "run"), "NUL"),
            (_record("a", "run", item="\ud800"), "Unicode"),
            (_record("a", "run", item=17), "item must be text"),  # type: ignore[arg-type]
        ],
    )
    def test_what_cannot_be_kept_is_refused_whole(self, store: Store, bad: Record, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            store.append([_record("good", "run"), bad])
        assert store.runs() == []

    def test_one_call_is_for_one_run(self, store: Store) -> None:
        with pytest.raises(ValueError, match="one run"):
            store.append([_record("a", "run"), _record("b", "another")])
        assert store.runs() == []

    # ---- keys and conflicts ----------------------------------------------------------------------------------------

    def test_the_same_again_is_stored_once(self, store: Store) -> None:
        batch = [_record("a", "run", {"x": 1, "y": 2}, who="ada"), _record("b", "run")]
        stored = store.append(batch)
        assert store.append(batch) == stored
        assert (
            store.append([_record("a", "run", {"y": 2, "x": 1}, who="ada")]) == stored[:1]
        )  # order of names is nothing
        assert store.append([*reversed(batch), _record("c", "run"), batch[0]])[:2] == stored[::-1]
        assert [found.key for found in store.read("run")] == ["a", "b", "c"]

    def test_the_same_twice_in_one_call_is_stored_once(self, store: Store) -> None:
        one, other = store.append([_record("a", "run"), _record("a", "run")])
        assert [one] == [other] == store.read("run")

    @pytest.mark.parametrize(
        "other",
        [
            _record("a", "run", {"label": "dog"}),
            _record("a", "run", {"label": "cat"}, item="18"),
            _record("a", "run", {"label": "cat"}, item=None),
            _record("a", "run", {"label": "cat"}, kind="skip"),
            _record("a", "run", {"label": "cat"}, who="bob"),
            _record("a", "another run", {"label": "cat"}),
        ],
    )
    def test_a_key_stands_for_one_record(self, store: Store, other: Record) -> None:
        stored = store.append([_record("a", "run", {"label": "cat"})])
        with pytest.raises(ValueError, match="'a'"):
            store.append([_record("new", other.run), other])
        assert store.read("run") == stored
        assert store.runs() == ["run"]
        with pytest.raises(ValueError, match="'b'"):
            store.append([_record("b", "run", {"n": 1}), _record("b", "run", {"n": 2})])
        assert store.read("run") == stored

    def test_after(self, store: Store) -> None:
        (first,) = store.append([_record("a", "run")], after=0)
        store.append([_record("x", "another run")])  # of no concern
        (second,) = store.append([_record("b", "run")], after=first.seq)
        for stale in (0, first.seq):
            with pytest.raises(Conflict):
                store.append([_record("c", "run"), _record("d", "run")], after=stale)
        assert [found.key for found in store.read("run")] == ["a", "b"]
        store.append([_record("c", "run")], after=second.seq)
        store.append([_record("d", "run")], after=10**12)
        assert [found.key for found in store.read("run")] == ["a", "b", "c", "d"]

    def test_a_retry_is_no_conflict(self, store: Store) -> None:
        batch = [_record("a", "run"), _record("b", "run")]
        stored = store.append(batch, after=0)
        store.append([_record("c", "run")])
        assert store.append(batch, after=0) == stored
        with pytest.raises(Conflict):
            store.append([*batch, _record("new", "run")], after=0)

    def test_a_lost_race_under_one_key_is_a_conflict(self, store: Store) -> None:
        store.append([_record("step 1", "run", {"winner": 1})], after=0)
        with pytest.raises(Conflict):
            store.append([_record("step 1", "run", {"winner": 2})], after=0)

    @settings(
        max_examples=25,
        derandomize=True,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["r", "s"]),
                st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 1)), min_size=1, max_size=3),
                st.none() | st.integers(0, 3),
            ),
            max_size=8,
        )
    )
    def test_any_history_is_that_of_a_list(
        self, store: Store, history: list[tuple[str, list[tuple[str, int]], int | None]]
    ) -> None:
        """`after` is so many records before the last."""
        world = uuid.uuid4().hex
        truth: list[Record] = []
        for run, batch, back in history:
            records = [_record(f"{world} {key}", f"{world} {run}", {"n": n}) for key, n in batch]
            own = [0, *(found.seq for found in truth if found.run == records[0].run)]
            after = None if back is None else own[max(0, len(own) - 1 - back)]
            expected = _outcome(truth, records, stale=after is not None and after < own[-1])
            if isinstance(expected, type):
                with pytest.raises(expected):
                    store.append(records, after=after)
            else:
                stored = store.append(records, after=after)
                truth += [found for place, found in enumerate(stored) if place in expected]
            for name in (f"{world} r", f"{world} s"):
                assert store.read(name) == [found for found in truth if found.run == name]
        assert [found.seq for found in truth] == sorted({found.seq for found in truth})

    # ---- threads, closing --------------------------------------------------------------------------------

    def test_threads_share_a_store(self, store: Store) -> None:
        def work(name: str) -> None:
            for step in range(10):
                store.append([_record(f"{name} {step}", "run", {"name": name, "step": step})])
                store.read("run")

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = store.read("run")
        assert len({stored.seq for stored in found}) == len(found) == 40
        for name in "abcd":
            assert [stored.body["step"] for stored in found if stored.body["name"] == name] == list(range(10))

    def test_a_closed_store_says_so(self, opener: Opener) -> None:
        store = opener()
        store.close()
        store.close()
        uses: list[Callable[[], Any]] = [
            lambda: store.append([_record("a", "run")]),
            lambda: store.append([]),
            lambda: store.read("run"),
            lambda: store.runs(),
            lambda: store.__enter__(),
        ]
        for use in uses:
            with pytest.raises(StoreError, match="closed"):
                use()


class StoreContract(PrivateStoreContract):
    """What every store must do: subclass it in a test file and override the fixture `opener`.

    It is opened in several processes, so it must survive pickling: `functools.partial(MyStore, "address")`."""

    kills: ClassVar[int] = 5  # processes killed in the middle of writing
    appends: ClassVar[int] = 25  # of each of two processes that write at the same time

    def test_what_is_stored_stays(self, opener: Opener) -> None:
        with opener() as store:
            stored = store.append([_record("a", "run", {"n": 1})])
        with opener() as store:
            assert store.read("run") == stored
            assert store.append([_record("a", "run", {"n": 1})]) == stored

    def test_two_see_each_other(self, opener: Opener) -> None:
        with opener() as one, opener() as two:
            stored = one.append([_record("a", "run")])
            assert two.read("run") == stored
            with pytest.raises(Conflict):
                two.append([_record("b", "run")], after=0)
            stored += two.append([_record("b", "run")], after=stored[0].seq)
            assert one.read("run") == stored
            assert one.append([_record("b", "run")]) == stored[1:]

    def test_who_leaves_takes_nothing_from_those_who_stay(self, opener: Opener) -> None:
        with opener() as one, opener():
            one.append([Record("a", "run", "label", "1", {})])
            assert [*rest(elsewhere(write, opener, "b", 1)[1])] == ["begin", "b 0"]
            one.append([Record("c", "run", "label", "1", {})])
        with opener() as again:
            assert [record.key for record in again.read("run")] == ["a", "b 0", "c"]

    def test_processes_take_turns_and_lose_nothing(self, opener: Opener) -> None:
        workers = [elsewhere(count_up, opener, name, self.appends) for name in ("one", "two")]
        for process, line in workers:
            assert line.recv() == "done"
            process.join()
        with opener() as store:
            found = store.read("run")
        assert [stored.body["seen"] for stored in found] == list(range(2 * self.appends))
        assert len({stored.seq for stored in found}) == len(found)
        assert {stored.who for stored in found} == {"one", "two"}

    def test_a_reader_misses_nothing(self, opener: Opener) -> None:
        """Who has seen a record never finds a new one before it."""
        workers = [elsewhere(write, opener, name, 30) for name in ("one", "two")]
        with opener() as store:
            seen: list[Record] = []
            while any(process.is_alive() for process, _ in workers):
                seen += store.read("run", after=seen[-1].seq if seen else 0)
            seen += store.read("run", after=seen[-1].seq if seen else 0)
            assert len(seen) == 60
            assert seen == store.read("run")

    def test_what_was_acknowledged_survives_kills(self, opener: Opener) -> None:
        acknowledged: set[str] = set()
        rng = rng_for(0, 0, "kills")
        for kill in range(self.kills):
            process, line = elsewhere(write, opener, f"writer {kill}", 10**6)
            line.recv()  # it runs, and begins to open the store
            if kill % 4:
                acknowledged.add(line.recv())
            time.sleep(rng.uniform(0, 0.08))
            process.kill()
            process.join()
            acknowledged |= set(rest(line))
            with opener() as store:
                keys = [stored.key for stored in store.read("run")]
            assert len(keys) == len(set(keys))
            assert acknowledged <= set(keys)
            # At most the one that was under way when it was killed was stored without being acknowledged.
            assert len(keys) <= len(acknowledged) + kill + 1
        assert acknowledged


def _outcome(truth: Sequence[Record], records: Sequence[Record], *, stale: bool) -> type[Exception] | set[int]:
    """What must happen, by a plain list: an exception, or the places of the records that are new."""
    known = {stored.key: (stored.run, stored.body) for stored in truth}
    if all(known.get(new.key) == (new.run, new.body) for new in records):
        return set()
    if stale:
        return Conflict
    places = set()
    for place, new in enumerate(records):
        if new.key not in known:
            known[new.key] = (new.run, new.body)
            places.add(place)
        elif known[new.key] != (new.run, new.body):
            return ValueError
    return places


# ---- other processes: started in a moment, at the other end of a pipe, ready to be killed ----------------------------

PRELOAD = ["askwell.store.contract", "askwell.store.sqlite", "askwell.store.postgres"]  # what is missing is left out


def elsewhere(work: Callable[..., None], opener: Opener, *values: Any) -> tuple[Any, End]:
    """(a process that does `work(opener, line, *values)`, our end of the pipe)."""
    if "forkserver" in multiprocessing.get_all_start_methods():  # imports once, not in each process
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
    else:
        context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(cloudpickle.dumps((work, opener, values)), theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _run(job: bytes, line: End) -> None:
    work, opener, values = cloudpickle.loads(job)
    work(opener, line, *values)


def rest(line: End) -> Iterator[Any]:
    """What is still in the pipe of a process that has ended."""
    try:
        while True:
            yield line.recv()
    except (EOFError, OSError):
        return


# ---- work ----------------------------------------------------------------------------------------------------------


def count_up(opener: Opener, line: End, name: str, appends: int) -> None:
    """Append what follows from all that was there before, again and again."""
    with opener() as store:
        for step in range(appends):
            while True:
                found = store.read("run")
                following = Record(f"{name} {step}", "run", "count", None, {"seen": len(found)}, name)
                try:
                    store.append([following], after=found[-1].seq if found else 0)
                    break
                except Conflict:
                    continue
    line.send("done")


def write(opener: Opener, line: End, name: str, appends: int) -> None:
    """Append, and acknowledge each record after it is stored."""
    line.send("begin")
    with opener() as store:
        for step in range(appends):
            store.append([Record(f"{name} {step}", "run", "label", "17", {})])
            line.send(f"{name} {step}")
