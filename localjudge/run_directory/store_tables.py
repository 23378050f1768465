"""The tables of `run.sqlite`, and the statements that write and read them.

sample    unit ──> request ──path──> node, node, ...    a shared context is stored once
                      └──> answer                       committed as soon as it arrives
"""

VERSION = 1
"""Of the tables, stored as `user_version`."""
PROMPT = """
(SELECT group_concat(text, '') FROM (
    SELECT node.text AS text FROM json_each(request.path) AS step
    JOIN node ON node.id = step.value ORDER BY step.key))
"""
TABLES = f"""
-- The data as it was read, one JSON object for each sample, in the order of the data, with its
-- group if it has one; `extras` are the columns that are not fields, as a JSON object.
CREATE TABLE sample (
    id TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    content TEXT NOT NULL,
    extras TEXT NOT NULL,
    cluster TEXT
);
CREATE INDEX sample_in_order ON sample (position);
-- A piece of prompt. `pieces` lists [code points, 1 if it is our own text and 0 if it is the
-- user's] along `text`.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    pieces TEXT NOT NULL
);
-- The valid answers: grammars (regular expressions) and the label of each value, as JSON.
CREATE TABLE shape (id INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE);
-- One question: ids of its nodes, root first, as a JSON list.
CREATE TABLE request (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    shape INTEGER NOT NULL REFERENCES shape,
    path TEXT NOT NULL
);
-- The model's answer: `p_yes`, or `error`.
CREATE TABLE answer (
    request INTEGER PRIMARY KEY REFERENCES request,
    p_yes REAL,
    valid_mass REAL,
    raw TEXT,
    reason TEXT,
    error TEXT
);
-- Who asked: the unit at this position of a sample's verdicts; `window` numbers the parts of a long
-- input from 1, and is 0 for a whole input; `judge` numbers the judges of a jury from 0, as the
-- manifest lists them.
CREATE TABLE unit (
    sample_id TEXT NOT NULL,
    metric TEXT NOT NULL,
    position INTEGER NOT NULL,
    judge INTEGER NOT NULL,
    window INTEGER NOT NULL,
    request INTEGER NOT NULL REFERENCES request,
    PRIMARY KEY (sample_id, metric, position, judge, window)
) WITHOUT ROWID;
CREATE VIEW verdict AS
    SELECT unit.sample_id, unit.metric, unit.position, unit.judge, unit.window, {PROMPT} AS prompt,
           answer.p_yes, answer.valid_mass, answer.raw, answer.reason, answer.error
    FROM unit
    JOIN request ON request.id = unit.request
    LEFT JOIN answer ON answer.request = unit.request;
-- Answers that were not asked for here, and their origin: the directory of another run, or `an open
-- judge`.
CREATE TABLE reused (request INTEGER PRIMARY KEY REFERENCES request, source TEXT NOT NULL);
"""
# Equal samples are not written again, because a resumed run would double the size of its log.
PUT_SAMPLE = """
INSERT INTO sample (position, id, content, extras, cluster) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    position = excluded.position,
    content = excluded.content,
    extras = excluded.extras,
    cluster = excluded.cluster
WHERE (position, content, extras, cluster)
    IS NOT (excluded.position, excluded.content, excluded.extras, excluded.cluster)
"""
PUT_NODE = "INSERT OR IGNORE INTO node (sha256, text, pieces) VALUES (?, ?, ?)"
PUT_SHAPE = "INSERT OR IGNORE INTO shape (content) VALUES (?)"
PUT_REQUEST = """
INSERT OR IGNORE INTO request (key, shape, path)
SELECT ?, (SELECT id FROM shape WHERE content = ?), json_group_array(id)
FROM (
    SELECT node.id AS id FROM json_each(?) AS step
    JOIN node ON sha256 = step.value ORDER BY step.key)
"""
PUT_UNIT = "INSERT OR IGNORE INTO unit SELECT ?, ?, ?, ?, ?, id FROM request WHERE key = ?"
PUT_ANSWER = "INSERT INTO answer SELECT id, ?, ?, ?, ?, ? FROM request WHERE key = ?"
PUT_REUSED = "INSERT INTO reused SELECT id, ? FROM request WHERE key = ?"
ALL_REQUESTS = """
SELECT key, content, (SELECT json_group_array(sha256) FROM (
    SELECT sha256 FROM json_each(request.path) AS step
    JOIN node ON node.id = step.value ORDER BY step.key))
FROM request JOIN shape ON shape.id = shape ORDER BY request.id
"""
"""Key, answer shape, and node keys (as JSON) of each request."""
