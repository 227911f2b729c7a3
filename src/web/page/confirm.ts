import { el } from './dom.ts';

/** Asks, in a dialog that Escape refuses. The focus goes back to where it was. */
export function confirmed(question: string, yes: string, isHarsh: boolean): Promise<boolean> {
  return new Promise((resolve) => {
    const text = el('p', { id: 'question' }, question);
    const go = el('button', { type: 'submit', value: 'yes', class: isHarsh ? 'harsh' : 'primary' }, yes);
    const buttons = el(
      'div',
      { class: 'buttons' },
      el('button', { type: 'submit', value: 'no', autofocus: true }, 'Cancel'),
      go,
    );
    const dialog = el('dialog', { 'aria-labelledby': 'question' }, el('form', { method: 'dialog' }, text, buttons));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
