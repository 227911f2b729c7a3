import type { PageState } from './page-state.ts';
import { parseRoute, type VmTab, vmHref } from './route.ts';

const goes: Readonly<Record<string, string>> = { l: '#/', i: '#/images', t: '#/types', a: '#/agent' };
const tabs: Readonly<Record<string, VmTab>> = {
  ...{ o: 'overview', c: 'console', s: 'screen', w: 'why' },
  ...{ d: 'devices', p: 'snapshots', e: 'events', l: 'logs', y: 'yaml', u: 'timeline' },
};
const secondKeyMs = 1_500;

/** Keys of the page; those typed into a field, a terminal or a screen are not its business. */
export function followKeys(state: PageState): void {
  let wentAtMs = Number.NEGATIVE_INFINITY;
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || isTypedInto(event.target)) return;
    const { key } = event;
    const isSecond = performance.now() - wentAtMs < secondKeyMs;
    wentAtMs = key === 'g' ? performance.now() : Number.NEGATIVE_INFINITY;
    const href = isSecond ? goes[key] : undefined;
    const tab = tabs[key];
    if (href !== undefined) location.hash = href;
    else if (key === '?') showHelp(state);
    else if (key === '/') document.querySelector<HTMLElement>('#filter:not([hidden])')?.focus();
    else if (key === 'n' && state.rights.value.canWrite) location.hash = '#/new';
    else if (key === 'x') select(state);
    else if (key === 'j' || key === 'k') step(key === 'j' ? 1 : -1);
    else if (tab !== undefined) open(tab);
    else return;
    event.preventDefault();
  });
}

export function showHelp(state: PageState): void {
  if (!document.querySelector('dialog[open]')) state.isHelpOpen.value = true;
}

function isTypedInto(target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  return target.closest('input:not([type=checkbox]), select, textarea, dialog, .serial, .screen') !== null;
}

/** Of the VM in focus, or the one that is shown. */
function open(tab: VmTab): void {
  const key = document.activeElement?.closest<HTMLElement>('.vm')?.dataset.key;
  const [namespace, name] = key?.split('/') ?? [];
  const route = parseRoute(location.hash);
  if (namespace !== undefined && name !== undefined) location.hash = vmHref({ namespace, name }, tab);
  else if (route.view === 'vm') location.hash = vmHref(route, tab);
}

/** The VM in focus, or no longer. */
function select(state: PageState): void {
  const key = document.activeElement?.closest<HTMLElement>('.vm')?.dataset.key;
  if (key !== undefined && !state.rights.value.isLookOnly) state.select([key], !state.selected.value.has(key));
}

function step(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>('.vm h2 a')];
  const current = document.activeElement?.closest('.vm')?.querySelector<HTMLElement>('h2 a');
  const at = current ? links.indexOf(current) + by : 0;
  links[Math.max(0, Math.min(links.length - 1, at))]?.focus();
}
