-- SQLite takes functions of JSON for unsafe in what a schema says, before 3.42 at least: with
-- `PRAGMA trusted_schema = OFF`, as it advises, no table of a file could be read that had them in a CHECK.
-- Triggers do it, with json_tree, which it takes for safe.

--! made again
CREATE TABLE mutirao_job (
    id integer PRIMARY KEY AUTOINCREMENT,
    -- SQLite would keep a value of any type.
    task text NOT NULL CHECK (typeof(task) = 'text' AND length(task) BETWEEN 1 AND 200),
    args text NOT NULL DEFAULT '{}' CHECK (typeof(args) = 'text'),
    -- The names of lanes in which jobs take turns begin with the character 31, those of jobs whose
    -- doorbell was rung with 29.
    queue text NOT NULL DEFAULT 'default' CHECK (
        typeof(queue) = 'text' AND length(queue) BETWEEN 1 AND 100 AND unicode(queue) NOT IN (29, 31)
    ),
    priority integer NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    -- Programs read it in whatever time zone, and many hold the years 1 to 9999 only.
    run_at integer NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000)
        CHECK (run_at BETWEEN -62122550400000000 AND ${parked} - 1),
    enqueued_at integer NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000)
        CHECK (typeof(enqueued_at) = 'integer'),
    max_attempts integer CHECK (
        max_attempts IS NULL OR typeof(max_attempts) = 'integer' AND max_attempts >= 1
    ),
    timeout real CHECK (
        timeout IS NULL OR typeof(timeout) = 'real' AND timeout > 0 AND timeout < 1e10
    ),
    key text CHECK (key IS NULL OR typeof(key) = 'text' AND length(key) BETWEEN 1 AND 200),
    fingerprint text, -- by which equal jobs are found
    tags text CHECK (tags IS NULL OR typeof(tags) = 'text'),
    metadata text CHECK (metadata IS NULL OR typeof(metadata) = 'text'),
    traceparent text,
    -- Whose job it is.
    tenant text CHECK (length(tenant) BETWEEN 1 AND 200),
    "group" text CHECK (length("group") BETWEEN 1 AND 200),
    redrive_of integer,
    on_dead_of integer,
    -- Of the update that it is about: the key's row leads here.
    version numeric CHECK (version IS NULL OR typeof(version) IN ('integer', 'real'))
)
--;
-- Where a script makes the schema, nothing has brought these back.
CREATE INDEX IF NOT EXISTS mutirao_job_redrive_of ON mutirao_job (redrive_of) WHERE redrive_of IS NOT NULL
--;
CREATE INDEX IF NOT EXISTS mutirao_job_on_dead_of ON mutirao_job (on_dead_of) WHERE on_dead_of IS NOT NULL
--;
CREATE INDEX IF NOT EXISTS mutirao_job_fingerprint ON mutirao_job (fingerprint, id) WHERE fingerprint IS NOT NULL
--;
CREATE INDEX IF NOT EXISTS mutirao_job_key ON mutirao_job (key, id) WHERE key IS NOT NULL
--;
CREATE INDEX IF NOT EXISTS mutirao_job_publication ON mutirao_job (id) WHERE task GLOB 'topic:*'
--;
-- Text that is not JSON at all is refused by json_tree itself: "malformed JSON".
--: type_of text
(SELECT type FROM json_tree(${text}) LIMIT 1)
--;
CREATE TRIGGER mutirao_job_inserted BEFORE INSERT ON mutirao_job
BEGIN
    SELECT CASE
        WHEN ${type_of: NEW.args} IS NOT 'object'
            THEN RAISE(ABORT, 'mutirao_job.args has to be a JSON object')
        WHEN NEW.tags IS NOT NULL AND ${type_of: NEW.tags} IS NOT 'array'
            THEN RAISE(ABORT, 'mutirao_job.tags has to be a JSON array')
        WHEN NEW.metadata IS NOT NULL AND ${type_of: NEW.metadata} IS NOT 'object'
            THEN RAISE(ABORT, 'mutirao_job.metadata has to be a JSON object')
    END;
END
--;
CREATE TRIGGER mutirao_job_changed BEFORE UPDATE OF args, tags, metadata ON mutirao_job
BEGIN
    SELECT CASE
        WHEN ${type_of: NEW.args} IS NOT 'object'
            THEN RAISE(ABORT, 'mutirao_job.args has to be a JSON object')
        WHEN NEW.tags IS NOT NULL AND ${type_of: NEW.tags} IS NOT 'array'
            THEN RAISE(ABORT, 'mutirao_job.tags has to be a JSON array')
        WHEN NEW.metadata IS NOT NULL AND ${type_of: NEW.metadata} IS NOT 'object'
            THEN RAISE(ABORT, 'mutirao_job.metadata has to be a JSON object')
    END;
END
