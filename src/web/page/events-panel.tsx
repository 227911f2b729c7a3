import { useLayoutEffect } from 'preact/hooks';
import type { VmRow } from '../rows.ts';
import { Card, Nothing, Table } from './elements.tsx';
import { type EventLine, eventLines } from './events-model.ts';
import { eventsOf } from './kube-calls.ts';
import { useOwned } from './owned.ts';
import { Poll, Polled } from './polled.tsx';
import type { Vm } from './server-calls.ts';
import { ago, messageOf } from './words.ts';

/** What happened to a VM, its instance and its pods, newest first. */
export function EventsPanel({ vm, row }: { readonly vm: Vm; readonly row: VmRow | undefined }) {
  const poll = useOwned(() => new Poll((signal) => eventsOf(vm, signal)));
  useLayoutEffect(() => void poll.now(), [poll, row]);
  return (
    <Card title="Events">
      <Polled poll={poll} failureText={(error) => `Its events cannot be shown: ${messageOf(error)}`}>
        {(events) => <Events lines={eventLines(events)} nowMs={Date.now()} />}
      </Polled>
    </Card>
  );
}

const head = ['When', 'Reason', 'What', 'Of'];

export function Events({ lines, nowMs }: { readonly lines: readonly EventLine[]; readonly nowMs: number }) {
  if (lines.length === 0) return <Nothing>Nothing was reported in the last hour.</Nothing>;
  return (
    <div class="events">
      <Table head={head}>
        {lines.map((line) => (
          <tr key={line.key} class={line.isWarning ? 'is-warning' : undefined}>
            <td class="when">
              <time datetime={line.at} title={line.at}>
                {ago(line.at, nowMs)}
              </time>
              {line.times > 1 && ` · ${line.times} times`}
            </td>
            <th scope="row">
              {line.isWarning && <span class="mark">Warning </span>}
              {line.reason}
            </th>
            <td class="message-text">{line.message}</td>
            <td class="of">{line.of}</td>
          </tr>
        ))}
      </Table>
    </div>
  );
}
