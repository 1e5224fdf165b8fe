// An app in Node that writes, reads and follows records over the socket of agentd. It needs no package.
//
//   node example.mjs write ENTITY ID DATA KEY    stores the fields of DATA (JSON) in a record
//   node example.mjs read ENTITY ID              prints the record
//   node example.mjs follow FILE                 prints the changes of records, for ever
//
// AGENTD_SOCKET is the path of the socket. While the agent is away or busy, a request is repeated for DEADLINE seconds (30).
// Exit status: 0 done, 1 the agent refused it, 2 the agent cannot be reached, 64 wrong usage.

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

const socketPath = process.env.AGENTD_SOCKET || "/run/agentd/agent.sock";
const deadline = 1000 * Number(process.env.DEADLINE || 30);
const busy = [408, 429, 500, 503];
const backoff = () => pause(100 + 400 * Math.random());

class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// One connection. Resolves with the head of the answer, whose body is read by `for await`.
function send(method, path, headers = {}, body = "") {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, headers, timeout: 45_000 }, resolve);
    sent.on("error", reject);
    sent.on("timeout", () => sent.destroy(new Error("the agent is silent")));
    sent.end(body);
  });
}

async function text(answer) {
  let whole = "";
  for await (const piece of answer.setEncoding("utf8")) whole += piece;
  return whole;
}

// A request and its whole answer, repeated while the agent is away or busy.
async function ask(method, path, headers, body) {
  const end = Date.now() + deadline;
  for (;;) {
    let reason;
    try {
      const answer = await send(method, path, headers, body);
      const whole = await text(answer);
      if (answer.statusCode < 300) return whole;
      reason = `the agent answered ${answer.statusCode}: ${whole}`;
      if (!busy.includes(answer.statusCode)) throw new Failure(1, reason);
    } catch (error) {
      if (error instanceof Failure) throw error;
      // A connection that failed, or an answer that broke off: the request may have been stored or not.
      reason = `the agent does not answer at ${socketPath}: ${error.message}`;
      if (error.code === "EACCES") throw new Failure(2, reason);
    }
    if (Date.now() >= end) throw new Failure(2, reason);
    await backoff();
  }
}

// The key makes the repeats one change, also those of a later run of this program.
async function write(entity, id, data, key) {
  const body = `{"entity":"${entity}","record_id":"${id}","action":"upsert","data":${data}}`;
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  console.log(JSON.parse(await ask("POST", "/v1/mutations", headers, body)).id);
}

// Printed as it came: JSON.parse would round whole numbers beyond 2^53.
async function read(entity, id) {
  console.log(await ask("GET", `/v1/records/${entity}/${id}`));
}

function load(file) {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    return "";
  }
}

// Each event is handled first, and its position is stored then. The next connection, or the next run, continues after it.
async function follow(file) {
  for (;;) {
    try {
      const position = load(file);
      const headers = position ? { "Last-Event-ID": position } : {};
      const answer = await send("GET", "/v1/events?types=record", headers);
      if (answer.statusCode !== 200) {
        const reason = `the agent answered ${answer.statusCode}: ${await text(answer)}`;
        throw busy.includes(answer.statusCode) ? new Error(reason) : new Failure(1, reason);
      }
      let rest = "";
      for await (const piece of answer.setEncoding("utf8")) {
        // An event ends with an empty line; what is left when the connection ends does not count.
        const blocks = (rest + piece).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const field = (name) => block.match(new RegExp(`^${name}: (.*)$`, "m"))?.[1];
          const [id, type, data] = [field("id"), field("event"), field("data")];
          // `reset`: what lies before is not kept any more, so the app must read its records again.
          if (data) console.log(`${id ?? ""} ${type} ${data}`);
          if (!id) continue;
          writeFileSync(`${file}.new`, id);
          renameSync(`${file}.new`, file);
        }
      }
    } catch (error) {
      if (error instanceof Failure || error.code === "EACCES") throw error;
      console.error(`example: the feed broke and goes on: ${error.message}`);
    }
    await backoff();
  }
}

const commands = { write: [write, 4], read: [read, 2], follow: [follow, 1] };
const [name, ...words] = process.argv.slice(2);
const [command, count] = commands[name] ?? [];
if (command === undefined || words.length !== count) {
  console.error("usage: node example.mjs write ENTITY ID DATA KEY | read ENTITY ID | follow FILE");
  process.exit(64);
}
command(...words).catch((error) => {
  console.error(`example: ${error.message}`);
  process.exit(error.status ?? 2);
});
