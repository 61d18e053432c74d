// What the Node adapters share; the same command line and the same rule of time as adapting.py:
// the clock of a drain starts when the first handler starts and ends when nothing is unsettled.

import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";

const LOOK = 2; // milliseconds between looks at the tallies
const DEADLINE = 600_000; // milliseconds
const WARM_UP = 10;
const TICKS = 100; // of /proc/*/stat in a second, on every Linux

const options = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string", default: "" },
    jobs: { type: "string", default: "1000" },
    waiting: { type: "string" },
    payload: { type: "string", default: "60" },
    producers: { type: "string", default: "1" },
    processes: { type: "string", default: "1" },
    sync: { type: "boolean", default: false },
    "until-started": { type: "boolean", default: false },
    stamp: { type: "boolean", default: false },
  },
});
const work = options.positionals[0];
const { url, stamp } = options.values;
const [jobs, producers, processes, size] = ["jobs", "producers", "processes", "payload"].map((k) =>
  Number(options.values[k]),
);
const moreWait = Number(options.values.waiting ?? 0) > jobs;

function payload() {
  // Characters that do not compress, always the same ones.
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  let state = 1;
  return Array.from({ length: size }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return alphabet[state >>> 26];
  }).join("");
}

const seconds = (started) => Number(process.hrtime.bigint() - started) / 1e9;

// In a worker process: tells the parent how many handlers have started, at most once in 1 ms.
function tally() {
  let count = 0;
  let told = false;
  return () => {
    if (stamp) {
      process.send({ count: ++count, at: String(process.hrtime.bigint()) });
      return;
    }
    count += 1;
    if (!told) {
      told = true;
      setTimeout(() => {
        told = false;
        process.send({ count });
      }, 1);
    }
  };
}

class Workers {
  constructor(extra = []) {
    this.each = Array(processes).fill(0);
    this.at = 0n;
    this.children = this.each.map((_, slot) => this.#start(slot, extra));
  }

  #start(slot, extra) {
    const child = fork(process.argv[1], ["work", ...process.argv.slice(3), ...extra]);
    child.on("message", ({ count, at }) => {
      this.each[slot] = count;
      if (at) this.at = BigInt(at);
    });
    child.on("exit", (code) => (this.ended ??= code ?? "a signal"));
    return child;
  }

  get sum() {
    return this.each.reduce((a, b) => a + b, 0);
  }

  async waitFor(wanted, look = LOOK) {
    const deadline = Date.now() + DEADLINE;
    while (this.sum < wanted) {
      this.check();
      if (Date.now() > deadline) throw new Error(`${this.sum} of ${wanted} handlers started`);
      await sleep(look);
    }
  }

  check() {
    if (this.ended !== undefined) throw new Error(`a worker ended with ${this.ended}`);
  }

  cpu() {
    return this.children.reduce((sum, { pid }) => {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return sum + (Number(fields[11]) + Number(fields[12])) / TICKS;
    }, 0);
  }

  stop() {
    for (const child of this.children) {
      child.removeAllListeners("exit");
      child.kill("SIGKILL");
    }
  }
}

async function drain(peer) {
  const workers = new Workers();
  process.on("exit", () => workers.stop());
  const ask = await peer.unsettled(url);
  await workers.waitFor(1);
  const started = process.hrtime.bigint();
  const before = workers.cpu();
  await workers.waitFor(jobs);
  const last = seconds(started);
  while (!moreWait && (await ask())) {
    workers.check();
    await sleep(LOOK);
  }
  const took = options.values["until-started"] ? last : seconds(started);
  const answer = { seconds: took, cpu: workers.cpu() - before };
  await sleep(2 * LOOK); // the last tallies may still be under way
  workers.stop();
  if (!moreWait && workers.sum !== jobs) throw new Error(`${workers.sum} handlers, ${jobs} jobs`);
  return { ...answer, each: workers.each, jobs: workers.sum };
}

async function latency(peer) {
  const workers = new Workers(["--stamp", "--processes", "1"]);
  process.on("exit", () => workers.stop());
  const produce = await peer.producer(url, payload());
  const waits = [];
  for (let n = 1; n <= jobs + WARM_UP; n++) {
    await sleep(4 + Math.random() * 8); // the worker falls idle
    await produce();
    const committed = process.hrtime.bigint();
    await workers.waitFor(n, 1);
    waits.push(Number(workers.at - committed) / 1e6);
  }
  workers.stop();
  return summary(waits.slice(WARM_UP));
}

function summary(waits) {
  const sorted = waits.sort((a, b) => a - b);
  const at = (q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1), jobs: sorted.length };
}

async function one(peer) {
  const each = Math.max(Math.floor(jobs / producers), 1);
  const data = payload();
  const all = await Promise.all(Array.from({ length: producers }, () => peer.producer(url, data)));
  const started = process.hrtime.bigint();
  await Promise.all(
    all.map(async (produce) => {
      for (let n = 0; n < each; n++) await produce();
    }),
  );
  return { seconds: seconds(started), jobs: each * producers };
}

async function enqueue(peer) {
  const before = process.cpuUsage();
  const took = await peer.enqueue(url, jobs, payload());
  const { user, system } = process.cpuUsage(before);
  return { seconds: took, cpu: (user + system) / 1e6 };
}

function versions(peer) {
  const { name, history, retries, tuned_by, connections } = peer;
  const at = new URL(`../${name}/node_modules/${name}/package.json`, import.meta.url);
  const { version } = JSON.parse(readFileSync(at, "utf8"));
  const runtime = `Node ${process.version}`;
  const [threads, command] = [false, false];
  return { name, version, history, retries, tuned_by, connections, threads, command, runtime };
}

export async function main(peer) {
  if (work === "work") {
    process.on("disconnect", () => process.exit(1));
    await peer.work(url, tally());
    return;
  }
  process.on("SIGTERM", () => process.exit(1));
  const works = {
    versions,
    enqueue,
    one,
    drain,
    latency,
    setup: async () => (await peer.setup(url), {}),
  };
  const answer = await works[work](peer);
  process.stdout.write(JSON.stringify(answer) + "\n", () => process.exit(0));
}
