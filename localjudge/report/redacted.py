"""Export a run without texts, for readers who may see only its numbers.

    {"row": "run", "signature": ..., "data": ..., "judge": ..., "files": ..., "summary": ...}      first
    {"row": "score", "sample": "danube", "metric": "context_recall", "score": 0.5, ...}            each score
    {"row": "verdict", "sample": "danube", ..., "start": 0, "end": 41, "p_yes": 0.9, "label": 1}   each verdict

The export is an allowlist: numbers, fixed words of localjudge, and hashes, but no text of a user, a model or a file. A
metric that is not built in is called by its position, `metric-2`. Ids and judged texts are HMAC-SHA256 hashes with a
salt as the key, so holders of the salt can identify them. Without a salt ids remain readable and texts are not hashed,
because the hash of a short text can be guessed. The same run and salt give the same bytes.
"""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from typing import Any, Literal

from localjudge.analysis.labels import labels_of
from localjudge.errors import InputError
from localjudge.metrics import catalog
from localjudge.record.directory import open_regular
from localjudge.record.files import ROW_FILES, SUMMARY
from localjudge.record.manifest import EngineIdentity
from localjudge.record.result_rows import ScoreRow, VerdictRow, json_line
from localjudge.record.run import Run, file_sha256
from localjudge.record.store import canonical_sha256
from localjudge.resources import write_output

REDACTED_VERSION = 1
SALT = "salt.key"
"""File of the run's salt, in its directory."""
_LEAST_SALT, _NEW_SALT, _MOST_SALT = 16, 32, 1 << 20
_DIGITS = 32
_HASH = re.compile(r"[0-9a-f]{8,64}")
_WORD = re.compile(r"[a-z -]{1,24}")
_VERSION = re.compile(r"[0-9][0-9a-z.+-]{0,23}")
_QUANTISATION = re.compile(r"(\(guessed\) )?[A-Z0-9_]{2,12}")
_LIBRARIES = ("localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core", "spacy")
_Kind = Literal["salt", "sample", "text", "file", "data"]


def salt_of(run: Run) -> bytes:
    """Return the run's salt, which is created if missing.

    Raises InputError for a salt under 16 bytes, which could be guessed, and if it cannot be written.
    """
    file = run.directory / SALT
    if not os.path.lexists(file):
        write_output(file, [secrets.token_bytes(_NEW_SALT)])
    with open_regular(file) as opened:
        salt = opened.read(_MOST_SALT + 1)
    if not _LEAST_SALT <= len(salt) <= _MOST_SALT:
        raise InputError(
            f"the salt in {file} has {len(salt):,} bytes: it takes {_LEAST_SALT} at least and 1 MiB at most",
            hint="remove it: the next export makes one",
        )
    return salt


def still_tells(salt: bytes) -> list[str]:
    """Return what a redacted file reveals without any text, one line each, as advice before sharing it."""
    ids = "the ids of the samples stand in it as they are, and checksums by which data can be recognised"
    lines = [
        "it still tells how many samples there are and in which order, how many sentences each has and how long they "
        "are, and every score, probability and verdict",
        "anybody with a text can recognise it by these, with or without the ids: docs/limits.md, Redacted runs",
    ]
    return lines if salt else [ids, *lines]


def redacted_lines(run: Run, salt: bytes = b"") -> Iterator[str]:
    """Yield the lines of the redacted file. Raises RunDirectoryError for an unreadable run."""
    redaction = _Redaction(run, salt)
    yield json_line(redaction.head())
    yield from (json_line(redaction.score(row)) for row in run.iter_scores())
    yield from (json_line(redaction.verdict(row)) for row in run.iter_verdicts())


def _keyed(salt: bytes, kind: _Kind, text: str) -> str:
    message = f"localjudge|{kind}|{text}".encode("utf-8", "surrogatepass")
    return hmac.new(salt, message, hashlib.sha256).hexdigest()[:_DIGITS]


