from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch trains the reader, and is not installed")

import train  # noqa: E402  the import needs PyTorch
from reader_recipe import network  # noqa: E402
from reader_recipe.tokens import ATTRIBUTION  # noqa: E402

WEIGHTS = np.ones(500)
ROWS = 160


def small_reader(path: Path) -> "network.Reader":
    torch.manual_seed(0)
    reader = network.Reader(torch.randn(500, network.WIDTH))
    with torch.no_grad():
        for parameter in reader.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.05)
    return reader


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "train.Rows":
    monkeypatch.setattr(train, "read_gguf", small_reader)
    rng = np.random.default_rng(0)
    lengths = [(4, int(rng.integers(3, 30)), n % 2, ATTRIBUTION) for n in range(ROWS)]
    size = sum(row[0] + row[1] for row in lengths)
    np.savez(
        tmp_path / "rows-000.npz",
        tokens=rng.integers(5, 500, size).astype(np.int32),
        lengths=np.array(lengths, dtype=np.int32),
        kinds=np.array(["passages"] * ROWS),
    )
    (tmp_path / "complete").touch()
    return train.Rows(tmp_path, WEIGHTS, seed=1)


def run(out: Path, batches: list[list["train.Example"]]) -> dict[str, Any]:
    out.mkdir(exist_ok=True)
    training = train.Training(Path("unused"), out, rate=1e-3)
    for examples in batches[training.batch :]:
        training.step(examples)
    training.save()
    training.end()
    return dict(training.reader.state_dict())


def test_batches_depend_on_the_seed_and_hold_every_row(rows: "train.Rows", tmp_path: Path) -> None:
    first = rows.batches(0)
    again = train.Rows(tmp_path, WEIGHTS, seed=1).batches(0)
    other = train.Rows(tmp_path, WEIGHTS, seed=2).batches(0)
    tokens = [[example.tokens.tolist() for example in batch] for batch in first]
    assert tokens == [[example.tokens.tolist() for example in batch] for batch in again]
    assert tokens != [[example.tokens.tolist() for example in batch] for batch in other]
    assert sum(map(len, first)) == ROWS
    assert rows.batches(1) == []


def test_a_continued_run_computes_the_same_weights(rows: "train.Rows", tmp_path: Path) -> None:
    batches = rows.batches(0)[:4]
    unbroken = run(tmp_path / "unbroken", batches)
    run(tmp_path / "broken", batches[:2])
    continued = run(tmp_path / "broken", batches)
    for name, weights in unbroken.items():
        assert torch.equal(weights, continued[name]), name
    start = small_reader(Path()).state_dict()
    assert not torch.equal(unbroken["cls.weight"], start["cls.weight"])


def test_the_rate_warms_up_stays_and_decays(rows: "train.Rows", tmp_path: Path) -> None:
    training = train.Training(Path("unused"), tmp_path, rate=0.6)
    assert training.rate() == pytest.approx(0.6 / train.WARM_UP_BATCHES)
    training.steps = 100
    assert training.rate() == pytest.approx(0.6)
    training.decay = (100, 50)
    training.steps = 125
    assert training.rate() == pytest.approx(0.3)  # half of the decay
    assert not training.ended()
    training.steps = 150
    assert training.ended()
    training.end()
