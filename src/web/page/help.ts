import { el } from './dom.ts';

interface Shortcut {
  readonly keys: string;
  readonly does: string;
}

const shortcuts: readonly Shortcut[] = [
  { keys: '?', does: 'this list' },
  { keys: 'g l', does: 'all virtual machines' },
  { keys: 'g a', does: 'the agent' },
  { keys: '/', does: 'find in the list' },
  { keys: 'j, k', does: 'next and previous in the list' },
  { keys: 'o, c, s, w', does: 'overview, console, screen and why of the virtual machine in focus' },
  { keys: 'Ctrl+Alt+Esc', does: 'leave the terminal or the screen' },
];

/** The keys of the page, in a dialog. */
export function showHelp(): void {
  if (document.querySelector('dialog[open]')) return;
  const terms = shortcuts.flatMap(({ keys, does }) => [
    el('dt', {}, ...keys.split(/(?<=[ ,])/).map((key) => el('kbd', {}, key.replace(',', '').trim()))),
    el('dd', {}, does),
  ]);
  const close = el('button', { type: 'submit', autofocus: true, class: 'primary' }, 'Close');
  const form = el(
    'form',
    { method: 'dialog' },
    el('h2', { id: 'help' }, 'Keys'),
    el('dl', { class: 'keys' }, ...terms),
    el('div', { class: 'buttons' }, close),
  );
  const dialog = el('dialog', { 'aria-labelledby': 'help' }, form);
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
