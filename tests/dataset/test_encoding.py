import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.dataset import load
from localjudge.dataset.encoding import UTF_8, WINDOWS_1252, decode_bytes, detect_encoding
from localjudge.errors import DataError

GERMAN = "Müller zahlt 5 €. „Über Größe“ spricht er häufig – natürlich."
FRENCH = "L'été, créée à Besançon : « où êtes-vous ? »"


@pytest.mark.parametrize("text", [GERMAN, FRENCH, "Señor Núñez, ¿qué?", "plain"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.csv.gz"])
def test_every_encoding_gives_the_same_samples(
    tmp_path: Path, text: str, encoding: str, name: str
) -> None:
    row = {"question": text, "answer": "It is."}
    content = f'question,answer\n"{text}",It is.\n'
    if "json" in name:
        content = json.dumps([row] if name == "a.json" else row, ensure_ascii=False)
    encoded = content.encode(encoding)
    if name.endswith(".gz"):
        encoded = gzip.compress(encoded)
    (tmp_path / name).write_bytes(encoded)
    data = load(tmp_path / name)
    assert data.fingerprint == load([row]).fingerprint
    is_remarked = encoding == "cp1252" and not text.isascii()
    assert data.windows_1252 == ((str(tmp_path / name),) if is_remarked else ())


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Привет, как дела?", "cp1251"),
        ("Привет, как дела?", "koi8-r"),
        ("Καλημέρα κόσμε", "cp1253"),
        ("東京は日本の首都です。", "shift_jis"),
        ("北京是中国的首都。", "gbk"),
        ("서울은 한국의 수도이다.", "euc-kr"),
    ],
)
def test_other_encodings_are_refused_and_not_misread(
    tmp_path: Path, text: str, encoding: str
) -> None:
    (tmp_path / "a.csv").write_bytes(f'question,answer\n"{text}",yes\n'.encode(encoding))
    with pytest.raises(DataError, match="which is not UTF-8"):
        load(tmp_path / "a.csv")


def test_one_damaged_byte_in_utf8_spoils_its_row_only(tmp_path: Path) -> None:
    rows = [f"question,answer\n{GERMAN},yes\n".encode(), b"caf\xe9,no\n"]
    (tmp_path / "a.csv").write_bytes(b"".join(rows))
    data = load(tmp_path / "a.csv", skip_bad_rows=True)
    assert [sample.user_input for sample in data.samples] == [GERMAN]
    assert (data.skipped, data.windows_1252) == (1, ())


def test_a_late_letter_decides_for_the_whole_file(tmp_path: Path) -> None:
    """The encoding is not guessed from the beginning of the file."""
    lines = ["question", *["plain"] * 20_000, "café"]
    (tmp_path / "a.csv").write_bytes("\n".join(lines).encode("cp1252"))
    assert load(tmp_path / "a.csv").samples[-1].user_input == "café"


@given(st.text(), st.integers(1, 5))
def test_valid_utf8_is_utf8_however_it_is_cut(text: str, size: int) -> None:
    data = text.encode()
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    assert detect_encoding(blocks) == UTF_8


def test_whole_files_are_decoded_too() -> None:
    assert decode_bytes(GERMAN.encode("cp1252")) == (GERMAN, WINDOWS_1252)
    assert decode_bytes(GERMAN.encode("utf-16")) == (GERMAN, "utf-16")
    assert decode_bytes(b"a\xe9 \xc3\xa9") == ("a\udce9 é", UTF_8)
