import { useLayoutEffect } from 'preact/hooks';
import type { ExplainReport, WaitingReport } from '../../api/index.ts';
import { migrationText } from '../migration-text.ts';
import { nextTryText } from '../next-try.ts';
import type { VmRow } from '../rows.ts';
import { waitingState } from '../waiting-state.ts';
import { Card, type Fact, Facts } from './elements.tsx';
import { type ExplainDeed, type ExplainMoment, isText, momentsOf } from './explain-model.ts';
import { useOwned } from './owned.ts';
import { Poll, Polled } from './polled.tsx';
import { notesOf, noteText } from './row-model.ts';
import { CallError, explanationOf, type Vm, waitingOf } from './server-calls.ts';
import { ago, capitalised, messageOf } from './words.ts';

/** What is known of a VM; one of the two, or both of one that was here and is to come again. */
interface Explained {
  readonly report?: ExplainReport;
  readonly waiting?: WaitingReport;
}

/** Of what no agent has, API and virt-controller know why. Rejects with CallError. */
export async function explained(vm: Vm, signal: AbortSignal): Promise<Explained> {
  const report = await explanationOf(vm, signal).catch((error: unknown) => {
    if (isUnknown(error)) return error;
    throw error;
  });
  if (report instanceof CallError) {
    const waiting = await waitingOf(vm, signal);
    if (waiting) return { waiting };
    throw report;
  }
  const isOver = report.goneAt !== undefined && !report.decisions.at(-1)?.seen.vmi.moved;
  // What was decided is shown, whatever else cannot be had.
  const waiting = isOver ? await waitingOf(vm, signal).catch(() => undefined) : undefined;
  return { report, ...(waiting && { waiting }) };
}

function isUnknown(error: unknown): error is CallError {
  return error instanceof CallError && error.httpStatus === 404;
}

/** What the agent decided about a VM, newest first, and what it waits for. */
export function ExplainPanel({ vm, row }: { readonly vm: Vm; readonly row: VmRow | undefined }) {
  const poll = useOwned(() => new Poll((signal) => explained(vm, signal)));
  // A change of the row is most often one of the agent's decisions, too.
  useLayoutEffect(() => void poll.now(), [poll, row]);
  return (
    <div class="why">
      {row && <Notes row={row} />}
      <Polled poll={poll} failureText={failureText}>
        {({ report, waiting }) => (
          <>
            {waiting && <WaitingCard report={waiting} />}
            {report && <Report report={report} />}
          </>
        )}
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
  if (isUnknown(error)) {
    return 'The agent has decided nothing about this virtual machine: it has not run here since the agent started.';
  }
  return `The decisions cannot be shown: ${messageOf(error)}`;
}

/** There is no room for more beside the text. */
function shortKind(kind: string): string {
  return kind === 'VirtualMachineInstance' ? 'Instance' : 'Machine';
}

/** As `virt-node explain` tells it. */
export function WaitingCard({ report }: { readonly report: WaitingReport }) {
  const { at, waitsFor, todo, decided = [], warnings } = report;
  return (
    <Card title="On no node">
      <Facts
        facts={[
          { term: 'Is', text: waitingState(report) },
          { term: 'Waits for', text: waitsFor },
          ...(todo.length > 0 ? [{ term: 'What to do', text: todo.join('; ') }] : []),
          ...decided.flatMap(({ about, rule, why, next, problem }) => [
            { term: shortKind(about), text: `${why} (rule ${rule}; next: ${next})` },
            ...(problem === undefined ? [] : [{ term: `${shortKind(about)}, problem`, text: problem, isBad: true }]),
          ]),
        ]}
      />
      {warnings.length > 0 && (
        <ul class="notes">
          {warnings.map((event) => (
            <li key={`${event.at} ${event.reason}`}>
              {event.reason}: {event.message} <span class="when">{ago(event.at, Date.parse(at))}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
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
