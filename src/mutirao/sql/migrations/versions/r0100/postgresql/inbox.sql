-- Which messages were handled, written in the transaction of their effects.

-- `times` counts the repetitions too, so that whoever writes sees whether it was the first.
CREATE TABLE mutirao_inbox (
    consumer text NOT NULL CHECK (char_length(consumer) BETWEEN 1 AND 200),
    message text NOT NULL CHECK (char_length(message) BETWEEN 1 AND 255),
    times integer NOT NULL DEFAULT 1,
    first_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (consumer, message)
)
--;
-- For pruning, from the oldest on.
CREATE INDEX mutirao_inbox_first_at ON mutirao_inbox (first_at)
