import { useLayoutEffect } from 'preact/hooks';
import type { ExplainReport } from '../../api/index.ts';
import { migrationText } from '../migration-text.ts';
import { nextTryText } from '../next-try.ts';
import type { VmRow } from '../rows.ts';
import { Card, type Fact, Facts } from './elements.tsx';
import { type ExplainDeed, type ExplainMoment, isText, momentsOf } from './explain-model.ts';
import { useOwned } from './owned.ts';
import { Poll, Polled } from './polled.tsx';
import { notesOf, noteText } from './row-model.ts';
import { CallError, explanationOf, type Vm } from './server-calls.ts';
import { ago, capitalised, messageOf } from './words.ts';

/** What the agent decided about a VM, newest first, and what it waits for. */
export function ExplainPanel({ vm, row }: { readonly vm: Vm; readonly row: VmRow | undefined }) {
  const poll = useOwned(() => new Poll((signal) => explanationOf(vm, signal)));
  // A change of the row is most often one of the agent's decisions, too.
  useLayoutEffect(() => void poll.now(), [poll, row]);
  return (
    <div class="why">
      {row && <Notes row={row} />}
      <Polled poll={poll} failureText={failureText}>
        {(report) => <Report report={report} />}
      </Polled>
    </div>
  );
}

/** Of what the agent never saw, an image that is not there for one, the conditions are the only reason there is. */
export function Notes({ row }: { readonly row: VmRow }) {
  const notes = notesOf(row).map(noteText);
  if (notes.length === 0) return null;
  return (
    <Card title="What is not fine">
      <ul class="notes">
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </Card>
  );
}

function failureText(error: unknown): string {
  if (error instanceof CallError && error.httpStatus === 404) {
    return 'The agent has decided nothing about this virtual machine: it has not run here since the agent started.';
  }
  return `The decisions cannot be shown: ${messageOf(error)}`;
}

export function Report({ report }: { readonly report: ExplainReport }) {
  const at = Date.parse(report.at);
  return (
    <div class="why">
      <Card title="Now">
        <Facts facts={factsNow(report, at)} />
      </Card>
      <Card title="What was decided">
        <ol class="timeline">
          {momentsOf(report).map((moment) => (
            <Moment key={`${moment.rule} ${moment.at}`} moment={moment} at={at} />
          ))}
        </ol>
      </Card>
    </div>
  );
}

function factsNow(
  { decisions, problem, quarantine, goneAt, nextTry, migration }: ExplainReport,
  at: number,
): readonly Fact[] {
  const last = decisions.at(-1);
  const facts: Fact[] = [];
  if (goneAt !== undefined) facts.push({ term: last?.seen.vmi.moved ? 'Moved away' : 'Gone', text: ago(goneAt, at) });
  if (last) facts.push({ term: 'Is', text: isText(last) }, { term: 'Because', text: last.why });
  if (migration) facts.push({ term: 'Moves', text: capitalised(migrationText(migration)) });
  if (problem !== undefined) facts.push({ term: 'Problem', text: problem, isBad: true });
  if (quarantine) {
    const since = `${quarantine.where} failed ${quarantine.failures} times in a row, since ${ago(quarantine.since, at)}`;
    const text = `${since}; it is tried at long intervals, and at once when something changes`;
    facts.push({ term: 'Quarantine', text, isBad: true });
  }
  return [...facts, { term: 'Next', text: nextTryText(nextTry) }];
}

function Moment({ moment, at }: { readonly moment: ExplainMoment; readonly at: number }) {
  return (
    <li class={moment.isTrouble ? 'is-trouble' : ''}>
      <p class="when">
        <time datetime={moment.at}>{ago(moment.at, at)}</time>
        {moment.repeated && ` · ${moment.repeated}`}
      </p>
      <h3>{capitalised(moment.why)}</h3>
      <p class="seen">{moment.seen}</p>
      {moment.did.length > 0 && (
        <ul class="deeds">
          {moment.did.map((deed) => (
            <Deed key={deed.text} deed={deed} />
          ))}
        </ul>
      )}
      <p class="rule">
        rule <code>{moment.rule}</code>
      </p>
    </li>
  );
}

function Deed({ deed: { text, outcome, because } }: { readonly deed: ExplainDeed }) {
  return (
    <li data-outcome={outcome}>
      {text}
      {because !== undefined && <span class="because">{because}</span>}
    </li>
  );
}
