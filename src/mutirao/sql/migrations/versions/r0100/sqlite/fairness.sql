-- Who takes turns, and whose turn it is.

-- By which argument the jobs of a task take turns. Written by whoever has it in its code.
CREATE TABLE mutirao_fairness (
    task text PRIMARY KEY CHECK (length(task) BETWEEN 1 AND 200),
    by text NOT NULL CHECK (length(by) BETWEEN 1 AND 200)
) WITHOUT ROWID
--;
-- Whose turn came last. There is one writer at a time: one row serves all workers.
CREATE TABLE mutirao_fairness_served (
    worker integer NOT NULL DEFAULT 0,
    lane text NOT NULL,
    fairness text NOT NULL,
    PRIMARY KEY (worker, lane)
) WITHOUT ROWID
