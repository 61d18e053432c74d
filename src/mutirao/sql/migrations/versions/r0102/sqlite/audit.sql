-- What people did to jobs: one row for each action, whatever became of it.

--: now
(CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
--;
-- A moment, as people read it.
--: moment at
strftime('%Y-%m-%dT%H:%M:%S', ${at} / 1000000, 'unixepoch') || printf('.%06dZ', ${at} % 1000000)
--;
-- `seen_at` is written with each batch: an action that runs and was not seen for a minute is lost.
CREATE TABLE mutirao_action (
    id integer PRIMARY KEY AUTOINCREMENT,
    who text NOT NULL CHECK (length(who) BETWEEN 1 AND 200),
    action text NOT NULL CHECK (action IN ('retry', 'change', 'cancel', 'redrive', 'delete')),
    change text,
    filter text,
    ids text, -- a JSON array, where no filter says which
    expected integer,
    matched integer NOT NULL DEFAULT 0,
    done integer NOT NULL DEFAULT 0,
    why text NOT NULL DEFAULT '{}', -- a JSON object: how many were passed over, by their state
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'failed')),
    stop boolean NOT NULL DEFAULT false,
    error text,
    started_at integer NOT NULL,
    seen_at integer NOT NULL,
    finished_at integer
)
--;
CREATE INDEX mutirao_action_started_at ON mutirao_action (started_at)
--;
CREATE VIEW mutirao_audit AS
SELECT
    id, who, action, change, filter, ids, expected, matched, done, matched - done AS passed_over, why,
    CASE WHEN state = 'running' AND seen_at < ${now} - 60000000 THEN 'lost' ELSE state END AS state,
    error,
    ${moment: started_at} AS started_at,
    ${moment: seen_at} AS seen_at,
    ${moment: finished_at} AS finished_at
FROM mutirao_action
