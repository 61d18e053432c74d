-- What people did to jobs: one row for each action, whatever became of it.

-- `seen_at` is written with each batch: an action that runs and was not seen for a minute is lost.
CREATE TABLE IF NOT EXISTS mutirao_action (
    id bigint AUTO_INCREMENT PRIMARY KEY,
    who varchar(200) NOT NULL CHECK (char_length(who) >= 1),
    action varchar(20) NOT NULL CHECK (action IN ('retry', 'change', 'cancel', 'redrive', 'delete')),
    `change` text,
    filter text,
    ids longtext, -- a JSON array, where no filter says which
    expected bigint,
    matched bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    why text NOT NULL, -- a JSON object: how many were passed over, by their state
    state varchar(20) NOT NULL DEFAULT 'running'
        CHECK (state IN ('running', 'done', 'stopped', 'failed')),
    stop boolean NOT NULL DEFAULT false,
    error text,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    finished_at bigint,
    INDEX mutirao_action_started_at (started_at)
) ENGINE InnoDB ${bytes}
--;
CREATE OR REPLACE VIEW mutirao_audit AS
SELECT
    id, who, action, `change`, filter, ids, expected, matched, done, matched - done AS passed_over, why,
    CASE WHEN state = 'running' AND seen_at < ${now} - 60000000 THEN 'lost' ELSE state END ${bytes} AS state,
    error,
    ${epoch} + INTERVAL started_at MICROSECOND AS started_at,
    ${epoch} + INTERVAL seen_at MICROSECOND AS seen_at,
    ${epoch} + INTERVAL finished_at MICROSECOND AS finished_at
FROM mutirao_action
