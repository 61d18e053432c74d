"""How many, how long in all, and how long on average, by the hour.

In a table of one's own each task has the moments at which it began and ended:

    SELECT date_trunc('hour', ended) AS hour, count(*), sum(ended - began), avg(ended - began)
    FROM task WHERE status = 'done' GROUP BY hour ORDER BY hour;

which reads all that is kept, and forgets what was deleted. Here it is the view
`mutirao_throughput`, whose hours outlive their jobs; it has percentiles as well.
"""

import time

from mutirao.testing import drain
from reindex import app, ask

HOURS = """
SELECT sum(attempts), sum(attempts * mean_duration), sum(attempts * mean_duration) / sum(attempts),
    max(p95_duration)
FROM mutirao_throughput WHERE task = 'figures.index' AND outcome = 'succeeded'
"""


@app.task(name="figures.index")
def index(document: int) -> None:
    """Take a while, the longer the later."""
    time.sleep(document / 100)


if __name__ == "__main__":
    app.enqueue_many(index.job(number) for number in range(1, 6))
    drain(app)
    number, total, mean, slowest = (float(each) for each in ask(HOURS)[0])
    print(f"{number:.0f} jobs took {total:.2f} s, {mean:.3f} s each; 95 % within {slowest:.2f} s")
