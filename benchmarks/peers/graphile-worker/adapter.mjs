// Graphile Worker with the settings of its page on performance.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { main } from "../common/adapting.mjs";

const BATCH = 5_000;
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

async function utils(url, body) {
  const lent = await makeWorkerUtils({ connectionString: url, logger });
  try {
    return await body(lent);
  } finally {
    await lent.release();
  }
}

await main({
  name: "graphile-worker",
  history: false,
  retries: true,
  tuned_by:
    "worker.graphile.org/docs/performance: localQueue.size 500, completeJobBatchDelay 0," +
    " failJobBatchDelay 0, concurrentJobs 24",
  connections: "10",

  setup: (url) => utils(url, (lent) => lent.migrate()),

  enqueue: (url, jobs, data) =>
    utils(url, async (lent) => {
      const started = process.hrtime.bigint();
      for (let start = 0; start < jobs; start += BATCH) {
        const size = Math.min(BATCH, jobs - start);
        const specs = Array.from({ length: size }, () => ({
          identifier: "nothing",
          payload: { data },
        }));
        await lent.addJobs(specs);
      }
      return Number(process.hrtime.bigint() - started) / 1e9;
    }),

  async work(url, count) {
    await run({
      preset: {
        worker: {
          connectionString: url,
          concurrentJobs: 24,
          maxPoolSize: 10,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          logger,
        },
      },
      noHandleSignals: true,
      taskList: { nothing: async () => count() },
    });
  },

  async producer(url, data) {
    const lent = await makeWorkerUtils({ connectionString: url, logger, maxPoolSize: 1 });
    return () => lent.addJob("nothing", { data });
  },

  async unsettled(url) {
    const client = new pg.Client(url);
    await client.connect();
    const query = "select from graphile_worker._private_jobs limit 1";
    return async () => (await client.query(query)).rowCount > 0;
  },
});
