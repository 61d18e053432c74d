-- Who takes turns, and whose turn it is.

-- By which argument the jobs of a task take turns. Written by whoever has it in its code.
CREATE TABLE IF NOT EXISTS mutirao_fairness (
    task varchar(200) PRIMARY KEY CHECK (char_length(task) >= 1),
    `by` varchar(200) NOT NULL CHECK (char_length(`by`) >= 1)
) ENGINE InnoDB ${bytes}
--;
-- Whose turn came last: one row for each lane, which serves all workers.
CREATE TABLE IF NOT EXISTS mutirao_fairness_served (
    worker bigint NOT NULL DEFAULT 0,
    lane varchar(101) NOT NULL,
    fairness varchar(201) NOT NULL,
    PRIMARY KEY (worker, lane)
) ENGINE InnoDB ${bytes}
