import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import printed
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from made_up_vocabulary import Typed

from localjudge import InputError, Judge, ModelError, model_registry
from localjudge.engine import gguf
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.protocol import EngineSettings
from localjudge.model_registry import ModelFile
from tests.engine.classifiers import NLI_SHAPE, make_classifier
from tests.engine.conftest import ModelMaker

pytestmark = pytest.mark.engine

ALL = slice(None)
KINDS: dict[Any, GGUFValueType] = {
    bool: GGUFValueType.BOOL,
    int: GGUFValueType.UINT32,
    str: GGUFValueType.STRING,
}
KINDS |= {"split.no": GGUFValueType.UINT16, "split.count": GGUFValueType.UINT16}
KINDS["split.tensors.count"] = GGUFValueType.INT32
SETTINGS = EngineSettings(threads=1, n_ctx=256)
Change = Callable[..., ModelFile]


def copy_with(
    source: Path,
    target: Path,
    changes: dict[str, Any],
    tensors: slice = ALL,
    *,
    missing: str = "",
) -> Path:
    """Copy a model with changed keys (None removes a key) and some of its tensors.

    `missing` is the beginning of the names of tensors that are left out.
    """
    reader = GGUFReader(source)
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    writer = GGUFWriter(
        target,
        changes.get("general.architecture") or fields["general.architecture"].contents(),
    )
    for name, field in fields.items():
        if name != "general.architecture" and name not in changes:
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], element)
    for name, value in changes.items():
        if isinstance(value, Typed):
            writer.add_key_value(name, *value)
        elif name != "general.architecture" and value is not None:
            writer.add_key_value(name, value, KINDS.get(name) or KINDS[type(value)])
    for tensor in reader.tensors[tensors]:
        if missing and tensor.name.startswith(missing):
            continue
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


@pytest.fixture
def changed(make_model: ModelMaker, tmp_path: Path) -> Change:
    def change(changes: dict[str, Any], tensors: slice = ALL) -> ModelFile:
        return model_registry.find(
            str(copy_with(make_model().path, tmp_path / "changed.gguf", changes, tensors))
        )

    return change


def refusal(file: ModelFile) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(file, SETTINGS)
    assert str(file.path) in str(caught.value)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"general.type": "adapter", "adapter.type": "lora"}, "but an adapter"),
        ({"general.type": "mmproj"}, "of type mmproj"),
        *(
            ({"general.architecture": name}, f"cannot judge: a {name} model")
            for name in ("t5", "clip")
        ),
        ({"general.architecture": "bert"}, "bert model without a classification head"),
        (
            {"general.architecture": "bert", "bert.pooling_type": 4},
            "classification head is missing",
        ),
        ({"llama.pooling_type": 3}, "embedding or ranking model"),
        ({"llama.attention.causal": False}, "embedding or ranking model"),
        ({"tokenizer.ggml.model": None}, "contains no tokenizer"),
        ({"general.architecture": "unheard-of"}, r"unknown model architecture: 'unheard-of'"),
        ({"tokenizer.ggml.model": "unheard-of"}, r"unknown tokenizer: 'unheard-of'"),
        ({"tokenizer.ggml.pre": "unheard-of"}, r"unknown pre-tokenizer type: 'unheard-of'"),
        ({"llama.embedding_length": 32}, r"tensor 'token_embd.weight' has wrong shape"),
        ({"llama.block_count": 3}, r"tensor 'blk.2.attn_norm.weight' not found"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "key not found"),
        ({"split.count": 3, "split.no": 0}, "3 parts by its header"),
    ],
    ids=lambda value: (
        ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else ""
    ),
)
def test_an_unusable_model_is_refused_by_name(
    changed: Change, changes: dict[str, Any], what: str
) -> None:
    assert what.replace("\\", "") in str(refusal(changed(changes)))


LABELS = "bert.classifier.output_labels"
SCORES = "tokenizer.ggml.scores"


@pytest.mark.parametrize(
    ("changes", "missing", "what"),
    [
        ({LABELS: Typed([1, 2, 3], GGUFValueType.ARRAY, GGUFValueType.INT32)}, "", "outputs"),
        ({LABELS: Typed([0.5], GGUFValueType.ARRAY, GGUFValueType.FLOAT32)}, "", "outputs"),
        ({LABELS: Typed("supported", GGUFValueType.STRING, None)}, "", "outputs"),
        (
            {LABELS: Typed(["x"] * 65, GGUFValueType.ARRAY, GGUFValueType.STRING)},
            "",
            "up to 64",
        ),
        ({LABELS: Typed(["a", "b"], GGUFValueType.ARRAY, GGUFValueType.STRING)}, "", "3 numbers"),
        ({}, "cls.output.weight", "64 numbers for 3 outputs"),
        ({}, "cls.", "head is missing"),
        ({SCORES: -math.inf}, "", "scores"),
        ({SCORES: math.nan}, "", "scores"),
    ],
)
def test_a_hostile_classifier_is_refused_and_a_listing_shows_the_others(
    make_model: ModelMaker, tmp_path: Path, changes: dict[str, Any], missing: str, what: str
) -> None:
    """A head of 64 numbers without its last tensor, wrong labels, or one wrong score of a token."""
    source = make_classifier(make_model, NLI_SHAPE).path
    scores = GGUFReader(source).fields[SCORES].contents()
    if SCORES in changes:
        values = [*scores[:-1], changes[SCORES]]
        changes = {SCORES: Typed(values, GGUFValueType.ARRAY, GGUFValueType.FLOAT32)}
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(source, folder / "good.gguf")
    hostile = copy_with(source, folder / "hostile.gguf", changes, missing=missing)
    assert what in str(refusal(model_registry.find(str(hostile))))
    with pytest.raises(InputError):
        Judge.open(hostile)
    models = json.loads(printed("models", folder, "--json"))["models"]
    reasons = {Path(model["path"]).name: model["cannot_judge"] for model in models}
    assert reasons["good.gguf"] is None
    assert what in reasons["hostile.gguf"]
    assert what in " ".join(printed("models", folder, "--verbose", width=1000).split())


