-- NULL takes a byte.
ALTER TABLE mutirao_job ADD COLUMN fingerprint text
--;
CREATE INDEX mutirao_job_fingerprint ON mutirao_job (fingerprint, id) WHERE fingerprint IS NOT NULL
--;
-- The job that holds a key, or held it last. A key is the task's and the queue's, or the scope's:
-- then they are empty. Nothing is released when a job ends: whoever wants the key looks whether its
-- job is live. So a job without a key pays nothing, and one with a key next to nothing.
CREATE TABLE mutirao_key (
    scope text NOT NULL CHECK (length(scope) <= 200),
    task text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    job integer NOT NULL,
    -- The running job that it waits for.
    after integer,
    -- When the first of those was enqueued that it replaced, one after the other.
    since integer NOT NULL,
    -- Seconds that it holds the key once it has finished.
    unique_for real CHECK (unique_for > 0),
    PRIMARY KEY (scope, task, queue, key)
) WITHOUT ROWID
--;
CREATE INDEX mutirao_key_job ON mutirao_key (job)
--;
CREATE INDEX mutirao_key_after ON mutirao_key (after) WHERE after IS NOT NULL
