-- The job of each key that was enqueued last, for tasks with a supersede rule. A key is the task's
-- and the queue's, or the scope's: then they are empty.
CREATE TABLE mutirao_series (
    scope text NOT NULL CHECK (length(scope) <= 200),
    task text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    last integer NOT NULL,
    PRIMARY KEY (scope, task, queue, key)
) WITHOUT ROWID
--;
CREATE INDEX mutirao_series_last ON mutirao_series (last)
--;
-- Who waits for the end of whom: as long as the other is live. The last two columns are for databases
-- where a job can be taken between a decision about it and the commit; here there is one writer.
CREATE TABLE mutirao_turn (
    job integer PRIMARY KEY,
    after integer NOT NULL,
    how text,
    args text
)
--;
CREATE INDEX mutirao_turn_after ON mutirao_turn (after)
