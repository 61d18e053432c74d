-- Keys that at most one job holds, and jobs of a key that supersede each other or come one after the other.

-- The job that holds a key, or held it last. A key is the task's and the queue's, or the scope's:
-- then they are empty. Nothing is released when a job ends: whoever wants the key looks whether its
-- job is live. So a job without a key pays nothing, and one with a key next to nothing.
CREATE TABLE IF NOT EXISTS mutirao_key (
    scope varchar(200) NOT NULL,
    task varchar(200) NOT NULL,
    queue varchar(100) NOT NULL,
    `key` varchar(200) NOT NULL CHECK (char_length(`key`) >= 1),
    -- 0: whoever holds its lock is about to write the first one.
    job bigint NOT NULL,
    -- The running job that it waits for.
    after bigint,
    -- When the first of those was enqueued that it replaced, one after the other.
    since bigint NOT NULL,
    -- Seconds that it holds the key once it has finished; 1e300: until it is pruned.
    unique_for double CHECK (unique_for > 0),
    PRIMARY KEY (scope, task, queue, `key`),
    INDEX mutirao_key_job (job),
    INDEX mutirao_key_after (after)
) ENGINE InnoDB ${bytes}
--;
-- The job of each key that was enqueued last, for tasks with a supersede rule. A key is the task's
-- and the queue's, or the scope's: then they are empty.
CREATE TABLE IF NOT EXISTS mutirao_supersede_last (
    scope varchar(200) NOT NULL,
    task varchar(200) NOT NULL,
    queue varchar(100) NOT NULL,
    `key` varchar(200) NOT NULL CHECK (char_length(`key`) >= 1),
    last bigint NOT NULL,
    -- The last one that succeeded, if after it nobody had tried any when `last` was enqueued, and somebody
    -- wants to know.
    done bigint,
    PRIMARY KEY (scope, task, queue, `key`),
    INDEX mutirao_supersede_last_job (last)
) ENGINE InnoDB ${bytes}
--;
-- Who waits for the end of whom: as long as the other is live. The last two columns are for databases
-- where a job can be taken between a decision about it and the commit; here its row is locked.
CREATE TABLE IF NOT EXISTS mutirao_supersede_wait (
    job bigint PRIMARY KEY,
    after bigint NOT NULL,
    how text,
    args longtext,
    INDEX mutirao_supersede_wait_after (after)
) ENGINE InnoDB ${bytes}
--;
-- The tasks that have a rule in the code of workers, and who shares keys there. The rule itself is theirs.
CREATE TABLE IF NOT EXISTS mutirao_supersede_task (
    task varchar(200) PRIMARY KEY CHECK (char_length(task) >= 1),
    scope varchar(200)
) ENGINE InnoDB ${bytes}
--;
-- The jobs of such tasks that SQL enqueued with a key. They are parked until somebody who has the rule
-- has asked it, in the order of their ids.
CREATE TABLE IF NOT EXISTS mutirao_unjudged (
    job bigint PRIMARY KEY,
    scope varchar(200) NOT NULL,
    task varchar(200) NOT NULL,
    queue varchar(100) NOT NULL,
    `key` varchar(200) NOT NULL,
    INDEX mutirao_unjudged_key (scope, task, queue, `key`, job)
) ENGINE InnoDB ${bytes}
