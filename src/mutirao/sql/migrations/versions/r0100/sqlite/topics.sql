-- Who is told of what is published, and which jobs that made.

-- `options` and `filter` are JSON, as the text they came as. A topic is a name, or a pattern that ends with
-- `*`. Without a tenant, a group or a filter it is told of any.
CREATE TABLE mutirao_subscription (
    id text PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 200),
    topic text NOT NULL,
    tenant text,
    "group" text,
    filter text,
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
-- Publications among all jobs: views ask in these words.
CREATE INDEX mutirao_job_publication ON mutirao_job (id) WHERE task GLOB 'topic:*'
