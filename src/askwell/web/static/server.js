// Requests to the server, and what to do when it no longer knows who is asking.

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
  // Whether the same request can succeed later: no connection, a full disk, too many tries, signed out.
  get passing() {
    return [0, 401, 403, 408, 429].includes(this.status) || this.status >= 500;
  }
}

let signInAgain = async () => false;
let waiting = null;

export function onSignedOut(ask) {
  signInAgain = ask;
}

export async function request(method, path, body, { again = true, last = false } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      keepalive: last, // goes out even if the page is being closed
      signal: last ? undefined : AbortSignal.timeout(20000),
    });
  } catch {
    throw new Refused(0, "The server cannot be reached.");
  }
  if (answer.status === 401 && again) {
    waiting ??= signInAgain().finally(() => { waiting = null; });
    if (await waiting) return request(method, path, body, { again: false });
  }
  const told = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, told?.detail ?? `The server answered ${answer.status}.`);
  return told;
}

export const post = (path, body, options) => request("POST", path, body, options);

// A version 4 UUID. crypto.randomUUID is missing where a page is served without TLS.
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
