import { render } from 'preact';
import { followVms } from './feed.ts';
import { Page } from './page.tsx';
import { PageState } from './page-state.ts';
import { parseRoute } from './route.ts';
import { enter } from './session.ts';
import { followKeys } from './shortcuts.ts';
import { applyKeptTheme } from './theme-button.tsx';

/** Ages are written anew. */
const tickMs = 15_000;

const state = new PageState();
applyKeptTheme();
render(<Page state={state} />, document.body);
followKeys(state);
setInterval(() => {
  state.nowMs.value = Date.now();
}, tickMs);
window.addEventListener('hashchange', () => void arrive());
let askAgain: (() => void) | undefined;
void arrive();

/** Also when an address with another token is put into a page that is open. */
async function arrive(): Promise<void> {
  const isNew = await enter().catch(() => false);
  state.route.value = parseRoute(location.hash);
  if (!askAgain) askAgain = followVms(state);
  else if (isNew) askAgain();
}
