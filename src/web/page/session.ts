/** Of this origin, which only this start of the node has: pages of other ports and other programs cannot read it. */
const storageKey = 'virt-web-session';
const keyProtocolPrefix = 'bearer.virt-handler.io.';
let kept = '';

/**
 * Turns the token of the page's address into a session, and takes it out of the address. True when a session was made; without
 * a token nothing is asked. The token itself is kept nowhere.
 */
export async function enter(): Promise<boolean> {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (token === undefined) return false;
  history.replaceState(null, '', '#/');
  const answer = await fetch('/api/session', { method: 'POST', headers: { authorization: `Bearer ${token}` } });
  if (!answer.ok) return false;
  const made: unknown = await answer.json();
  keep(typeof made === 'object' && made !== null && 'key' in made ? String(made.key) : '');
  return true;
}

/** For `fetch`. */
export function authorization(): Record<string, string> {
  const key = read();
  return key === '' ? {} : { authorization: `Bearer ${key}` };
}

/** For a websocket, which takes no headers: the server takes the key out of the names of protocols. */
export function protocols(protocol: string): string[] {
  const key = read();
  return key === '' ? [protocol] : [protocol, `${keyProtocolPrefix}${key}`];
}

/** The server knows it no longer: `used` is what was sent, and another tab may have a new one. */
export function forget(used: Readonly<Record<string, string>>): void {
  if (used.authorization !== undefined && used.authorization === authorization().authorization) keep('');
}

/** Other tabs use it, too. */
function read(): string {
  try {
    return localStorage.getItem(storageKey) ?? kept;
  } catch {
    return kept;
  }
}

function keep(key: string): void {
  kept = key;
  try {
    localStorage.setItem(storageKey, key);
  } catch {
    // Storage is switched off: the session is this tab's.
  }
}
