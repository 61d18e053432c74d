-- Graphs of jobs: who waits for whose end.

-- A graph of jobs, named by the id of its first one. Its row is the lock: whatever changes how its steps
-- stand holds it, before any row of a live job.
CREATE TABLE IF NOT EXISTS mutirao_graph (
    id bigint PRIMARY KEY,
    name varchar(200) CHECK (char_length(name) >= 1),
    -- How many steps have not ended.
    unfinished int NOT NULL,
    -- Nothing more is started, because a step that asks for compensation has failed.
    undoing boolean NOT NULL DEFAULT false,
    created_at bigint NOT NULL DEFAULT (${now})
) ENGINE InnoDB ${bytes}
--;
-- A job's place in a graph. `id` is that of the job that had the place first, `job` the one that has it
-- now: they differ once a dead step was redriven.
CREATE TABLE IF NOT EXISTS mutirao_step (
    id bigint PRIMARY KEY,
    job bigint NOT NULL,
    graph bigint NOT NULL,
    depth int NOT NULL,
    stage text NOT NULL,
    on_dead varchar(20) NOT NULL CHECK (on_dead IN ('stop', 'continue', 'compensate')),
    -- The gate that it waits at, and how the step ended; NULL: it waits for nothing, it has not.
    gate bigint,
    outcome varchar(20),
    -- JSON: the steps whose results are its arguments; the job that undoes it.
    needs longtext,
    compensate longtext,
    UNIQUE mutirao_step_job (job),
    INDEX mutirao_step_graph (graph),
    INDEX mutirao_step_gate (gate)
) ENGINE InnoDB ${bytes}
--;
-- What steps wait at: so many steps have to end first. Named by the first that waits there.
CREATE TABLE IF NOT EXISTS mutirao_gate (
    id bigint PRIMARY KEY,
    unfinished int NOT NULL
) ENGINE InnoDB ${bytes}
--;
-- Which steps lead to which gates.
CREATE TABLE IF NOT EXISTS mutirao_edge (
    step bigint NOT NULL,
    gate bigint NOT NULL,
    PRIMARY KEY (step, gate),
    INDEX mutirao_edge_gate (gate)
) ENGINE InnoDB ${bytes}
