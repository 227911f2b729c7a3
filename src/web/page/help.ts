import { el } from './dom.ts';

/** Keys, and what they do. */
const shortcuts: readonly (readonly [keys: readonly string[], does: string])[] = [
  [['?'], 'this list'],
  [['g', 'l'], 'all virtual machines'],
  [['g', 'a'], 'the agent'],
  [['/'], 'find in the list'],
  [['j', 'k'], 'next and previous in the list'],
  [['o', 'c', 's', 'w'], 'overview, console, screen and why of the virtual machine in focus'],
  [['Ctrl+Alt+Esc'], 'leave the terminal or the screen'],
];

/** The keys of the page, in a dialog. */
export function showHelp(): void {
  if (document.querySelector('dialog[open]')) return;
  const terms = shortcuts.flatMap(([keys, does]) => [
    el('dt', {}, ...keys.map((key) => el('kbd', {}, key))),
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
