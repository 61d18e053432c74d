-- Which messages were handled, written in the transaction of their effects.

-- `times` counts the repetitions too, so that whoever writes sees whether it was the first.
-- By the second index it is pruned, from the oldest on.
CREATE TABLE IF NOT EXISTS mutirao_inbox (
    consumer varchar(200) NOT NULL CHECK (char_length(consumer) >= 1),
    message varchar(255) NOT NULL CHECK (char_length(message) >= 1),
    times int NOT NULL DEFAULT 1,
    first_at bigint NOT NULL DEFAULT (${now}),
    PRIMARY KEY (consumer, message),
    INDEX mutirao_inbox_first_at (first_at)
) ENGINE InnoDB ${bytes}
