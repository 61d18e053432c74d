-- Graphs of jobs: who waits for whose end.

-- A graph of jobs, named by the id of its first one. Its row is the lock: whatever changes how its steps
-- stand holds it, before any row of a live job.
CREATE TABLE mutirao_graph (
    id bigint PRIMARY KEY,
    name text CHECK (char_length(name) BETWEEN 1 AND 200),
    -- How many steps have not ended.
    unfinished integer NOT NULL,
    -- Nothing more is started, because a step that asks for compensation has failed.
    undoing boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp()
) WITH (fillfactor = 70)
--;
-- A job's place in a graph. `id` is that of the job that had the place first, `job` the one that has it
-- now: they differ once a dead step was redriven.
CREATE TABLE mutirao_step (
    id bigint PRIMARY KEY,
    job bigint NOT NULL,
    graph bigint NOT NULL,
    depth integer NOT NULL,
    stage text NOT NULL,
    on_dead text NOT NULL CHECK (on_dead IN ('stop', 'continue', 'compensate')),
    -- The gate that it waits at, and how the step ended; NULL: it waits for nothing, it has not.
    gate bigint,
    outcome text,
    -- JSON: the steps whose results are its arguments; the job that undoes it.
    needs text,
    compensate text
) WITH (fillfactor = 70)
--;
CREATE UNIQUE INDEX mutirao_step_job ON mutirao_step (job)
--;
CREATE INDEX mutirao_step_graph ON mutirao_step (graph)
--;
CREATE INDEX mutirao_step_gate ON mutirao_step (gate) WHERE gate IS NOT NULL
--;
-- What steps wait at: so many steps have to end first. Named by the first that waits there.
CREATE TABLE mutirao_gate (
    id bigint PRIMARY KEY,
    unfinished integer NOT NULL
) WITH (fillfactor = 50)
--;
-- Which steps lead to which gates.
CREATE TABLE mutirao_edge (
    step bigint NOT NULL,
    gate bigint NOT NULL,
    PRIMARY KEY (step, gate)
)
--;
CREATE INDEX mutirao_edge_gate ON mutirao_edge (gate)
