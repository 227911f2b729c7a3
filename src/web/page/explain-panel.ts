import type { ExplainReport } from '../../api/index.ts';
import { nextTryText } from '../next-try.ts';
import type { VmRow } from '../rows.ts';
import { el } from './dom.ts';
import { type ExplainDeed, type ExplainMoment, isText, momentsOf } from './explain-model.ts';
import { card, type Fact, factList } from './facts.ts';
import type { Panel } from './panel.ts';
import { notesOf, noteText } from './row-model.ts';
import { CallError, explanationOf } from './server-calls.ts';
import { ago, capitalised } from './words.ts';

const everyMs = 3_000;

/** What the agent decided about a VM, newest first, and what it waits for. */
export class ExplainPanel implements Panel {
  readonly element: HTMLElement;
  readonly #notes = el('div', { hidden: true });
  readonly #story = el('div', { class: 'why' }, el('p', { class: 'nothing' }, 'Asking the agent…'));
  readonly #vm: { readonly namespace: string; readonly name: string };
  readonly #ending = new AbortController();
  #timer: number | undefined;
  #isAsking = false;
  #shown = '';
  #row: VmRow | undefined;

  constructor(vm: { readonly namespace: string; readonly name: string }) {
    this.#vm = vm;
    this.element = el('div', { class: 'why' }, this.#notes, this.#story);
    void this.#ask();
  }

  /** A change of the row is most often one of the agent's decisions, too. */
  update(row: VmRow | undefined): void {
    if (row === this.#row) return;
    this.#row = row;
    // Of what the agent never saw, an image that is not there for one, the conditions are the only reason there is.
    const notes = row ? notesOf(row).map((note) => el('li', {}, noteText(note))) : [];
    this.#notes.hidden = notes.length === 0;
    this.#notes.replaceChildren(card('What is not fine', el('ul', { class: 'notes' }, ...notes)));
    void this.#ask();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#ending.abort();
  }

  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    clearTimeout(this.#timer);
    this.#isAsking = true;
    try {
      if (!document.hidden) this.#show(await explanationOf(this.#vm, this.#ending.signal));
    } catch (error) {
      if (!this.#ending.signal.aborted) this.#showFailure(error);
    } finally {
      this.#isAsking = false;
      if (!this.#ending.signal.aborted) this.#timer = setTimeout(() => void this.#ask(), everyMs);
    }
  }

  #show(report: ExplainReport): void {
    const moments = momentsOf(report);
    // What is open or selected stays so while nothing new was decided.
    const shown = JSON.stringify([moments, report.problem, report.quarantine, report.goneAt]);
    const at = Date.parse(report.at);
    if (shown === this.#shown) this.#refresh(report, at);
    else this.#story.replaceChildren(nowCard(report, at), timeline(moments, at));
    this.#shown = shown;
  }

  /** Only what changes by the passing of time. */
  #refresh(report: ExplainReport, at: number): void {
    this.#story.querySelector('.next')?.replaceChildren(nextTryText(report.nextTry));
    for (const time of this.#story.querySelectorAll('time')) time.textContent = ago(time.dateTime, at);
  }

  #showFailure(error: unknown): void {
    this.#shown = '';
    const isUnknown = error instanceof CallError && error.httpStatus === 404;
    const text = isUnknown
      ? 'The agent has decided nothing about this virtual machine: it has not run here since the agent started.'
      : `The decisions cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
    this.#story.replaceChildren(el('p', { class: 'nothing' }, text));
  }
}

function nowCard(report: ExplainReport, at: number): HTMLElement {
  const { decisions, problem, quarantine, goneAt, nextTry } = report;
  const last = decisions.at(-1);
  const facts: Fact[] = [];
  if (goneAt !== undefined) facts.push({ term: 'Gone', text: ago(goneAt, at) });
  if (last) facts.push({ term: 'Is', text: isText(last) }, { term: 'Because', text: last.why });
  if (problem !== undefined) facts.push({ term: 'Problem', text: problem, class: 'is-bad' });
  if (quarantine) {
    const since = `${quarantine.where} failed ${quarantine.failures} times in a row, since ${ago(quarantine.since, at)}`;
    const text = `${since}; it is tried at long intervals, and at once when something changes`;
    facts.push({ term: 'Quarantine', text, class: 'is-bad' });
  }
  facts.push({ term: 'Next', text: nextTryText(nextTry), class: 'next' });
  return card('Now', factList(facts));
}

function timeline(moments: readonly ExplainMoment[], at: number): HTMLElement {
  const items = moments.map((moment) =>
    el(
      'li',
      { class: moment.isTrouble ? 'is-trouble' : '' },
      el(
        'p',
        { class: 'when' },
        el('time', { datetime: moment.at }, ago(moment.at, at)),
        moment.repeated && ` · ${moment.repeated}`,
      ),
      el('h3', {}, capitalised(moment.why)),
      el('p', { class: 'seen' }, moment.seen),
      moment.did.length > 0 && el('ul', { class: 'deeds' }, ...moment.did.map(deed)),
      el('p', { class: 'rule' }, 'rule ', el('code', {}, moment.rule)),
    ),
  );
  return card('What was decided', el('ol', { class: 'timeline' }, ...items));
}

function deed({ text, outcome, because }: ExplainDeed): HTMLElement {
  return el(
    'li',
    { 'data-outcome': outcome },
    text,
    because !== undefined && el('span', { class: 'because' }, because),
  );
}