def test_a_header_with_numbers_that_are_none_is_listed(
    make_model: ModelMaker, tmp_path: Path
) -> None:
    heads = Typed([1.5, math.nan], GGUFValueType.ARRAY, GGUFValueType.FLOAT32)
    changes = {"llama.attention.head_count_kv": heads}
    copy_with(make_model().path, tmp_path / "hostile.gguf", changes)
    assert "hostile.gguf" in printed("models", tmp_path, "--verbose")


def test_a_vocabulary_is_refused_and_an_unchanged_copy_is_not(changed: Change) -> None:
    assert "no weights" in str(refusal(changed({}, slice(0))))
    load(changed({}), SETTINGS).close()


@pytest.mark.parametrize(
    "changes",
    [
        {"llama.block_count": 600},
        {"llama.expert_used_count": 4},
        {"llama.rope.scaling.type": "unheard-of"},
    ],
)
def test_an_abort_of_llama_cpp_does_not_end_the_process(
    changed: Change, changes: dict[str, Any]
) -> None:
    assert re.search(
        "the process that tested it ended with SIGABRT.*GGML_ASSERT",
        str(refusal(changed(changes))),
    )


def test_control_llama_cpp_aborts_the_process_that_loads_such_a_file(changed: Change) -> None:
    file = changed({"llama.block_count": 600})
    program = f"from llama_cpp import Llama; Llama({str(file.path)!r}, verbose=False)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode
        < 0
    )


CUT_OFF = "truncated|not within the file bounds"


def put(data: bytes, place: int, value: bytes) -> bytes:
    return data[:place] + value + data[place + len(value) :]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        # The F16 number 0x7E00 is NaN; 64 of them replace a matrix.
        (lambda data: put(data, len(data) // 2 & ~1, b"\x00\x7e" * 64), "has invalid data"),
        # One byte of a token was changed, so `e` decodes differently.
        (
            lambda data: put(
                data, data.index(b"\x01\0\0\0\0\0\0\0e\x01\0\0\0\0\0\0\0f") + 8, b"\x7f"
            ),
            "damaged tokenizer",
        ),
        (lambda data: data[: len(data) // 10], CUT_OFF),
        (lambda data: data[: len(data) * 99 // 100], CUT_OFF),
    ],
    ids=["not numbers", "tokenizer", "a tenth", "99 %"],
)
def test_a_damaged_file_is_refused(
    make_model: ModelMaker, tmp_path: Path, damage: Callable[[bytes], bytes], what: str
) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damage(make_model().path.read_bytes()))
    assert re.search(what, str(refusal(model_registry.find(str(path)))))


def test_a_model_in_several_files_loads_by_its_first(
    make_model: ModelMaker, tmp_path: Path
) -> None:
    whole = make_model().path
    first, second = (tmp_path / f"big-{part:05d}-of-00002.gguf" for part in (1, 2))
    count = len(GGUFReader(whole).tensors)
    keys = {"split.count": 2, "split.tensors.count": count}
    copy_with(whole, first, {"split.no": 0, **keys}, slice(count // 2))
    copy_with(whole, second, {"split.no": 1, **keys}, slice(count // 2, None))
    apart = gguf.read_model(first).weight_bytes
    together = gguf.read_model(whole).weight_bytes
    assert apart == pytest.approx(together, abs=128)
    load(model_registry.find(str(first)), SETTINGS).close()
    second.write_bytes(second.read_bytes()[:-5000])
    assert "file bounds" in str(refusal(model_registry.find(str(first))))


def test_parts_of_another_model_are_refused(make_model: ModelMaker, tmp_path: Path) -> None:
    """A complete model, named as the first of two parts."""
    for part in (1, 2):
        shutil.copy(make_model().path, tmp_path / f"big-{part:05d}-of-00002.gguf")
    first = tmp_path / "big-00001-of-00002.gguf"
    problem = str(refusal(model_registry.find(str(first))))
    assert re.search("1 parts .*header, .*2 .*name", problem)
