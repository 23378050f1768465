from collections import Counter
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch trains the reader, and is not installed")

import convert  # noqa: E402  the import needs PyTorch
import train  # noqa: E402
from reader_recipe import network  # noqa: E402
from reader_recipe.tokens import ATTRIBUTION  # noqa: E402

pytestmark = pytest.mark.timeout(600)  # the whole network is trained

WEIGHTS = np.ones(500)
ROWS = 160


def small_reader() -> "network.Reader":
    torch.manual_seed(0)
    reader = network.Reader(torch.randn(500, network.WIDTH))
    with torch.no_grad():
        for parameter in reader.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.05)
    return reader


@pytest.fixture
def rows(tmp_path: Path) -> "train.Rows":
    write_shard(tmp_path / "rows-000.npz", "passages")
    (tmp_path / "complete").touch()
    return make_rows(tmp_path, seed=1)


def make_rows(
    folder: Path,
    seed: int,
    more: Path | None = None,
    shares: dict[str, float] | None = None,
) -> "train.Rows":
    return train.Rows(train.Mixture(folder, more, shares or {}), WEIGHTS, seed)


def write_shard(path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    lengths = [(4, int(rng.integers(3, 30)), n % 2, ATTRIBUTION) for n in range(ROWS)]
    size = sum(row[0] + row[1] for row in lengths)
    np.savez(
        path,
        tokens=rng.integers(5, 500, size).astype(np.int32),
        lengths=np.array(lengths, dtype=np.int32),
        kinds=np.array([kind] * ROWS),
    )


def run(
    out: Path,
    batches: list[list["train.Example"]],
    processes: int = 2,
) -> dict[str, Any]:
    out.mkdir(exist_ok=True)
    training = train.Training(small_reader(), out, rate=1e-3, processes=processes)
    for examples in batches[training.batch :]:
        training.step(examples)
    training.save()
    training.end()
    return dict(training.reader.state_dict())


def test_batches_depend_on_the_seed_and_hold_every_row(rows: "train.Rows", tmp_path: Path) -> None:
    first = rows.batches(0)
    again = make_rows(tmp_path, seed=1).batches(0)
    other = make_rows(tmp_path, seed=2).batches(0)
    tokens = [[example.tokens.tolist() for example in batch] for batch in first]
    assert tokens == [[example.tokens.tolist() for example in batch] for batch in again]
    assert tokens != [[example.tokens.tolist() for example in batch] for batch in other]
    assert sum(map(len, first)) == ROWS
    assert rows.batches(1) == []


def test_shares_leave_out_rows_of_a_kind(rows: "train.Rows", tmp_path: Path) -> None:
    """Of 160 rows, a share of a quarter keeps 40, give or take four standard deviations of 5.5."""
    quarter = make_rows(tmp_path, seed=1, shares={"passages": 0.25}).batches(0)
    assert 18 <= sum(map(len, quarter)) <= 62
    assert not make_rows(tmp_path, seed=1, shares={"passages": 0.0}).batches(0)


def test_a_second_folder_is_spread_over_the_blocks(rows: "train.Rows", tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    write_shard(more / "rows-000.npz", "summary")
    mixed = make_rows(tmp_path, seed=1, more=more)
    kinds = Counter(example.kind for batch in mixed.batches(0) for example in batch)
    assert kinds == {"passages": ROWS, "summary": ROWS / train.MORE_PARTS}
    assert mixed.batches(1) == []


def test_a_new_run_begins_with_the_named_block_and_a_continued_one_where_it_was(
    tmp_path: Path,
) -> None:
    training = train.Training(small_reader(), tmp_path, rate=1e-3, processes=1)
    training.begin_at(4)
    assert training.block == 4
    training.steps = 7
    training.begin_at(2)
    assert training.block == 4


def test_shares_are_read_by_kind() -> None:
    assert train.read_shares(["short=0.5", "claim=0"]) == {"claim": 0.0, "short": 0.5}


def test_one_process_computes_what_two_do(rows: "train.Rows", tmp_path: Path) -> None:
    """Up to the order of sums, in bfloat16, and what AdamW makes of it in three steps of 1e-3."""
    batches = rows.batches(0)[:3]
    one = run(tmp_path / "one", batches, processes=1)
    two = run(tmp_path / "two", batches, processes=2)
    for name, weights in one.items():
        assert torch.allclose(weights, two[name], atol=3e-3), name


@pytest.mark.parametrize("processes", [1, 2])
def test_a_continued_run_computes_the_same_weights(
    processes: int, rows: "train.Rows", tmp_path: Path
) -> None:
    batches = rows.batches(0)[:4]
    unbroken = run(tmp_path / "unbroken", batches, processes)
    run(tmp_path / "broken", batches[:2], processes)
    continued = run(tmp_path / "broken", batches, processes)
    for name, weights in unbroken.items():
        assert torch.equal(weights, continued[name]), name
    start = small_reader().state_dict()
    assert not torch.equal(unbroken["cls.weight"], start["cls.weight"])


def test_the_rate_warms_up_stays_and_decays(rows: "train.Rows", tmp_path: Path) -> None:
    training = train.Training(small_reader(), tmp_path, rate=0.6, processes=1)
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


def test_a_run_of_known_length_ends_after_a_falling_rate(
    rows: "train.Rows", tmp_path: Path
) -> None:
    """Of 4 batches, the rate falls over the last quarter; there are rows for 5."""
    training = train.Training(small_reader(), tmp_path, rate=1e-3, processes=1)
    pause = tmp_path / "PAUSE"
    train.train(training, rows, tmp_path, pause=pause, save_seconds=1e9, batches_in_all=4)
    assert training.steps == 4
    assert training.decay == (3, 1)
    training.end()


def test_a_file_that_says_so_begins_the_decay(tmp_path: Path) -> None:
    training = train.Training(small_reader(), tmp_path, rate=1e-3, processes=1)
    (tmp_path / "DECAY").write_text("150\n")
    train.begin_decay(training, tmp_path / "DECAY", None)
    assert training.decay == (0, 150)


def test_the_embeddings_are_on_the_device_of_the_reader_but_in_no_checkpoint() -> None:
    reader = small_reader().to("meta")
    assert reader.embeddings.device.type == "meta"
    assert "embeddings" not in reader.state_dict()


def test_all_layers_can_be_trained(tmp_path: Path) -> None:
    reader = small_reader()
    reader.freeze(0)
    assert all(parameter.requires_grad for parameter in reader.blk.parameters())


def test_an_adapter_begins_as_nothing_and_leaves_all_weights_as_they_are(
    rows: "train.Rows", tmp_path: Path
) -> None:
    batch = rows.batches(0)[0]
    plain = small_reader()
    reader = small_reader()
    reader.adapt(4, rank=2)
    with torch.no_grad():
        before = train.forward(reader, batch)
        assert torch.equal(before, train.forward(plain, batch))
    training = train.Training(reader, tmp_path, rate=0.1, processes=1)
    training.step(batch)
    weights = {name.replace(".linear", ""): values for name, values in reader.state_dict().items()}
    for name, values in plain.state_dict().items():
        assert torch.equal(weights[name], values), name
    with torch.no_grad():
        assert not torch.equal(train.forward(reader, batch), before)


def test_an_adapter_is_read_with_its_weights_and_written_alone(
    rows: "train.Rows", tmp_path: Path
) -> None:
    """Rank 2 on 8 layers of 12: 6 maps each, of two parts."""
    batch = rows.batches(0)[0]
    reader = small_reader()
    reader.adapt(4, rank=2)
    with torch.no_grad():
        for parameter in reader.trained():
            parameter.copy_(torch.randn(parameter.shape))
    loaded = small_reader()
    network.load_weights(loaded, reader.state_dict())
    with torch.no_grad():
        assert torch.equal(train.forward(loaded, batch), train.forward(reader, batch))
    file = tmp_path / "adapter.gguf"
    convert.write_adapter(dict(reader.state_dict()), file)
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    assert len(tensors) == 8 * 6 * 2
    first = tensors["blk.4.ffn_up.weight.lora_b"]
    expected = reader.blk[4].ffn_up.lora_b.detach().numpy()
    assert np.allclose(first.data, expected, atol=2e-3)


def test_a_batch_in_small_parts_has_the_losses_of_the_whole(
    rows: "train.Rows", monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = rows.batches(0)[0]
    whole = train.backward(small_reader(), batch)
    monkeypatch.setattr(train, "MICRO_BATCH_TOKENS", 64)
    assert train.backward(small_reader(), batch) == pytest.approx(whole, abs=1e-2)
