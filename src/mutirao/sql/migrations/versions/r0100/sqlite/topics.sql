-- Who is told of what is published, and which jobs that made.

-- `options` and `filter` are JSON, as the text they came as. A topic is a name, or a pattern that ends with
-- `*`. Without a tenant, a group or a filter it is told of any. `order_by`: the field of what is published whose
-- deliveries are made one after another; `reached`: up to which publication that was done. `key`: the field whose
-- equal values have one delivery at a time.
CREATE TABLE mutirao_subscription (
    id text PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 200),
    topic text NOT NULL,
    tenant text,
    "group" text,
    filter text,
    key text,
    order_by text,
    when_dead text CHECK (when_dead IN ('stop', 'continue')),
    reached integer,
    kind text NOT NULL CHECK (kind IN ('handler', 'endpoint')),
    active integer NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    priority integer NOT NULL,
    options text NOT NULL,
    origin text NOT NULL CHECK (origin IN ('code', 'call')),
    created_at integer NOT NULL,
    changed_at integer NOT NULL,
    declared text,
    declared_at integer,
    declared_by text
)
--;
-- A publication is told to the subscriptions of a topic in the order of their ids.
CREATE INDEX mutirao_subscription_topic ON mutirao_subscription (topic, tenant, id)
--;
CREATE INDEX mutirao_subscription_order ON mutirao_subscription (topic) WHERE order_by IS NOT NULL
--;
-- The jobs of publications. `nth` counts those of one publication for one subscription: 0 came of the
-- publication itself, never twice; the others were asked for again.
CREATE TABLE mutirao_delivery (
    job integer PRIMARY KEY,
    publication integer NOT NULL,
    subscription text NOT NULL,
    nth integer NOT NULL
)
--;
CREATE UNIQUE INDEX mutirao_delivery_once ON mutirao_delivery (publication, subscription, nth)
--;
-- The deliveries that are made one after another: all of a subscription and a key, in the order of `turn`, which
-- is the job's id, or that of the job that it redrives. Empty: there was nothing to order by. `after`: the
-- delivery that it waits for.
CREATE TABLE mutirao_ordered (
    job integer PRIMARY KEY,
    subscription text NOT NULL,
    key text NOT NULL,
    turn integer NOT NULL,
    after integer
)
--;
CREATE INDEX mutirao_ordered_turn ON mutirao_ordered (subscription, key, turn, job)
--;
CREATE INDEX mutirao_ordered_after ON mutirao_ordered (after) WHERE after IS NOT NULL
--;
-- Publications among all jobs: views ask in these words.
CREATE INDEX mutirao_job_publication ON mutirao_job (id) WHERE task GLOB 'topic:*'
