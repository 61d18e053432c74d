-- Who is told of what is published, and which jobs that made.

-- `options` and `filter` are JSON, as the text they came as. A topic is a name, or a pattern that ends with
-- `*`. Without a tenant, a group or a filter it is told of any. `order_by`: the field of what is published whose
-- deliveries are made one after another; `reached`: up to which publication that was done. `key`: the field whose
-- equal values have one delivery at a time.
-- A publication is told to the subscriptions of a topic in the order of their ids.
CREATE TABLE IF NOT EXISTS mutirao_subscription (
    id varchar(200) PRIMARY KEY CHECK (char_length(id) >= 1),
    topic varchar(200) NOT NULL,
    tenant varchar(200),
    `group` varchar(200),
    filter text,
    `key` varchar(200),
    order_by varchar(200),
    when_dead varchar(20) CHECK (when_dead IN ('stop', 'continue')),
    reached bigint,
    kind varchar(20) NOT NULL CHECK (kind IN ('handler', 'endpoint')),
    active boolean NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    options longtext NOT NULL,
    origin varchar(20) NOT NULL CHECK (origin IN ('code', 'call')),
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    declared text,
    declared_at bigint,
    declared_by text,
    INDEX mutirao_subscription_topic (topic, tenant, id),
    INDEX mutirao_subscription_order (topic, order_by)
) ENGINE InnoDB ${bytes}
--;
-- The jobs of publications. `nth` counts those of one publication for one subscription: 0 came of the
-- publication itself, never twice; the others were asked for again.
CREATE TABLE IF NOT EXISTS mutirao_delivery (
    job bigint PRIMARY KEY,
    publication bigint NOT NULL,
    subscription varchar(200) NOT NULL,
    nth int NOT NULL,
    UNIQUE mutirao_delivery_once (publication, subscription, nth)
) ENGINE InnoDB ${bytes}
--;
-- The deliveries that are made one after another: all of a subscription and a key, in the order of `turn`, which
-- is the job's id, or that of the job that it redrives. Empty: there was nothing to order by. `after`: the
-- delivery that it waits for.
CREATE TABLE IF NOT EXISTS mutirao_ordered (
    job bigint PRIMARY KEY,
    subscription varchar(200) NOT NULL,
    `key` varchar(200) NOT NULL,
    turn bigint NOT NULL,
    after bigint,
    INDEX mutirao_ordered_turn (subscription, `key`, turn, job),
    INDEX mutirao_ordered_after (after)
) ENGINE InnoDB ${bytes}
