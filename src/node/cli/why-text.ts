import type { WhyDecision, WhyItem, WhyList, WhyReport, WhyStep, WhyTry } from '../../api/index.ts';

const decisionsShown = 12;

/** A VMI's story for a person: what is, why, what is awaited, and how it came about. Lines without their ends. */
export function whyStory(report: WhyReport): string[] {
  const { namespace, name, node, at, goneAt, decisions, quarantine } = report;
  const last = decisions.at(-1);
  const left = goneAt === undefined ? '' : `, gone ${ago(goneAt, at)}`;
  if (!last) return [`${namespace}/${name} on node ${node}${left}: nothing was decided yet`];
  const since = last.times > 1 ? `decided ${last.times} times, first ${ago(last.firstAt, at)}, ` : '';
  return [
    `${namespace}/${name} on node ${node}${left}`,
    `  is       ${picture(last)}`,
    `  because  ${last.why}`,
    `           rule ${last.rule}, ${since}last ${ago(last.lastAt, at)}`,
    `  next     ${nextOf(report.nextTry)}`,
    ...(last.problem === undefined ? [] : [`  problem  ${last.problem}`]),
    ...(quarantine
      ? [
          `  quarantine since ${ago(quarantine.since, at)}: ${quarantine.where} failed ${quarantine.failures} times in a row; it is ` +
            'tried at long intervals, and at once when the VMI or its guest changes',
        ]
      : []),
    '',
    ...table(
      ['AGO', 'TIMES', 'RULE', 'SAW', 'DID', 'WROTE'],
      decisions.slice(-decisionsShown).map((decision) => row(decision, at)),
    ),
    ...(decisions.length > decisionsShown
      ? [`${decisions.length - decisionsShown} older decisions are not shown: -o json has them`]
      : []),
  ];
}

/** One line per VMI. */
export function whyTable({ items, node, at }: WhyList): string[] {
  if (items.length === 0) return [`the agent of node ${node} has decided nothing since it started: no VMI is here`];
  return table(
    ['NAMESPACE', 'NAME', 'PHASE', 'GUEST', 'RULE', 'SINCE', 'NEXT', 'PROBLEM'],
    items.map((item) => [
      item.namespace,
      item.name,
      item.goneAt === undefined ? item.phase || '-' : `gone ${ago(item.goneAt, at)}`,
      item.domain,
      item.rule,
      ago(item.since, at),
      shortNext(item),
      item.problem === undefined ? '-' : short(item.problem, 60),
    ]),
  );
}

function row(decision: WhyDecision, at: string): string[] {
  const { newPhase, patch = [], events = [], write } = decision;
  const changes = [...(newPhase ? [`phase ${newPhase}`] : []), ...patch, ...events.map((reason) => `event ${reason}`)];
  const failed = write.because === undefined ? '' : `${write.outcome}: ${short(write.because, 60)}`;
  const wrote = [...changes, ...(failed ? [failed] : write.outcome === 'written' ? ['status'] : [])];
  return [
    ago(decision.lastAt, at).replace(' ago', ''),
    String(decision.times),
    decision.rule,
    short(picture(decision), 48),
    decision.steps.map(stepText).join(', ') || '-',
    wrote.join(', ') || '-',
  ];
}

function picture({ seen }: WhyDecision): string {
  const { vmi, domain, launcher } = seen;
  const phase = vmi.kind === 'present' ? vmi.phase || 'no phase' : `VMI ${vmi.kind}`;
  const ends = vmi.deletionTimestamp === undefined ? '' : ', being deleted';
  const proof = domain.proof === undefined ? '' : ` (${domain.proof})`;
  const guest = domain.kind === 'present' ? `guest ${domain.status}/${domain.reason}` : `guest ${domain.kind}${proof}`;
  return `${phase}${ends}, ${guest}, launcher ${launcher.kind}`;
}

function stepText({ step, outcome, tookMs, because }: WhyStep): string {
  if (outcome === 'not-reached') return `(${step})`;
  const time = tookMs === undefined ? '' : ` ${duration(tookMs)}`;
  return outcome === 'done' ? `${step}${time}` : `${step} ${outcome}${time}: ${short(because ?? '', 60)}`;
}

function nextOf({ state, inMs, because, failuresInARow }: WhyTry): string {
  const failures = failuresInARow > 0 ? `; ${failuresInARow} failures in a row` : '';
  switch (state) {
    case 'running':
      return `it is being looked at now${failures}`;
    case 'queued':
      return `now: it waits for its turn${failures}`;
    case 'waiting':
      return `in ${duration(inMs ?? 0)}: ${because}${failures}`;
    case 'idle':
      return because;
  }
}

function shortNext({ nextTry, quarantined }: WhyItem): string {
  const when =
    nextTry.state === 'waiting' ? `in ${duration(nextTry.inMs ?? 0)}` : nextTry.state === 'idle' ? 'on change' : 'now';
  return quarantined ? `${when} (quarantine)` : when;
}

function ago(time: string, at: string): string {
  return `${duration(Math.max(0, Date.parse(at) - Date.parse(time)))} ago`;
}

function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} d`;
}

function short(text: string, limit: number): string {
  const line = text.replaceAll(/\s+/g, ' ');
  return line.length <= limit ? line : `${line.slice(0, limit - 1)}…`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((cells) => (cells[at] ?? '').length)));
  return [head, ...rows].map((cells) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
