import { el, icon, setAttribute } from './dom.ts';

type Theme = 'light' | 'dark';

const key = 'virt-web-theme';
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

/** Dark and light as the system says, until somebody chooses; the choice is kept in this browser. */
export function themeButton(): HTMLButtonElement {
  const button = el('button', { type: 'button', class: 'plain' }, icon('theme'), el('span', { class: 'wide-only' }));
  const show = () => {
    const other = current() === 'dark' ? 'light' : 'dark';
    setAttribute(button, 'aria-label', `Switch to ${other} colours`);
    button.title = `Switch to ${other} colours`;
  };
  button.addEventListener('click', () => {
    apply(current() === 'dark' ? 'light' : 'dark');
    show();
  });
  prefersDark.addEventListener('change', show);
  const kept = read();
  if (kept) apply(kept, false);
  show();
  return button;
}

function current(): Theme {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === 'dark' || chosen === 'light') return chosen;
  return prefersDark.matches ? 'dark' : 'light';
}

function apply(theme: Theme, keep = true): void {
  document.documentElement.dataset.theme = theme;
  if (!keep) return;
  try {
    localStorage.setItem(key, theme);
  } catch {
    // Storage is switched off: the choice is for this visit.
  }
}

function read(): Theme | undefined {
  try {
    const kept = localStorage.getItem(key);
    return kept === 'dark' || kept === 'light' ? kept : undefined;
  } catch {
    return undefined;
  }
}
