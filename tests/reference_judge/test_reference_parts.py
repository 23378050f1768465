"""The parts of the judge, each by itself."""

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize
from gguf.quants import quantize
from reference_judge import derivation, layout, rules
from reference_judge.committed import LONGEST, Inputs
from reference_judge.model_file import charsmap

pytestmark = pytest.mark.engine


def test_the_previous_word_s_head_prefers_distance_1_by_far(known: Inputs) -> None:
    logits = known.scalars.previous.logits(known.scalars.frequencies, np.arange(LONGEST))
    others = np.delete(logits, 1)
    assert logits[1] - others.max() > 18  # all 8,191 others together weigh less than 8191 * e^-18 = 0.0001


def test_the_embedding_loses_nothing_that_matters_in_q8_0(known: Inputs) -> None:
    rows = layout.embedding(known.vocabulary)
    read_back = dequantize(quantize(rows, GGMLQuantizationType.Q8_0), GGMLQuantizationType.Q8_0)
    plain = np.ones(len(rows), dtype=bool)
    plain[[known.vocabulary.ids["0"], known.vocabulary.ids["1"]]] = False  # their verdict shares a block with codes
    assert np.abs(read_back[plain] - rows[plain]).max() < 0.001


def test_identity_codes_of_different_classes_are_far_below_the_threshold_of_a_match(known: Inputs) -> None:
    tokens = [token for token in known.vocabulary.tokens if token.weight > 0][::40]
    codes = np.array([layout.identity_code(token) for token in tokens])
    same = np.array([[one.identity == other.identity for other in tokens] for one in tokens])
    assert (codes @ codes.T)[~same].max() < 0.75


def test_a_charsmap_s_array_is_as_long_as_it_says() -> None:
    blob = charsmap({"É": "e", "1,000": "1000"})
    length = int.from_bytes(blob[:4], "little")
    assert length % 4 == 0
    assert blob[4 + length :] == b"e\x001000\x00"


def test_evidence_is_the_log_odds_ratio_of_finding_a_word() -> None:
    # 180 trials each; found 90 times in right texts and 18 times in wrong ones. The only class sets its own prior:
    # (90 + 20 * .5) / 200 = .5 and (18 + 20 * .1) / 200 = .1; log(.5/.1) - log(.5/.9) = log 9 = 2.197; / 6 = .366
    trials = derivation.Trials.none()
    for number in range(180):
        right = frozenset({"w"} if number < 90 else set())
        wrong = frozenset({"w"} if number < 18 else set())
        trials.add(frozenset({"w"}), right, [wrong])
    assert derivation.weights(trials, {"w": 0.5})["w"] == pytest.approx(np.log(9) / 6)


def test_a_rule_s_weights_keep_their_sign() -> None:
    chance = np.random.default_rng(1)
    features = chance.normal(size=(200, 2))
    labels = (features[:, 0] - features[:, 1] + chance.normal(size=200) > 0).astype(np.int64)
    rule = rules.fit(features, labels, np.repeat(["a", "b"], 100), [1, 1])
    assert rule[0] > 0
    assert rule[1] == 0  # wants to be negative, and may not
