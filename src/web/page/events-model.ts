import { textOf } from './json-fields.ts';
import type { EventObject } from './kube-calls.ts';

export interface EventLine {
  readonly key: string;
  /** RFC 3339 */
  readonly at: string;
  readonly times: number;
  readonly isWarning: boolean;
  readonly reason: string;
  readonly message: string;
  /** `Pod virt-launcher-demo-x7k2p` */
  readonly of: string;
}

/** Newest first. Total: whatever is written in them. */
export function eventLines(events: readonly EventObject[]): readonly EventLine[] {
  const written = ({ metadata }: EventObject) => Number(metadata.resourceVersion) || 0;
  // Of those of one second the one that was written last is first.
  const byWrite = [...events].sort((one, other) => written(other) - written(one));
  return byWrite.map(lineOf).sort((one, other) => Date.parse(other.at) - Date.parse(one.at) || 0);
}

function lineOf({ metadata, type, reason, message, count, involvedObject, ...times }: EventObject): EventLine {
  const { lastTimestamp, eventTime, firstTimestamp } = times;
  const at = [lastTimestamp, eventTime, firstTimestamp, metadata.creationTimestamp].find(Boolean);
  return {
    key: metadata.uid ?? metadata.name,
    at: textOf(at),
    times: typeof count === 'number' ? count : 1,
    isWarning: type === 'Warning',
    reason: textOf(reason),
    message: textOf(message),
    of: [textOf(involvedObject?.kind), textOf(involvedObject?.name)].filter(Boolean).join(' '),
  };
}
