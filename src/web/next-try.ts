import type { ExplainTry } from '../api/index.ts';
import { durationText } from './duration.ts';

function failuresText(inARow: number): string {
  if (inARow <= 1) return inARow === 1 ? '; 1 failure' : '';
  return `; ${inARow} failures in a row`;
}

/** For people: when the agent looks at a VM again, and why then. */
export function nextTryText({ state, inMs = 0, forMs = 0, because, failuresInARow }: ExplainTry): string {
  const failures = failuresText(failuresInARow);
  switch (state) {
    case 'running':
      return `its launcher or the API server is being asked, for ${durationText(forMs)}${failures}`;
    case 'queued':
      return `now: it waits for its turn${failures}`;
    case 'waiting':
      return `in ${durationText(inMs)}: ${because}${failures}`;
    case 'idle':
      return because;
  }
}
