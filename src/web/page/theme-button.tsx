import { useEffect, useState } from 'preact/hooks';
import { icon } from './elements.tsx';

type Theme = 'light' | 'dark';

const key = 'virt-web-theme';
const preference = '(prefers-color-scheme: dark)';

/** Dark and light as the system says, until a user chooses; the choice is kept in this browser. */
export function ThemeButton() {
  const [theme, setTheme] = useState(current);
  useEffect(() => {
    const system = matchMedia(preference);
    const follow = () => setTheme(current());
    system.addEventListener('change', follow);
    return () => system.removeEventListener('change', follow);
  }, []);
  const other: Theme = theme === 'dark' ? 'light' : 'dark';
  const label = `Switch to ${other} colours`;
  const choose = () => {
    document.documentElement.dataset.theme = other;
    setTheme(other);
    keep(other);
  };
  return (
    <button type="button" class="plain" aria-label={label} title={label} onClick={choose}>
      {icon('theme')}
    </button>
  );
}

/** Before anything is drawn. */
export function applyKeptTheme(): void {
  const kept = read();
  if (kept) document.documentElement.dataset.theme = kept;
}

function current(): Theme {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === 'dark' || chosen === 'light') return chosen;
  return matchMedia(preference).matches ? 'dark' : 'light';
}

function keep(theme: Theme): void {
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
