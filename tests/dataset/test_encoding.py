import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest

from localjudge import DataError
from localjudge.dataset import load

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
    expected = {}
    if encoding == "cp1252" and not text.isascii():
        expected = {str(tmp_path / name): "Windows-1252"}
    assert data.encodings == expected


POLISH = "Kto podpisał? Umowę podpisał dyrektor. Strony są związane. Termin minął."
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy. Smlouvu podepsal ředitel, když byl v Plzni."
HUNGARIAN = "Mikor épült a híd? A híd 1849-ben épült, és Széchenyi ötlete volt."
TURKISH = "Sözleşme ne zaman imzalandı? Sözleşme İstanbul'da imzalandı ve değişiklik yapılmadı."
LITHUANIAN = "Kada ir kur? Sutartį pasirašė direktorius, šalys yra įpareigotos, o terminas baigėsi."
PORTUGUESE = "Quando foi? O contrato não foi assinado em março, mas a decisão é válida até amanhã."
RUSSIAN = "Когда это было? Договор подписал директор, и он уже не может его отменить."
GREEK = "Πότε ήταν; Η σύμβαση υπογράφηκε από τον διευθυντή και είναι έγκυρη για όλους."
HEBREW = "מתי נחתם החוזה? החוזה נחתם במרץ על ידי המנהל, והוא לא יכול לבטל אותו, אם אין סיבה."
ARABIC = "متى وقع العقد؟ وقع المدير العقد في مارس، ولا يمكنه إلغاؤه الآن إلا بسبب."
THAI = "สัญญาลงนามเมื่อใด ผู้จัดการลงนามในสัญญาเมื่อเดือนมีนาคม และยกเลิกไม่ได้"
JAPANESE = "契約はいつ署名されましたか。契約は三月に東京で署名された。"
CHINESE = "合同是什么时候签署的？合同于三月在北京签署。双方受其约束。"
KOREAN = "계약은 언제 서명되었습니까? 계약은 3월에 서울에서 서명되었다."


@pytest.mark.parametrize(
    ("text", "encodings"),
    [
        (POLISH, "cp1250 iso8859_2 cp852 mac_latin2"),
        (CZECH, "cp1250 iso8859_2 cp852 mac_latin2"),
        (HUNGARIAN, "cp1250 iso8859_2 cp852"),
        (TURKISH, "cp1254 cp857 mac_turkish"),
        (LITHUANIAN, "cp1257 iso8859_13 cp775"),
        (PORTUGUESE, "cp1252 mac_roman cp850"),
        (GERMAN, "cp1252 cp1250 mac_roman"),
        (FRENCH, "cp1252 mac_roman cp850"),
        ("He said “don’t” – Jürgen’s café isn’t open.", "cp1252 mac_roman"),
        ("Es ist schön in Köln, und es war nicht weit von der Straße.", "cp850 cp437 mac_roman"),
        (RUSSIAN, "cp1251 koi8_r cp866 iso8859_5"),
        (GREEK, "cp1253 iso8859_7 cp737"),
        (HEBREW, "cp1255 iso8859_8 cp862"),
        (JAPANESE, "shift_jis euc_jp"),
        ("橋は誰のものですか。橋は郡のもので、毎年春に修理されます。", "shift_jis euc_jp"),
        (CHINESE, "gbk gb18030"),
        (KOREAN, "euc_kr"),
    ],
)
def test_other_encodings_are_read_and_named_where_the_bytes_decide(
    tmp_path: Path, text: str, encodings: str
) -> None:
    for encoding in encodings.split():
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(f'question;answer\n"{text}";yes\n'.encode(encoding))
        data = load(path)
        assert data.samples[0].user_input == text, encoding
        assert list(data.encodings) == [str(path)]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("北京是中国的首都。", "gbk"),
        ("ışık", "cp1254"),
        ("J\x9frgen", "latin-1"),
        ("a \x81 b \x8d", "latin-1"),
        ("ma–ana", "mac_roman"),
    ],
)
def test_bytes_that_do_not_decide_are_refused(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(f'question,answer\n"{text}",yes\n'.encode(encoding))
    with pytest.raises(DataError, match="which is not UTF-8"):
        load(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "encodings"),
    [
        (POLISH, "cp1250 cp852"),
        (CZECH, "cp1250 cp852"),
        (TURKISH, "cp1254 cp857"),
        (LITHUANIAN, "cp1257 cp775"),
        (PORTUGUESE, "cp1252 mac_roman cp850"),
        (GERMAN, "cp1252 mac_roman"),
        (RUSSIAN, "cp1251 koi8_r cp866"),
        (GREEK, "cp1253 cp737"),
        (HEBREW, "cp1255 iso8859_8 cp862"),
        (ARABIC, "cp1256 iso8859_6"),
        (THAI, "cp874"),
    ],
)
def test_a_few_words_are_read_right_or_refused(tmp_path: Path, text: str, encodings: str) -> None:
    """A reading with wrong letters would change the judged text without a word."""
    words = text.split()
    parts = [" ".join(words[start : start + 4]) for start in range(len(words) - 3)]
    for encoding in encodings.split():
        for part in parts:
            path = tmp_path / "a.csv"
            path.write_bytes(f'question,answer\n"{part}",yes\n'.encode(encoding))
            with suppress(DataError):
                assert load(path).samples[0].user_input == part, encoding


def test_one_damaged_byte_in_utf8_spoils_its_row_only(tmp_path: Path) -> None:
    rows = [f"question,answer\n{GERMAN},yes\n".encode(), b"caf\xe9,no\n"]
    (tmp_path / "a.csv").write_bytes(b"".join(rows))
    data = load(tmp_path / "a.csv", skip_bad_rows=True)
    assert [sample.user_input for sample in data.samples] == [GERMAN]
    assert (data.skipped, dict(data.encodings)) == (1, {})


def test_a_late_letter_decides_for_the_whole_file(tmp_path: Path) -> None:
    """The encoding is not guessed from the beginning of the file."""
    lines = ["question", *["plain"] * 20_000, "café"]
    (tmp_path / "a.csv").write_bytes("\n".join(lines).encode("cp1252"))
    assert load(tmp_path / "a.csv").samples[-1].user_input == "café"


@pytest.mark.parametrize("start", range(2))
def test_valid_utf8_is_utf8_however_it_is_cut(tmp_path: Path, start: int) -> None:
    """The characters have 1 to 4 bytes, so that the blocks of 16 KiB end inside of each."""
    text = "a" * start + "aé€😀" * 20_000
    (tmp_path / "a.csv").write_bytes(f"question\n{text}\n".encode())
    data = load(tmp_path / "a.csv")
    assert (data.samples[0].user_input, dict(data.encodings)) == (text, {})
