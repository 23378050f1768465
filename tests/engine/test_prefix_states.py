"""States of prompts' beginnings on disk: the same bits with less evaluated, and no file that can change a number."""

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import random_model
from hypothesis import given
from hypothesis import strategies as st

import localjudge
from localjudge.engine import prefix_states
from localjudge.engine.contract import check_engine
from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.llamacpp import loading
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.llamacpp.kv_cache import KVCache
from localjudge.engine.llamacpp.self_check import SelfCheckResult
from localjudge.engine.prefix_states import PrefixStates, kept_states, states_folder
from localjudge.errors import UsageError
from localjudge.types import Answer, NoAnswer, VerdictRequest
from tests.engine.conftest import Asker, ModelMaker, Opener

MIB = 1 << 20
CONTEXT = "The bridge over the river opened in 1936 and was widened twice, as the council decided. " * 3
IDENTITY = {"engine": "some"}
WIDE = random_model.Shape(width=256, layers=2, feed_forward=512, context=2048)


@pytest.fixture
def kept() -> Iterator[Path]:
    """States are kept, as the command line turns it on, until the test is done."""
    prefix_states.turn_on(64 * MIB)
    yield states_folder()
    prefix_states.turn_off()


@pytest.fixture
def first(ask: Asker) -> list[VerdictRequest]:
    return [ask(text, [context]) for context in (CONTEXT, CONTEXT[10:]) for text in ("It opened in 1936.", "No.")]


@pytest.fixture
def second(ask: Asker) -> list[VerdictRequest]:
    """Other statements about the same contexts, and one about another."""
    asked = [ask(text, [context]) for context in (CONTEXT, CONTEXT[10:]) for text in ("A toll.", "It rained a lot.")]
    return [*asked, ask("It rained.", [CONTEXT[20:]])]


def answers(engine: LlamaCppEngine, requests: Sequence[VerdictRequest]) -> list[Answer | NoAnswer]:
    found = dict(engine.answers(requests))
    return [found[index] for index in range(len(requests))]


def states(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name != "limit")


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "phi3", "gpt2", "mamba", "lfm2"])
def test_a_second_run_evaluates_only_what_is_new_and_gives_the_same_bits(
    make_model: ModelMaker,
    open_engine: Opener,
    kept: Path,
    first: list[VerdictRequest],
    second: list[VerdictRequest],
    architecture: str,
) -> None:
    model = make_model(architecture, shape=WIDE)
    plain, begun, again = open_engine(model), open_engine(model), open_engine(model)
    expected = answers(plain, first), answers(plain, second)
    with kept_states([begun]):
        assert answers(begun, first) == expected[0]
    assert begun.stats.restored_tokens == 0
    assert len(states(kept)) == 2
    with kept_states([again]):
        assert answers(again, second) == expected[1]
        assert answers(again, first) == expected[0]
    assert again.stats.restored_tokens > 500
    assert again.stats.evaluated_tokens < plain.stats.evaluated_tokens / 2


def test_an_engine_with_states_keeps_the_contract(make_model: ModelMaker, kept: Path) -> None:
    def opened() -> LlamaCppEngine:
        engine = LlamaCppEngine(make_model(shape=WIDE), EngineSettings(threads=1))
        engine.prefix_states = PrefixStates(kept, engine.identity, most_bytes=64 * MIB)
        return engine

    assert check_engine(opened) == []
    assert check_engine(opened) == []
    assert states(kept)


def test_another_context_size_finds_nothing(
    make_model: ModelMaker, open_engine: Opener, kept: Path, first: list[VerdictRequest]
) -> None:
    engines = [open_engine(make_model(shape=WIDE), n_ctx=n_ctx) for n_ctx in (1024, 2048)]
    with kept_states(engines):
        for engine in engines:
            answers(engine, first)
    assert engines[1].stats.restored_tokens == 0
    assert len(states(kept)) == 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_state_is_evaluated_again_and_kept_again(
    make_model: ModelMaker, open_engine: Opener, kept: Path, first: list[VerdictRequest], damage: str
) -> None:
    plain, begun, again = (open_engine(make_model(shape=WIDE)) for _ in range(3))
    with kept_states([begun]):
        answers(begun, first)
    before = {file: file.read_bytes() for file in states(kept)}
    for file, content in before.items():
        flipped = bytes([*content[:-9], content[-9] ^ 1, *content[-8:]])
        file.write_bytes({"cut": content[:-100], "flipped": flipped, "empty": b""}[damage])
    with kept_states([again]):
        assert answers(again, first) == answers(plain, first)
    assert again.stats.restored_tokens == 0
    assert {file: file.read_bytes() for file in states(kept)} == before


