-- What happened, added up by the hour, so that views need not read the whole history.

-- All attempts that finished before this moment are added up, but for those that came later and say so
-- (`came_late`). `closing` is what that moment will be once all transactions whose id is smaller than `seen`
-- have ended; empty: nobody has noted it yet.
CREATE TABLE mutirao_rolled (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    until timestamptz NOT NULL,
    closing timestamptz NOT NULL,
    seen text NOT NULL
) WITH (fillfactor = 50)
--;
-- `closing`, in microseconds, for whoever appends attempts. A sequence, as it is read without a
-- snapshot: nobody can miss that it was moved, whatever the isolation level.
CREATE SEQUENCE mutirao_closing AS bigint OWNED BY mutirao_rolled.closing
--;
-- Whoever appends attempts that finished before it notes that they came late. It has a transaction id
-- by then, as it has locked live rows. Parsed now: the sequence is looked up once, whatever its schema.
CREATE FUNCTION mutirao_closed() RETURNS timestamptz LANGUAGE sql VOLATILE
RETURN to_timestamp(pg_sequence_last_value('mutirao_closing'::regclass) / 1e6::float8)
--;
CREATE FUNCTION mutirao_close(_moment timestamptz) RETURNS bigint LANGUAGE sql VOLATILE
RETURN setval('mutirao_closing', greatest((extract(epoch FROM _moment) * 1000000)::bigint, 1))
--;
-- What was done in each hour, as far as it is added up: `durations` has how many attempts took how
-- many seconds, to two digits. It outlives the attempts.
CREATE TABLE mutirao_hour (
    hour timestamptz NOT NULL,
    queue text NOT NULL,
    task text NOT NULL,
    outcome text NOT NULL,
    attempts bigint NOT NULL,
    seconds double precision NOT NULL,
    durations json NOT NULL,
    p50 double precision NOT NULL,
    p95 double precision NOT NULL,
    p99 double precision NOT NULL,
    PRIMARY KEY (hour, queue, task, outcome)
)
--;
-- How many finished jobs there are, by the hour in which they finished, as far as they are added up. A
-- journal: whoever deletes some appends a negative number, and nobody waits for anybody's row.
CREATE TABLE mutirao_kept (
    queue text NOT NULL,
    outcome text NOT NULL,
    hour timestamptz NOT NULL,
    jobs bigint NOT NULL
)
--;
CREATE INDEX mutirao_kept_queue ON mutirao_kept (queue, outcome, hour)
--;
-- Errors, as far as they are added up. It outlives the attempts.
CREATE TABLE mutirao_error (
    task text NOT NULL,
    error_type text NOT NULL,
    message text NOT NULL,
    jobs bigint NOT NULL,
    attempts bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (task, error_type, message)
)
--;
CREATE INDEX mutirao_error_last_at ON mutirao_error (last_at)
--;
-- Live jobs as they were counted last, where they are too many to be counted whenever somebody looks.
CREATE TABLE mutirao_backlog (
    queue text NOT NULL,
    state text NOT NULL,
    jobs bigint NOT NULL,
    since timestamptz,
    counted_at timestamptz NOT NULL,
    PRIMARY KEY (queue, state)
)
--;
-- Takes finished jobs that are added up from the number of those kept. The lock: as long as somebody
-- deletes, nothing is added up, so that it is certain which rows are.
CREATE FUNCTION mutirao_attempts_gone() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    rolled timestamptz := (SELECT until FROM mutirao_rolled FOR SHARE);
BEGIN
    IF TG_TABLE_NAME = 'mutirao_attempt' THEN
        INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
        SELECT j.queue, g.outcome, date_trunc('hour', g.finished_at, 'UTC'), -count(*)
        FROM gone g JOIN mutirao_job j ON j.id = g.job
        WHERE g.outcome IN ('succeeded', 'dead', 'cancelled')
          AND g.finished_at < rolled AND g.came_late IS NULL
        GROUP BY 1, 2, 3;
    ELSE
        INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
        SELECT g.queue, a.outcome, date_trunc('hour', a.finished_at, 'UTC'), -count(*)
        FROM gone g JOIN mutirao_attempt a ON a.job = g.id
        WHERE a.outcome IN ('succeeded', 'dead', 'cancelled')
          AND a.finished_at < rolled AND a.came_late IS NULL
        GROUP BY 1, 2, 3;
    END IF;
    RETURN NULL;
END
$$
--;
CREATE TRIGGER mutirao_attempt_gone AFTER DELETE ON mutirao_attempt
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION mutirao_attempts_gone()
--;
CREATE TRIGGER mutirao_job_gone AFTER DELETE ON mutirao_job
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION mutirao_attempts_gone()
--;
-- Whoever prunes may do so in sessions where no other trigger runs (`session_replication_role`).
ALTER TABLE mutirao_attempt ENABLE ALWAYS TRIGGER mutirao_attempt_gone
--;
ALTER TABLE mutirao_job ENABLE ALWAYS TRIGGER mutirao_job_gone
--;
CREATE FUNCTION mutirao_all_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mutirao_kept;
    RETURN NULL;
