"""A log of inspect as rows, one for each sample: `.eval`, a zip archive, or `.json`, one object.

    .eval     header.json, samples/<id>_epoch_<n>.json, ...
    .json     {"version": 2, "eval": {...}, "samples": [{"id": ..., "epoch": 1, "input": ..., "target": ..., ...}]}

(inspect_ai 0.3.) Of a sample is kept what was asked, expected, answered and scored; messages, events and what else
tells how it was done stay in the log. A sample of a later epoch is called as inspect calls its file,
`<id>_epoch_<n>`. A sample of an archive is in memory while it is read, a log in JSON as a whole.

The members of an archive are packed with zstd, which the standard library knows from Python 3.14 on: pyarrow unpacks
them, in every version.
"""

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from localjudge.dataset.arrow_reader import pyarrow_for
from localjudge.dataset.json_values import DECODER, reason
from localjudge.dataset.problems import Place, Problem
from localjudge.dataset.rows import ROW, RawRow, raw_row
from localjudge.dataset.sources import check_expansion
from localjudge.errors import DataError

MAGIC = b"PK\x03\x04"
_SAMPLES = "samples/"
_JSON = ".json"
_ZSTD = 93
_LOCAL_HEADER = 30
"""Bytes before the name in the header of a member; the lengths of its name and its extra field are the last four."""
_KEPT = ("id", "epoch", "input", "choices", "target", "output", "scores", "metadata")


def is_log(values: Mapping[str, Any]) -> bool:
    """Whether an object is a log with its samples."""
    return values.keys() >= {"version", "eval", "samples"} and isinstance(values["samples"], list)


def rows_of_log(values: Mapping[str, Any], source: str) -> Iterator[RawRow | Problem]:
    """The samples of a log that is one object."""
    for number, sample in enumerate(values["samples"], 1):
        yield raw_row(_row(sample), Place(source, row=number))


def read_archive(stream: IO[bytes], source: str) -> Iterator[RawRow | Problem]:
    """The samples of a log that is a zip archive. Raises DataError for any other archive and for a damaged one."""
    try:
        with zipfile.ZipFile(stream if stream.seekable() else io.BytesIO(stream.read())) as archive:
            for number, member in enumerate(_samples(archive, source), 1):
                yield _read_sample(_bytes_of(archive, member, source), Place(source, row=number))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{source} cannot be unpacked: {error}", hint="the file is damaged or not complete") from error


def _samples(archive: zipfile.ZipFile, source: str) -> Iterable[zipfile.ZipInfo]:
    members = archive.infolist()
    if not any(member.filename in {"header.json", "_journal/start.json"} for member in members):
        raise DataError(
            f"{source} is a zip archive or an Excel workbook", hint="save the sheet as CSV, or unpack the archive"
        )
    return (member for member in members if member.filename.startswith(_SAMPLES) and member.filename.endswith(_JSON))


def _bytes_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str) -> bytes:
    check_expansion(source, member.compress_size, member.file_size)
    if member.compress_type != _ZSTD:
        return archive.read(member)
    pyarrow = pyarrow_for(f"{source} is packed with zstd")
    file = archive.fp
    if file is None:
        raise zipfile.BadZipFile("the archive is closed")
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER)
    name, extra = (int.from_bytes(header[place : place + 2], "little") for place in (26, 28))
    file.seek(name + extra, io.SEEK_CUR)
    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(file.read(member.compress_size)), "zstd") as unpacked:
            content = bytes(unpacked.read(member.file_size))
    except (pyarrow.ArrowException, OSError) as error:
        raise zipfile.BadZipFile(str(error)) from error
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"the checksum of {member.filename} is wrong")
    return content


def _read_sample(content: bytes, place: Place) -> RawRow | Problem:
    try:
        value = DECODER.decode(content.decode())
    except (ValueError, RecursionError) as error:
        return Problem.at(place, None, f"no valid JSON: {reason(error)}", ROW)
    return raw_row(_row(value), place)


def _row(sample: Any) -> Any:
    if not isinstance(sample, Mapping):
        return sample
    kept = {name: sample[name] for name in _KEPT if name in sample}
    if isinstance(output := kept.get("output"), Mapping):
        kept["output"] = {name: output[name] for name in ("completion", "model") if name in output}
    epoch = kept.get("epoch")
    if isinstance(epoch, int) and epoch > 1:
        kept["id"] = f"{kept.get('id')}_epoch_{epoch}"
    return kept
