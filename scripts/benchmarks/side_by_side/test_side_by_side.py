"""Test the comparison with two samples, a scripted server, and the installed peers."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from side_by_side.samples import make_samples

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[3]
SERVER = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    answers = [
        '{{"statements": ["It is so."], "statement_scores": [1]}}',
        "I would rather not say.",
    ]

    def do_GET(self):
        self.reply({{"data": []}})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {{"role": "assistant", "content": self.answers.pop(0) if self.answers else "No."}}
        choice = {{"index": 0, "finish_reason": "stop", "message": message}}
        usage = {{"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42}}
        completion = {{"id": "1", "object": "x", "created": 1, "model": "m"}}
        self.reply({{**completion, "choices": [choice], "usage": usage}})

    def reply(self, value):
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        (f"Lake {place} is {depth} metres deep", depth == 5)
        for place in range(60)
        for depth in (5, 9)
    ]
    lines = [
        {
            "dataset": "lakes",
            "context": f"{text} and {place} wide.",
            "statement": f"{text} at its end.",
            "label": label,
        }
        for place, (text, label) in enumerate(rows)
    ]
    (tmp_path / "attribution.dev.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return tmp_path


def test_half_of_the_sentences_are_supported_and_no_two_samples_share_a_context(data: Path) -> None:
    samples = make_samples(data, 12)
    assert (
        sum(sum(sample.labels) for sample in samples) * 2
        == sum(len(sample.labels) for sample in samples)
        == 36
    )
    assert len({context for sample in samples for context in sample.contexts}) == 36
    assert make_samples(data, 5) == samples[:5]
    with pytest.raises(ValueError, match="enough statements for 39 samples"):
        make_samples(data, 60)


@pytest.mark.parametrize(
    ("peer", "module"),
    [
        ("haystack", "haystack"),
        ("deepeval", "deepeval"),
        ("ragas", "ragas"),
        ("inspect", "inspect_ai"),
    ],
)
def test_every_way_has_a_row_and_the_same_command_resumes(
    peer: str, module: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that gets no JSON has no score, and its message is printed; none is judged twice."""
    if find_spec(module) is None:
        pytest.skip("NOT CHECKED: needs the packages of the extra peers: CONTRIBUTING.md")
    server = data / "llama-server"
    server.write_text(SERVER.format(python=sys.executable))
    server.chmod(0o755)
    monkeypatch.setenv("LOCALJUDGE_LLAMA_SERVER", str(server))
    for name in ("localjudge", peer):
        (data / "environments").mkdir(exist_ok=True)
        (data / "environments" / name).symlink_to(sys.prefix)
    paths = {
        "--judge": ROOT / "models" / "lexical.gguf",
        "--data": data,
        "--json": data / "rows.jsonl",
    }
    extent = {"--environments": data / "environments", "--peers": peer, "--rows": 2, "--again": 1}
    options = [str(part) for option in {**paths, **extent}.items() for part in option]
    command = [sys.executable, str(ROOT / "scripts" / "benchmarks" / "side-by-side"), *options]
    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)
    )
    assert first.endswith(second)
    rows = [json.loads(line) for line in (data / "rows.jsonl").read_text().splitlines() if line]
    ours = [row for row in rows if row["way"] == "localjudge"]
    assert [row["turn"] for row in ours] == [1, 1, 2]
    assert ours[0]["score"] == ours[2]["score"]
    assert "|0/1|" in second
    theirs = [row for row in rows if row["way"].lower().startswith(peer)]
    assert all(row["prompt_tokens"] >= 40 for row in theirs)
    assert any(row["score"] is None and row["message"] in second for row in theirs)
    if peer == "haystack":
        assert [(row["score"], row["prompt_tokens"]) for row in theirs[:2]] == [
            (1.0, 40),
            (None, 40),
        ]
