-- Graphs of jobs: who waits for whose end.

-- A graph of jobs, named by the id of its first one. Its row is the lock: whatever changes how its steps
-- stand holds it, before any row of a live job.
CREATE TABLE mutirao_graph (
    id integer PRIMARY KEY,
    name text CHECK (length(name) BETWEEN 1 AND 200),
    -- How many steps have not ended.
    unfinished integer NOT NULL,
    -- Nothing more is started, because a step that asks for compensation has failed.
    undoing integer NOT NULL DEFAULT 0,
    created_at integer NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000)
)
--;
-- A job's place in a graph. `id` is that of the job that had the place first, `job` the one that has it
-- now: they differ once a dead step was redriven.
CREATE TABLE mutirao_step (
    id integer PRIMARY KEY,
    job integer NOT NULL,
    graph integer NOT NULL,
    depth integer NOT NULL,
    stage text NOT NULL,
    on_dead text NOT NULL CHECK (on_dead IN ('stop', 'continue', 'compensate')),
    -- The gate that it waits at, and how the step ended; NULL: it waits for nothing, it has not.
    gate integer,
    outcome text,
    -- JSON: the steps whose results are its arguments; the job that undoes it.
    needs text,
    compensate text
)
--;
CREATE UNIQUE INDEX mutirao_step_job ON mutirao_step (job)
--;
CREATE INDEX mutirao_step_graph ON mutirao_step (graph)
--;
CREATE INDEX mutirao_step_gate ON mutirao_step (gate) WHERE gate IS NOT NULL
--;
-- What steps wait at: so many steps have to end first. Named by the first that waits there.
CREATE TABLE mutirao_gate (
    id integer PRIMARY KEY,
    unfinished integer NOT NULL
)
--;
-- Which steps lead to which gates.
CREATE TABLE mutirao_edge (
    step integer NOT NULL,
    gate integer NOT NULL,
    PRIMARY KEY (step, gate)
) WITHOUT ROWID
--;
CREATE INDEX mutirao_edge_gate ON mutirao_edge (gate)
