-- Keys that at most one job holds, and jobs of a key that supersede each other or come one after the other.

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
    -- Seconds that it holds the key once it has finished; infinity: until it is pruned.
    unique_for real CHECK (unique_for > 0),
    PRIMARY KEY (scope, task, queue, key)
) WITHOUT ROWID
--;
CREATE INDEX mutirao_key_job ON mutirao_key (job)
--;
CREATE INDEX mutirao_key_after ON mutirao_key (after) WHERE after IS NOT NULL
--;
-- The job of each key that was enqueued last, for tasks with a supersede rule. A key is the task's
-- and the queue's, or the scope's: then they are empty.
CREATE TABLE mutirao_supersede_last (
    scope text NOT NULL CHECK (length(scope) <= 200),
    task text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    last integer NOT NULL,
    -- The last one that succeeded, if after it nobody had tried any when `last` was enqueued, and somebody
    -- wants to know.
    done integer,
    PRIMARY KEY (scope, task, queue, key)
) WITHOUT ROWID
--;
CREATE INDEX mutirao_supersede_last_job ON mutirao_supersede_last (last)
--;
-- Who waits for the end of whom: as long as the other is live. The last two columns are for databases
-- where a job can be taken between a decision about it and the commit; here there is one writer.
CREATE TABLE mutirao_supersede_wait (
    job integer PRIMARY KEY,
    after integer NOT NULL,
    how text,
    args text
)
--;
CREATE INDEX mutirao_supersede_wait_after ON mutirao_supersede_wait (after)
--;
-- The tasks that have a rule in the code of workers, and who shares keys there. The rule itself is theirs.
CREATE TABLE mutirao_supersede_task (
    task text PRIMARY KEY CHECK (length(task) BETWEEN 1 AND 200),
    scope text CHECK (length(scope) <= 200)
) WITHOUT ROWID
--;
-- The jobs of such tasks that SQL enqueued with a key. They are parked until somebody who has the rule
-- has asked it, in the order of their ids.
CREATE TABLE mutirao_unjudged (
    job integer PRIMARY KEY,
    scope text NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL
)
--;
CREATE INDEX mutirao_unjudged_key ON mutirao_unjudged (scope, task, queue, key, job)
