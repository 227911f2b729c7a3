import { Component } from 'preact';
import type { VmRow } from '../rows.ts';
import { ActionButtons } from './action-buttons.tsx';
import { Badge, icon } from './elements.tsx';
import { MoveProgress } from './move-progress.tsx';
import { keyOfRow, type PageState } from './page-state.ts';
import { vmHref, vmTabLabels } from './route.ts';
import { type ActionOffer, hasGuest, notesOf, noteText, ownerText, sizeText, statusOf, toneOf } from './row-model.ts';
import { Thumbnail, type Thumbnails } from './thumbnails.tsx';
import { age } from './words.ts';

const isInFront = ({ action }: ActionOffer) => ['start', 'stop', 'pause', 'unpause'].includes(action);
const isInMenu = (offer: ActionOffer) => !isInFront(offer);

interface VmListItemProps {
  readonly state: PageState;
  readonly row: VmRow;
  readonly thumbnails: Thumbnails;
}

/** A VM in the list. Five hundred of them are compared at each change of one: rows are replaced, never changed. */
export class VmListItem extends Component<VmListItemProps> {
  override shouldComponentUpdate({ row }: VmListItemProps): boolean {
    return row !== this.props.row;
  }

  render({ state, row, thumbnails }: VmListItemProps) {
    const { namespace, name, createdAt, vmi } = row;
    const [note] = notesOf(row).map(noteText);
    const tone = toneOf(row);
    return (
      <li class={tone === 'bad' ? 'vm is-failed' : 'vm'} data-key={keyOfRow(row)}>
        <Select state={state} row={row} />
        {/* biome-ignore lint/a11y: a larger target for the mouse; "Screen of …" below is the same link for all others */}
        <a class="shot" href={vmHref(row, 'screen')} tabindex={-1} aria-hidden="true">
          {icon('screen')}
          <Thumbnail of={row} thumbnails={thumbnails} width={192} height={120} />
        </a>
        <div class="vm-name">
          <h2>
            <a href={vmHref(row, 'overview')} title={name}>
              {name}
            </a>
          </h2>
          <p class="namespace">{[namespace, ownerText(row)].filter(Boolean).join(' · ')}</p>
        </div>
        <div class="vm-status">
          <Badge text={statusOf(row)} tone={tone} />
        </div>
        <div class="vm-said">
          {note !== undefined && <p class={tone === 'bad' ? 'note is-bad' : 'note'}>{note}</p>}
          <MoveProgress row={row} />
        </div>
        <div class="vm-guest">
          <span class="guest-os">{vmi?.guestOs}</span>
          <span class="ip">{vmi?.ip}</span>
          <OnNode state={state} row={row} />
        </div>
        <p class="vm-size">{sizeText(row)}</p>
        <div class="vm-age">
          <Age state={state} createdAt={createdAt} drawnAtMs={Date.now()} />
        </div>
        <div class="vm-actions">
          <StreamLink row={row} tab="console" />
          <StreamLink row={row} tab="screen" />
          <ActionButtons class="group" state={state} row={row} only={isInFront} />
          <Menu state={state} row={row} />
        </div>
      </li>
    );
  }
}

/** Of its own, too: the line is not drawn anew because others are chosen. */
function Select({ state, row }: Omit<VmListItemProps, 'thumbnails'>) {
  const key = keyOfRow(row);
  if (state.rights.value.isLookOnly) return <span class="vm-select" />;
  return (
    <input
      type="checkbox"
      class="vm-select"
      aria-label={`Select ${row.name}`}
      checked={state.selected.value.has(key)}
      onChange={({ currentTarget }) => state.select([key], currentTarget.checked)}
    />
  );
}

/** A component of its own: the line is not drawn anew because there is another node. */
function OnNode({ state, row: { vmi } }: Omit<VmListItemProps, 'thumbnails'>) {
  if (!state.hasNodes.value || vmi?.node === undefined) return null;
  return <span class="on-node">on {vmi.node}</span>;
}

interface AgeProps {
  readonly state: PageState;
  readonly createdAt: string;
  readonly drawnAtMs: number;
}

function Age({ state, createdAt, drawnAtMs }: AgeProps) {
  return (
    <time class="age" datetime={createdAt} title={`created ${new Date(createdAt).toLocaleString()}`}>
      {age(createdAt, Math.max(drawnAtMs, state.nowMs.value))}
    </time>
  );
}

function StreamLink({ row, tab }: { readonly row: VmRow; readonly tab: 'console' | 'screen' }) {
  const label = vmTabLabels[tab];
  return (
    <a
      class="button"
      href={vmHref(row, tab)}
      aria-label={`${label} of ${row.name}`}
      aria-disabled={hasGuest(row) ? undefined : 'true'}>
      {icon(tab)}
      <span>{label}</span>
    </a>
  );
}

/** Open as long as the focus is in it. */
function Menu({ state, row }: Omit<VmListItemProps, 'thumbnails'>) {
  return (
    <details class="menu" onFocusOut={closeWhenLeft} onKeyDown={closeByEscape} onClickCapture={closeWhenChosen}>
      <summary class="button" aria-label={`More for ${row.name}`}>
        {icon('more')}
      </summary>
      <div class="menu-items">
        <ActionButtons class="group" state={state} row={row} only={isInMenu} />
        <a class="button" href={vmHref(row, 'events')}>
          {icon('events')}
          <span>Events</span>
        </a>
        <a class="button" href={vmHref(row, 'why')}>
          {icon('why')}
          <span>Why is it so?</span>
        </a>
      </div>
    </details>
  );
}

type MenuEvent<E extends Event> = E & { readonly currentTarget: HTMLDetailsElement };

function closeWhenLeft({ currentTarget: menu, relatedTarget }: MenuEvent<FocusEvent>): void {
  if (relatedTarget instanceof Node && menu.contains(relatedTarget)) return;
  // Nothing is focused while a button inside is pressed with a mouse in some browsers.
  if (relatedTarget || !menu.matches(':hover')) menu.open = false;
}

function closeByEscape({ currentTarget: menu, key }: MenuEvent<KeyboardEvent>): void {
  if (key !== 'Escape' || !menu.open) return;
  menu.open = false;
  menu.querySelector('summary')?.focus();
}

function closeWhenChosen({ currentTarget: menu, target }: MenuEvent<MouseEvent>): void {
  if (!(target instanceof Element && target.closest('.menu-items'))) return;
  // Before what was chosen is done: a question gives the focus back to where it was, and not to what is in a closed menu.
  menu.querySelector('summary')?.focus();
  menu.open = false;
}