class _Redaction:
    def __init__(self, run: Run, salt: bytes) -> None:
        self._run = run
        self._salt = salt
        self._labels = labels_of(run)
        own = run.manifest.criteria
        self._metric = {
            name: name if catalog.is_ours(name) and name not in own and "(" not in name else f"metric-{place}"
            for place, name in enumerate(run.summary.metrics, 1)
        }

    def head(self) -> dict[str, Any]:
        """Return the run's inputs and results. With a salt it omits the data signature, which could confirm a guess."""
        directory, summary, data = self._run.directory, self._run.summary, self._run.manifest.data
        signature = self._run.manifest.signature
        return {
            "row": "run",
            "schema_version": REDACTED_VERSION,
            "salt_check": _keyed(self._salt, "salt", "") if self._salt else None,
            "signature": signature.partition("|")[0] if self._salt else signature,
            "data": {
                "sha256": self._hashed("data", data.sha256),
                "rows": data.rows,
                "clusters_sha256": self._hashed("data", data.clusters_sha256),
            },
            "judge": self._judge(),
            "files": {name: self._hashed("file", file_sha256(directory / name)) for name in (*ROW_FILES, SUMMARY)},
            "summary": {
                "samples": summary.samples,
                "skipped_rows": summary.skipped_rows,
                "verdicts": summary.verdicts.model_dump(),
                "metrics": {
                    self._metric[name]: metric.model_dump()
                    | {"method": _only(_WORD, metric.method)}
                    | self._corrected(name)
                    for name, metric in summary.metrics.items()
                },
            },
        }

    def _corrected(self, name: str) -> dict[str, Any]:
        corrected = self._labels.corrected.get(name) if self._labels else None
        return {"corrected": corrected.model_dump(include={"mean", "ci95", "labels"})} if corrected else {}

    def score(self, row: ScoreRow) -> dict[str, Any]:
        return {
            "row": "score",
            "sample": self._sample(row.sample_id),
            "metric": self._metric[row.metric],
            **{name: getattr(row, name) for name in ("status", "score", "numerator", "denominator")},
        }

    def verdict(self, row: VerdictRow) -> dict[str, Any]:
        """Return a row of `verdicts.jsonl` without text, reason, error and the votes of a combined run."""
        kept = ("unit", "index", "source", "source_index", "start", "end", "p_yes", "label", "window", "against")
        return {
            "row": "verdict",
            "sample": self._sample(row.sample_id),
            "metric": self._metric[row.metric],
            **{name: getattr(row, name) for name in (*kept, "legal_mass", "position")},
            "failed": row.error is not None,
            **({"text_hash": _keyed(self._salt, "text", row.text)} if self._salt else {}),
        }

    def _judge(self) -> dict[str, Any]:
        """Return the models without revealing names or paths, and the rule for combining their verdicts."""
        judge = self._run.manifest.judge
        thresholds = judge.thresholds
        return {
            "sha256": canonical_sha256(judge.as_json),
            "models": [_of_model(part.engine) for part in judge.each.values() or [judge]],
            "threshold": judge.threshold,
            **({"rule": judge.combined.rule} if judge.combined else {}),
            "thresholds": {self._metric[name]: thresholds[name] for name in self._metric if name in thresholds},
            "versions": {name: _only(_VERSION, judge.versions.get(name)) for name in _LIBRARIES},
        }

    def _sample(self, sample_id: str) -> str:
        return _keyed(self._salt, "sample", sample_id) if self._salt else sample_id

    def _hashed(self, kind: _Kind, sha256: Any) -> str | None:
        """Return a hash of texts, hashed again with the salt so that texts cannot be tried against it."""
        digest = _only(_HASH, sha256)
        return _keyed(self._salt, kind, digest) if digest and self._salt else digest


def _of_model(engine: EngineIdentity) -> dict[str, Any]:
    texts = {
        "model_sha256": _only(_HASH, engine.model_sha256),
        "quantisation": _only(_QUANTISATION, engine.quantisation),
    }
    return {"model_size": engine.model_size, "n_ctx": engine.n_ctx, **texts}


def _only(pattern: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None
