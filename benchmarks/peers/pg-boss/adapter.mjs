// pg-boss with large batches.

import pg from "pg";
import { PgBoss } from "pg-boss";
import { main } from "../common/adapting.mjs";

const BATCH = 2_000;
const ENQUEUE_BATCH = 5_000;
const QUEUE = "nothing";

async function boss(url, options = {}) {
  const made = new PgBoss({ connectionString: url, max: 10, schedule: false, ...options });
  made.on("error", (error) => console.error(error.message));
  await made.start();
  return made;
}

const client = { supervise: false, migrate: false, max: 1 };

await main({
  name: "pg-boss",
  history: true,
  retries: true,
  tuned_by:
    `timgit.github.io/pg-boss, api/workers: batchSize ${BATCH}, burstWhenBatchFull,` +
    " pollingIntervalSeconds 0.5 (its least), useListenNotify",
  connections: "10, and 1 that listens",

  async setup(url) {
    const made = await boss(url);
    await made.createQueue(QUEUE, { notify: true });
    await made.stop({ graceful: false });
  },

  async enqueue(url, jobs, data) {
    const made = await boss(url, client);
    const started = process.hrtime.bigint();
    for (let start = 0; start < jobs; start += ENQUEUE_BATCH) {
      const size = Math.min(ENQUEUE_BATCH, jobs - start);
      await made.insert(QUEUE, Array.from({ length: size }, () => ({ data: { data } })));
    }
    return Number(process.hrtime.bigint() - started) / 1e9;
  },

  async work(url, count) {
    const made = await boss(url, { useListenNotify: true });
    const options = { batchSize: BATCH, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
    await made.work(QUEUE, options, async (jobs) => {
      for (const _ of jobs) count();
    });
  },

  async producer(url, data) {
    const made = await boss(url, client);
    return () => made.send(QUEUE, { data });
  },

  async unsettled(url) {
    const asking = new pg.Client(url);
    await asking.connect();
    const query = "select from pgboss.job where name = $1 and state < 'completed' limit 1";
    return async () => (await asking.query(query, [QUEUE])).rowCount > 0;
  },
});
