"""Files that are not what they seem: each is refused by name, before anything is loaded, and never ends the process."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import random_model
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from localjudge import model_registry
from localjudge.engine.llamacpp import gguf as model_check
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.protocol import EngineSettings
from localjudge.errors import ModelError
from localjudge.model_registry import ModelFile
from tests.engine.conftest import ModelMaker

pytestmark = pytest.mark.engine

ALL = slice(None)
KINDS: dict[Any, GGUFValueType] = {
    bool: GGUFValueType.BOOL,
    int: GGUFValueType.UINT32,
    str: GGUFValueType.STRING,
    "split.no": GGUFValueType.UINT16,
    "split.count": GGUFValueType.UINT16,
    "split.tensors.count": GGUFValueType.INT32,
}
SETTINGS = EngineSettings(threads=1, n_ctx=256)


def copy_with(source: Path, target: Path, changes: dict[str, Any], tensors: slice = ALL) -> Path:
    """A copy of a model whose keys are changed, with some of its tensors; None takes a key away."""
    reader = GGUFReader(source)
    kept = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    writer = GGUFWriter(target, changes.get("general.architecture") or kept["general.architecture"].contents())
    for name, field in kept.items():
        if name != "general.architecture" and name not in changes:
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], element)
    for name, value in changes.items():
        if name != "general.architecture" and value is not None:
            writer.add_key_value(name, value, KINDS.get(name) or KINDS[type(value)])
    for tensor in reader.tensors[tensors]:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


@pytest.fixture
def changed(make_model: ModelMaker, tmp_path: Path) -> Callable[..., ModelFile]:
    """A small model with some of its keys changed."""

    def change(changes: dict[str, Any], tensors: slice = ALL) -> ModelFile:
        path = copy_with(make_model().path, tmp_path / "changed.gguf", changes, tensors)
        return model_registry.find(str(path))

    return change


def refusal(file: ModelFile) -> ModelError:
    """How the model is refused. Fails if it is not, or without a hint."""
    with pytest.raises(ModelError) as caught:
        load(file, SETTINGS)
    assert str(file.path) in str(caught.value)
    assert caught.value.hint
    return caught.value


def test_an_ordinary_model_loads(changed: Callable[..., ModelFile]) -> None:
    """The copy itself changes nothing."""
    model = load(changed({}), SETTINGS)
    assert (model.n_ctx, model.self_check.rewind_mode) == (256, "cut")
    model.close()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"general.type": "adapter", "adapter.type": "lora"}, "not a model, but an adapter"),
        ({"adapter.type": "lora"}, "not a model, but an adapter"),
        ({"general.type": "mmproj"}, "not a model, but of type mmproj"),
        *(
            ({"general.architecture": name}, f"cannot judge: a {name} model")
            for name in ("bert", "t5", "clip", "dream", "eagle3", "wavtokenizer-dec")
        ),
        ({"llama.pooling_type": 3}, "it is an embedding or ranking model"),
        ({"llama.attention.causal": False}, "it is an embedding or ranking model"),
        ({"tokenizer.ggml.model": None}, "holds no tokenizer"),
        ({"tokenizer.ggml.model": "no_vocab"}, "holds no tokenizer"),
        ({"general.architecture": "unheard-of"}, r"unknown model architecture: 'unheard-of'"),
        ({"tokenizer.ggml.model": "unheard-of"}, r"unknown tokenizer: 'unheard-of'"),
        ({"tokenizer.ggml.pre": "unheard-of"}, r"unknown pre-tokenizer type: 'unheard-of'"),
        ({"llama.embedding_length": 32}, r"tensor 'token_embd.weight' has wrong shape"),
        ({"llama.block_count": 3}, r"tensor 'blk.2.attn_norm.weight' not found"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "key not found in model"),
        ({"split.count": 3, "split.no": 0}, "has 3 parts by its header, and 1 by its name"),
    ],
    ids=lambda value: ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_is_refused_by_name(changed: Callable[..., ModelFile], changes: dict[str, Any], what: str) -> None:
    assert what.replace("\\", "") in str(refusal(changed(changes)))


def test_a_vocabulary_is_refused(changed: Callable[..., ModelFile]) -> None:
    assert "holds a vocabulary and no weights" in str(refusal(changed({}, slice(0))))


@pytest.mark.parametrize(
    "changes",
    [
        {"llama.block_count": 600},
        {"llama.expert_used_count": 4},
        {"llama.rope.scaling.type": "unheard-of"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_ends_llama_cpp_does_not_end_us(changed: Callable[..., ModelFile], changes: dict[str, Any]) -> None:
    """llama.cpp aborts the process on these; here another process, and the reason is told."""
    said = str(refusal(changed(changes)))
    assert "the process that tried it ended with SIGABRT" in said
    assert "GGML_ASSERT" in said


def test_control_llama_cpp_aborts_the_process_that_loads_such_a_file(
    changed: Callable[..., ModelFile],
) -> None:
    """Otherwise the test before would show nothing."""
    file = changed({"llama.block_count": 600})
    program = f"from llama_cpp import Llama; Llama({str(file.path)!r}, verbose=False)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode < 0


def test_weights_that_are_not_numbers_are_refused(make_model: ModelMaker, tmp_path: Path) -> None:
    """A half of 0x7E00 is not a number; 64 of them stand where a matrix was."""
    damaged = tmp_path / "nan.gguf"
    data = make_model().path.read_bytes()
    place = len(data) // 2 & ~1
    damaged.write_bytes(data[:place] + b"\x00\x7e" * 64 + data[place + 128 :])
    assert "has invalid data" in str(refusal(model_registry.find(str(damaged))))


def test_a_tokenizer_that_does_not_give_text_back_is_refused(make_model: ModelMaker, tmp_path: Path) -> None:
    """One byte of the word for a letter was changed: `e` comes back as something else."""
    damaged = tmp_path / "vocabulary.gguf"
    data = make_model().path.read_bytes()
    place = data.index(b"\x01\0\0\0\0\0\0\0e\x01\0\0\0\0\0\0\0f")
    damaged.write_bytes(data[: place + 8] + b"\x7f" + data[place + 9 :])
    assert "damaged tokenizer" in str(refusal(model_registry.find(str(damaged))))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(make_model: ModelMaker, tmp_path: Path, share: float) -> None:
    whole = make_model().path.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: int(len(whole) * share)])
    assert re.search("cut off|not within the file bounds", str(refusal(model_registry.find(str(cut)))))


def test_a_model_in_several_files_loads_by_its_first(make_model: ModelMaker, tmp_path: Path) -> None:
    whole = make_model().path
    first = split(whole, tmp_path)
    apart, together = model_check.check(first).weight_bytes, model_check.check(whole).weight_bytes
    assert apart == pytest.approx(together, abs=128)
    load(model_registry.find(str(first)), SETTINGS).close()
    second = first.with_name("big-00002-of-00002.gguf")
    second.write_bytes(second.read_bytes()[:-5000])
    assert "not within the file bounds" in str(refusal(model_registry.find(str(first))))


def test_parts_of_another_model_are_refused(make_model: ModelMaker, tmp_path: Path) -> None:
    """Named as the first of two, and whole by itself."""
    for part in (1, 2):
        shutil.copy(make_model().path, tmp_path / f"big-{part:05d}-of-00002.gguf")
    first = tmp_path / "big-00001-of-00002.gguf"
    assert "has 1 parts by its header, and 2 by its name" in str(refusal(model_registry.find(str(first))))


def split(model: Path, folder: Path) -> Path:
    """The model in two files, each with half of the tensors."""
    files = [folder / f"big-{part:05d}-of-00002.gguf" for part in (1, 2)]
    count = len(GGUFReader(model).tensors)
    for number, tensors in enumerate((slice(count // 2), slice(count // 2, None))):
        copy_with(model, files[number], {"split.no": number, "split.count": 2, "split.tensors.count": count}, tensors)
    return files[0]


def test_the_made_up_models_are_all_judges(make_model: ModelMaker) -> None:
    for architecture in random_model.ARCHITECTURES:
        assert model_check.check(make_model(architecture).path).weight_bytes
