import type { ServerResponse } from 'node:http';

/** Longest wait for the agent's answer about decisions, and for the API's. */
const answerTimeoutMs = 15_000;

/** Fires when the client has gone, or has waited for long enough. */
export function whileAsked(response: ServerResponse): { readonly signal: AbortSignal; readonly done: () => void } {
  const ending = new AbortController();
  const onClose = () => ending.abort(new Error('the client has gone'));
  const timer = setTimeout(() => ending.abort(new Error('there was no answer in time')), answerTimeoutMs);
  response.once('close', onClose);
  const done = () => {
    clearTimeout(timer);
    response.removeListener('close', onClose);
  };
  return { signal: ending.signal, done };
}