def test_a_state_that_is_not_one_of_this_model_is_refused_by_the_cells(
    make_model: ModelMaker, open_engine: Opener, kept: Path, first: list[VerdictRequest]
) -> None:
    """Whole by its checksum, and still not what the cells can hold: a file put there under the right name."""
    plain, begun, again = (open_engine(make_model(shape=WIDE)) for _ in range(3))
    with kept_states([begun]):
        answers(begun, first)
    one, other = states(kept)
    for file, state in ((one, b"\x00" * 4096), (other, other.read_bytes()[32:-64])):
        file.write_bytes(hashlib.sha256(state).digest() + state)
    with kept_states([again]):
        assert answers(again, first) == answers(plain, first)
    assert again.stats.restored_tokens == 0


def test_what_is_not_read_back_as_it_was_put_in_is_not_used(
    make_model: ModelMaker,
    open_engine: Opener,
    kept: Path,
    first: list[VerdictRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A build of llama.cpp whose copies are not exact."""
    plain, begun, again = (open_engine(make_model(shape=WIDE)) for _ in range(3))
    with kept_states([begun]):
        answers(begun, first)
    expected = answers(plain, first)
    monkeypatch.setattr(KVCache, "state", lambda _cache: b"something else")
    with kept_states([again]):
        assert answers(again, first) == expected
    assert again.stats.restored_tokens == 0


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3"])
def test_a_model_with_a_sliding_window_keeps_none(
    make_model: ModelMaker, open_engine: Opener, kept: Path, first: list[VerdictRequest], architecture: str
) -> None:
    """llama.cpp leaves cells out of such a state: restored, the same prompt got other digits."""
    engine = open_engine(make_model(architecture, shape=WIDE))
    with kept_states([engine]):
        answers(engine, first)
    assert states(kept) == []


def test_an_engine_that_may_not_share_prompts_keeps_none(
    make_model: ModelMaker,
    open_engine: Opener,
    kept: Path,
    first: list[VerdictRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finding = SelfCheckResult(rewind_mode="recompute", difference=1.0)
    monkeypatch.setattr(loading, "self_check_of", lambda _sha256, _trial: finding)
    engine = open_engine(make_model(shape=WIDE))
    with kept_states([engine]):
        answers(engine, first)
    assert states(kept) == []


def test_short_beginnings_are_not_worth_a_file(
    make_model: ModelMaker, open_engine: Opener, kept: Path, ask: Asker
) -> None:
    engine = open_engine(make_model(shape=WIDE))
    with kept_states([engine]):
        answers(engine, [ask("It rained.", ["Rain."])])
    assert states(kept) == []


def test_nothing_is_kept_unless_it_is_turned_on(
    make_model: ModelMaker, open_engine: Opener, first: list[VerdictRequest]
) -> None:
    engine = open_engine(make_model(shape=WIDE))
    with kept_states([engine]):
        assert engine.prefix_states is None
        answers(engine, first)
    assert not states_folder().exists()
    assert not prefix_states.state().on


def test_only_its_owner_can_open_what_is_kept(kept: Path) -> None:
    store = PrefixStates(kept, IDENTITY, most_bytes=MIB)
    store.keep(((1, 2),), b"state")
    assert kept.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in states(kept))
    kept.chmod(0o755)
    with pytest.raises(UsageError, match="not a folder of yours alone"), kept_states([]):
        prefix_states.state()


def test_off_deletes_everything(kept: Path) -> None:
    PrefixStates(kept, IDENTITY, most_bytes=MIB).keep(((1,),), b"state")
    prefix_states.turn_off()
    assert not kept.exists()
    prefix_states.turn_off()


def test_what_is_deleted_under_a_run_is_evaluated(
    make_model: ModelMaker, open_engine: Opener, kept: Path, first: list[VerdictRequest], second: list[VerdictRequest]
) -> None:
    plain, engine = open_engine(make_model(shape=WIDE)), open_engine(make_model(shape=WIDE))
    with kept_states([engine]):
        answers(engine, first)
        prefix_states.turn_off()
        assert answers(engine, second) == answers(plain, second)
    assert not kept.exists()


TEN_STATES = 1000
"""Bytes: each of 100, with its checksum."""


def small(folder: Path) -> PrefixStates:
    return PrefixStates(folder, IDENTITY, most_bytes=TEN_STATES)


def fill(store: PrefixStates, tokens: range) -> None:
    for token in tokens:
        if not store.longest(((token,),), beyond=0):
            store.keep(((token,),), b"x" * (100 - 32))


def there(folder: Path) -> set[int]:
    return {token for token in range(100) if small(folder).longest(((token,),), beyond=0)}


def let_be_of_yesterday(folder: Path) -> None:
    for place, file in enumerate(sorted(states(folder), key=lambda one: one.stat().st_mtime_ns)):
        os.utime(file, (0, time.time() - 86_400 + place))


def test_a_run_over_more_than_fits_keeps_its_beginning(tmp_path: Path) -> None:
    fill(small(tmp_path), range(30))
    assert there(tmp_path) == set(range(10))


def test_the_same_run_again_finds_it_there(tmp_path: Path) -> None:
    """Not one state is lost to another one of the same data."""
    fill(small(tmp_path), range(30))
    let_be_of_yesterday(tmp_path)
    fill(small(tmp_path), range(30))
    assert there(tmp_path) == set(range(10))


def test_other_data_take_the_room_of_what_was_not_used(tmp_path: Path) -> None:
    fill(small(tmp_path), range(10))
    let_be_of_yesterday(tmp_path)
    fill(small(tmp_path), range(50, 54))
    assert there(tmp_path) == {*range(4, 10), *range(50, 54)}


def test_engines_that_share_the_folder_share_the_room(tmp_path: Path) -> None:
    """Each counts all after 16 of its own: so many more than fit may be there for a while, not all that each keeps."""
    stores = [PrefixStates(tmp_path, IDENTITY, most_bytes=40 * 100) for _ in range(4)]
    for token in range(400):
        stores[token % 4].keep(((token,),), b"x" * (100 - 32))
    assert 40 <= len(states(tmp_path)) <= 40 + 4 * 16


def test_a_state_larger_than_everything_is_not_kept(tmp_path: Path) -> None:
    small(tmp_path).keep(((1,),), b"x" * 2000)
    assert states(tmp_path) == []


def test_files_that_were_not_written_to_their_end_make_way(tmp_path: Path) -> None:
    """What a killed process left."""
    left = tmp_path / "aa.77"
    left.write_bytes(b"x" * 950)
    os.utime(left, (0, 0))
    fill(small(tmp_path), range(3))
    assert there(tmp_path) == {0, 1, 2}
    assert not left.exists()


NODES = st.lists(st.integers(0, 300), max_size=3).map(tuple)


@given(paths=st.lists(st.lists(NODES, min_size=1, max_size=4).map(tuple), min_size=1, max_size=6, unique=True))
def test_a_state_is_found_under_its_own_nodes_alone(
    tmp_path_factory: pytest.TempPathFactory, paths: list[tuple[tuple[int, ...], ...]]
) -> None:
    """However alike: (1), (2) is not (1, 2)."""
    store = PrefixStates(tmp_path_factory.mktemp("states"), IDENTITY, most_bytes=MIB)
    for path in paths:
        store.keep(path, repr(path).encode())
    for path in paths:
        found = store.longest((*path, (7, 7, 7, 7)), beyond=0)
        assert found is not None
        assert found.state == repr(path).encode()
        assert found.nodes == len(path)
        assert store.longest(path, beyond=len(path)) is None


@pytest.fixture
def rows() -> list[dict[str, object]]:
    return [
        {
            "id": str(number),
            "user_input": "When did it open?",
            "retrieved_contexts": [CONTEXT[number:] * 4],
            "reference": "It opened in 1936. A toll was charged.",
            "response": "It was widened. It is blue.",
        }
        for number in range(3)
    ]


def test_a_run_and_an_open_judge_use_them(kept: Path, rows: list[dict[str, object]], tmp_path: Path) -> None:
    """With the judge that comes with localjudge: run, another metric in another run, and the same in an open judge."""
    plain = localjudge.evaluate(rows, metrics=["faithfulness"], out=tmp_path / "plain", threads=1)
    assert len(states(kept)) == len(rows)
    prefix_states.turn_off()
    prefix_states.turn_on(64 * MIB)
    localjudge.evaluate(rows, metrics=["context_recall"], out=tmp_path / "first", threads=1)
    second = localjudge.evaluate(rows, metrics=["faithfulness"], out=tmp_path / "second", threads=1)
    effort = second.manifest.environment["sessions"][-1]["effort"]
    assert effort["restored_tokens"] > 150
    assert (tmp_path / "second" / "verdicts.jsonl").read_bytes() == (tmp_path / "plain" / "verdicts.jsonl").read_bytes()
    with localjudge.Judge.open(threads=1) as judge:
        found = [row.p_yes for row in judge.verdicts(rows, ["faithfulness"])]
        with judge.in_use() as opened:
            assert opened.engine.stats.restored_tokens == effort["restored_tokens"]
    assert found == [row.p_yes for row in plain.verdicts]