END
$$
--;
CREATE TRIGGER mutirao_attempt_all_gone AFTER TRUNCATE ON mutirao_attempt
FOR EACH STATEMENT EXECUTE FUNCTION mutirao_all_gone()
--;
CREATE TRIGGER mutirao_job_all_gone AFTER TRUNCATE ON mutirao_job
FOR EACH STATEMENT EXECUTE FUNCTION mutirao_all_gone()
--;
-- Attempts with some outcomes that finished from one moment on and before another, and those that came late;
-- with what is known of their jobs.
CREATE FUNCTION mutirao_ended_between(
    _outcomes text[], _from timestamptz, _to timestamptz, _late mutirao_attempt[]
) RETURNS TABLE (
    job bigint, run integer, outcome text, finished_at timestamptz, hour timestamptz, queue text, task text,
    seconds double precision, error_type text, message text
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT e.job, e.run, e.outcome, e.finished_at, date_trunc('hour', e.finished_at, 'UTC'), j.queue, j.task,
           greatest(extract(epoch FROM e.finished_at - e.started_at)::float8, 0),
           left(coalesce(e.error_type, ''), 200),
           left(split_part(coalesce(e.error, ''), E'\n', 1), 200)
    FROM (
        SELECT * FROM mutirao_attempt
        WHERE outcome = ANY(_outcomes) AND finished_at >= _from AND finished_at < _to AND came_late IS NULL
        UNION ALL
        SELECT * FROM unnest(_late) WHERE outcome = ANY(_outcomes)
    ) e CROSS JOIN LATERAL (SELECT queue, task FROM mutirao_job WHERE id = e.job OFFSET 0) j;
END
$$
--;
-- Of a job's attempts with the same error the first one counts for the job.
CREATE FUNCTION mutirao_add_errors(_from timestamptz, _to timestamptz, _late mutirao_attempt[])
RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    failed text[] := '{retried,dead,lost}';
BEGIN
    INSERT INTO mutirao_error AS known (task, error_type, message, jobs, attempts, first_at, last_at)
    SELECT task, error_type, message, count(*) FILTER (WHERE NOT EXISTS (
               SELECT FROM mutirao_attempt b
               WHERE b.job = f.job AND b.run < f.run AND b.outcome = ANY(failed)
                 AND left(coalesce(b.error_type, ''), 200) = f.error_type
                 AND left(split_part(coalesce(b.error, ''), E'\n', 1), 200) = f.message
           )), count(*), min(finished_at), max(finished_at)
    FROM mutirao_ended_between(failed, _from, _to, _late) f GROUP BY task, error_type, message
    ON CONFLICT (task, error_type, message) DO UPDATE SET
        jobs = known.jobs + excluded.jobs, attempts = known.attempts + excluded.attempts,
        first_at = least(known.first_at, excluded.first_at),
        last_at = greatest(known.last_at, excluded.last_at);
END
$$
--;
CREATE FUNCTION mutirao_add_hours(_from timestamptz, _to timestamptz, _late mutirao_attempt[])
RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    WITH fresh AS MATERIALIZED (
        SELECT * FROM mutirao_ended_between(
            '{succeeded,retried,snoozed,dead,cancelled,lost,released}', _from, _to, _late
        )
    ), finished AS (
        INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
        SELECT queue, outcome, hour, count(*) FROM fresh
        WHERE outcome IN ('succeeded', 'dead', 'cancelled') GROUP BY queue, outcome, hour
    ), took AS (
        SELECT hour, queue, task, outcome, ltrim(to_char(seconds, '9.9EEEE')) AS about,
               count(*) AS number, sum(seconds) AS seconds
        FROM fresh GROUP BY 1, 2, 3, 4, 5
    ), placed AS (
        SELECT hour, queue, task, outcome, about, sum(number) AS number, sum(seconds) AS seconds,
               sum(sum(number)) OVER (each ORDER BY about::float8) AS place,
               sum(sum(number)) OVER each AS attempts
        FROM (
            SELECT * FROM took
            UNION ALL
            SELECT h.hour, h.queue, h.task, h.outcome, d.key, d.value::bigint, 0
            FROM (SELECT DISTINCT hour, queue, task, outcome FROM took) t
            JOIN mutirao_hour h USING (hour, queue, task, outcome)
            CROSS JOIN json_each_text(h.durations) d
        ) together GROUP BY hour, queue, task, outcome, about
        WINDOW each AS (PARTITION BY hour, queue, task, outcome)
    )
    INSERT INTO mutirao_hour AS known
        (hour, queue, task, outcome, attempts, seconds, durations, p50, p95, p99)
    SELECT hour, queue, task, outcome, attempts, sum(seconds), json_object_agg(about, number),
           min(about::float8) FILTER (WHERE place >= attempts * 0.5),
           min(about::float8) FILTER (WHERE place >= attempts * 0.95),
           min(about::float8) FILTER (WHERE place >= attempts * 0.99)
    FROM placed GROUP BY hour, queue, task, outcome, attempts
    ON CONFLICT (hour, queue, task, outcome) DO UPDATE SET
        attempts = excluded.attempts, seconds = known.seconds + excluded.seconds,
        durations = excluded.durations,
        p50 = excluded.p50, p95 = excluded.p95, p99 = excluded.p99;
END
$$
--;
-- Who deletes some of these attempts waits until this is done: all statements see the same.
CREATE FUNCTION mutirao_add_up(_from timestamptz, _to timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
DECLARE
    late mutirao_attempt[] := ARRAY(
        SELECT a FROM mutirao_attempt a WHERE came_late LIMIT 50000 FOR UPDATE SKIP LOCKED
    );
BEGIN
    PERFORM mutirao_add_hours(_from, _to, late);
    PERFORM mutirao_add_errors(_from, _to, late);
    UPDATE mutirao_attempt SET came_late = NULL
    WHERE (job, run) IN (SELECT job, run FROM unnest(late));
END
$$
--;
-- The journal of finished jobs, with one number for each queue, state and hour where there are several.
CREATE FUNCTION mutirao_balance() RETURNS void LANGUAGE sql VOLATILE AS $$
    WITH several AS (
        SELECT queue, outcome, hour FROM mutirao_kept
        GROUP BY queue, outcome, hour HAVING count(*) > 1 OR min(jobs) <= 0
    ), old AS (
        DELETE FROM mutirao_kept k USING several s
        WHERE k.queue = s.queue AND k.outcome = s.outcome AND k.hour = s.hour RETURNING k.*
    )
    INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
    SELECT queue, outcome, hour, sum(jobs) FROM old GROUP BY queue, outcome, hour HAVING sum(jobs) <> 0
$$
--;
-- In three transactions: one closes what has finished, but for the last minute; the next notes its own
-- id: whoever did not know of that has a smaller one; another one adds up, once all of these have ended, and
-- closes what came since. (The snapshot of the first would not do: `xmax` says which ids have ended, not
-- which there are.) One at a time. Tells whether it is worth calling again at once.
CREATE FUNCTION mutirao_roll_up(_keep interval, _now timestamptz) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    latest timestamptz := coalesce(_now, statement_timestamp()) - interval '1 minute';
    rolled mutirao_rolled;
    next timestamptz;
BEGIN
    SELECT * INTO rolled FROM mutirao_rolled FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO mutirao_rolled (until, closing, seen) VALUES ('-infinity', '-infinity', '0')
        ON CONFLICT DO NOTHING RETURNING * INTO rolled;
        IF NOT FOUND THEN
            RETURN false; -- somebody has it
        END IF;
    END IF;
    IF rolled.seen = '' THEN
        UPDATE mutirao_rolled SET seen = pg_current_xact_id()::text;
        RETURN rolled.closing < latest - interval '1 minute';
    END IF;
    -- A greater id is of another server, from which the tables were copied.
    IF rolled.seen::xid8 > pg_snapshot_xmin(pg_current_snapshot())
       AND rolled.seen::xid8 <= pg_current_xact_id()
    THEN
        RETURN false;
    END IF;
    PERFORM mutirao_add_up(rolled.until, rolled.closing);
    PERFORM mutirao_balance();
    -- So many of each outcome at once, at most.
    SELECT greatest(rolled.closing, min(coalesce(far, latest))) INTO next
    FROM unnest('{succeeded,retried,snoozed,dead,cancelled,lost,released}'::text[]) AS kind
    LEFT JOIN LATERAL (
        SELECT finished_at + interval '1 microsecond' AS far FROM mutirao_attempt
        WHERE outcome = kind AND finished_at >= rolled.closing AND finished_at < latest
        ORDER BY finished_at OFFSET 50000 LIMIT 1
    ) f ON true;
    PERFORM mutirao_close(next);
    UPDATE mutirao_rolled SET until = rolled.closing, closing = next, seen = '';
    DELETE FROM mutirao_hour WHERE hour < latest - _keep;
    DELETE FROM mutirao_error WHERE last_at < latest - _keep;
    RETURN true;
END
$$
--;
-- Counts live jobs for the next minutes if they are many; otherwise whoever looks counts them.
CREATE FUNCTION mutirao_count_backlog(_most bigint, _now timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
BEGIN
    DELETE FROM mutirao_backlog;
    IF (SELECT count(*) FROM (SELECT FROM mutirao_live LIMIT _most + 1) l) > _most THEN
        INSERT INTO mutirao_backlog (queue, state, jobs, since, counted_at)
        SELECT queue, state, jobs, moment - oldest_age * interval '1 second', moment
        FROM mutirao_queues WHERE state IN ('running', 'ready', 'scheduled', 'blocked');
    END IF;
END
$$
