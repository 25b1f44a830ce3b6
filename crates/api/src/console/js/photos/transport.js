// Sends a body and reports its progress, which `fetch` cannot.

import { api } from "../api.js";

/** @import { Transport } from "../../types" */

/** Without any progress for this time, the connection is lost. */
const SILENCE = 30_000;

/** @param {Uint8Array<ArrayBuffer>} body @param {(progress: number) => void} report from 0 to 1 @returns {Transport} */
export const withProgress = (body, report) => (path, { method = "POST", headers, signal }) => new Promise((resolve, reject) => {
  const request = new XMLHttpRequest();
  let silence = 0;
  const wait = () => {
    clearTimeout(silence);
    silence = setTimeout(() => request.abort(), SILENCE);
  };
  request.open(method, new URL(`v1/${path}`, document.baseURI));
  for (const [name, value] of Object.entries({ Authorization: `Bearer ${api.key}`, ...headers })) request.setRequestHeader(name, value);
  request.upload.onprogress = ({ loaded, total }) => {
    wait();
    report(loaded / total);
  };
  request.onload = () => {
    if (request.status === 401) api.onUnauthorized();
    const lines = request.getAllResponseHeaders().trim().split("\r\n");
    resolve(new Response(request.responseText, {
      status: request.status,
      headers: lines.map((line) => /** @type {[string, string]} */ (line.split(/: (.*)/s).slice(0, 2))),
    }));
  };
  request.onerror = request.onabort = () => reject(new Error("The connection was lost."));
  request.onloadend = () => clearTimeout(silence);
  if (signal?.aborted) return reject(signal.reason);
  signal?.addEventListener("abort", () => request.abort());
  wait();
  request.send(body);
});
